/* Overflows that run out of a mapping of objects, upwards and downwards. Each must end at a guard page.
 * The case `places` prints where the first block, a later one and a large one lie, seen from the C library.
 * The case `objects` prints the low bits and the order of blocks.
 * The case `huge` prints how many mappings shall have huge pages, and how many shall not.
 *
 *     guards CASE */
#include "check.h"

enum { UNIT = 4 * MIB, LARGE = 100 * MIB, PAGE_BYTES = 4 * KIB };

static char *volatile block;

/* Whether /proc/self/maps shows the address in a mapping without access. Reads on its own stack only. */
static int is_in_guard(uintptr_t address) {
    static char text[MIB];
    int file = open("/proc/self/maps", O_RDONLY);
    size_t length = 0;
    for (ssize_t got; (got = read(file, text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    for (char *line = text; line && *line; line = strchr(line, '\n')) {
        char *rest = line += *line == '\n';
        uintptr_t start = strtoul(rest, &rest, 16), end = *rest ? strtoul(rest + 1, &rest, 16) : 0;
        if (start <= address && address < end)
            return strncmp(rest, " ---p", 5) == 0;
    }
    return 0;
}

static void faulted(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    _exit(is_in_guard((uintptr_t)info->si_addr) ? 0 : 1);
}

/* Children overflow the block on either side. */
static void overflow(void) {
    for (int step = -1; step <= 1; step += 2) {
        pid_t child = fork();
        CHECK(child >= 0, "fork failed with errno %d", errno);
        if (child == 0) {
            struct sigaction action = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO};
            sigaction(SIGSEGV, &action, NULL);
            sigaction(SIGBUS, &action, NULL);
            for (char volatile *at = block;; at += step * 16)
                *at = 1;
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "an overflow %s meets no guard page: status %x",
              step > 0 ? "upwards" : "downwards", (unsigned)status);
    }
}

static uintptr_t unit_of(const void *address) { return (uintptr_t)address / UNIT; }

static void first_segment(void) {
    block = malloc(40);
    overflow();
}

static void later_segment(void) {
    uintptr_t first = unit_of(malloc(40));
    do
        block = malloc(MIB);
    while (unit_of(block) == first);
    overflow();
}

static void large(void) {
    block = malloc(LARGE);
    overflow();
}

static void resized(void) {
    static const size_t sizes[] = {LARGE + PAGE_BYTES, LARGE + 50 * MIB, LARGE, LARGE - 10 * MIB, 2 * LARGE};
    block = malloc(LARGE);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(block, 1, PAGE_BYTES);
        block = realloc(block, sizes[i]);
        memset(block, 1, sizes[i]);
        overflow();
    }
    free(block);
}

static void places(void) {
    uintptr_t from = unit_of(stdout);
    char *volatile small = malloc(40), *volatile later = malloc(8 * MIB), *volatile large_block = malloc(LARGE);
    /* Whole units, because the kernel aligns the C library to pages at random. */
    uintptr_t first = unit_of(small);
    printf("%ld %ld %ld\n", (long)(first - from), (long)(unit_of(later) - first), (long)(unit_of(large_block) - first));
}

/* Prints the first bytes of spans that hold objects, and the order of the first objects. */
static void objects(void) {
    enum { SPAN = 64 * KIB, BLOCKS = 128 };
    free(malloc(MIB)); /* From here on, there is a heap. */
    for (size_t size = 48; size <= 112; size += 16)
        if (size != 64)
            printf("%zu,", (uintptr_t)malloc(size) % SPAN % size);
    char *volatile blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(240);
    printf(" %zu", (uintptr_t)malloc(624) % SPAN);
    for (int i = 1; i < BLOCKS; i++)
        printf("%c%td", i == 1 ? ' ' : ',', blocks[i] - blocks[0]);
    puts("");
}

/* A mapping's flags are the last line of its entry in smaps. The heap has several segments. */
static void huge(void) {
    enum { BLOCKS = 1000, BLOCK = 30000 };
    for (int i = 0; i < BLOCKS; i++)
        CHECK((block = malloc(BLOCK)), "there is memory");
    FILE *entries = fopen("/proc/self/smaps", "r");
    char line[512];
    int wanted = 0, unwanted = 0;
    while (entries && fgets(line, sizeof line, entries))
        if (strncmp(line, "VmFlags:", 8) == 0) {
            wanted += strstr(line, " hg") != NULL;
            unwanted += strstr(line, " nh") != NULL;
        }
    printf("%d %d\n", wanted, unwanted);
}

/* Prints the distances of the first blocks, before there is a heap. */
static void first_blocks(void) {
    enum { BLOCKS = 24, WORDS = 3 };
    char *volatile last = malloc(48);
    for (int i = 0; i < BLOCKS; i++) {
        char *volatile next = malloc(48);
        printf("%td%c", next - last, (i + 1) % (BLOCKS / WORDS) ? ',' : ' ');
        last = next;
    }
    puts("");
}

CHECK_TABLE({"first_segment", first_segment}, {"later_segment", later_segment}, {"large", large},
            {"resized", resized}, {"places", places}, {"objects", objects}, {"huge", huge},
            {"first_blocks", first_blocks});

int main(int count, char **arguments) {
    CHECK(count == 2, "usage: guards CASE");
    return run_named(count, arguments, checks);
}
