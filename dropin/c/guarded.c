/* Misuse of guarded blocks, and what must go on around them. COMMENSAL_CONF has guard:1, so that some are guarded.
 * The functions that allocate, free and access have names, which reports must lead to.
 *
 *     guarded [old] [early] CASE [NUMBER]
 *
 * old      the kernel cannot mark pages as guards
 * early    the program has its own handler for SIGSEGV before the library starts, which says so and ends it well */
#include "filter.h"

#include <malloc.h>
#include <sys/mman.h>

#pragma GCC diagnostic ignored "-Wfree-nonheap-object"
#pragma GCC diagnostic ignored "-Wuse-after-free"

#define NAMED __attribute__((noinline, noclone))

/* A size that no class has. A guarded block has as many bytes as were asked for; PLACES are guarded at most. */
enum { SIZE = 40, ROOM = 48, PAGE_BYTES = 4096, PLACES = 128, TRIES = 1000000 };

static char *volatile block;

NAMED static char *make_block(size_t size) {
    char *made = malloc(size);
    CHECK(made != NULL, "no memory");
    return made;
}

NAMED static void drop_block(void *old) {
    free(old);
    __asm__ volatile("" ::: "memory");
}

NAMED static void write_byte(char *at) { *(volatile char *)at = 'A'; }

NAMED static int read_byte(char *at) { return *(volatile char *)at; }

static int is_guarded(void *made) { return malloc_usable_size(made) == SIZE; }

static int is_at_end(char *made) { return ((uintptr_t)made + ROOM) % PAGE_BYTES == 0; }

static int is_at_start(char *made) { return (uintptr_t)made % PAGE_BYTES == 0; }

/* A guarded block at one end of its page. */
static char *guarded(int (*is_there)(char *)) {
    for (int i = 0; i < TRIES; i++) {
        char *made = make_block(SIZE);
        if (is_guarded(made) && is_there(made))
            return made;
        drop_block(made);
    }
    CHECK(0, "of %d blocks, none is guarded", TRIES);
    return NULL;
}

static void survived(void) { say("not found"); }

static void overflow(void) {
    block = guarded(is_at_end);
    write_byte(block + SIZE - 1 + number_argument(0, 1));
    survived();
}

static void underflow(void) {
    block = guarded(is_at_start);
    read_byte(block - number_argument(0, 1));
    survived();
}

static void read_after_free(void) {
    block = guarded(is_at_end);
    drop_block(block);
    read_byte(block + number_argument(0, 0));
    survived();
}

static void write_after_free(void) {
    block = guarded(is_at_start);
    drop_block(block);
    /* Those freed first are used again first. */
    for (int i = 0; i < PLACES / 8; i++)
        drop_block(guarded(is_at_end));
    write_byte(block + number_argument(0, 0));
    survived();
}

static void double_free(void) {
    block = guarded(is_at_end);
    drop_block(block);
    drop_block(block);
    survived();
}

static void interior(void) {
    block = guarded(is_at_end);
    drop_block(block + 16);
    survived();
    drop_block(block);
}

static void realloc_freed(void) {
    block = guarded(is_at_end);
    drop_block(block);
    CHECK(realloc(block, 100) == NULL && errno == EINVAL, "it was moved");
    survived();
}

/* In the rest of the page: nothing faults. */
static void slack(void) {
    block = guarded(is_at_end);
    write_byte(block + SIZE + 3);
    drop_block(block);
    survived();
}

static void slack_before(void) {
    block = guarded(is_at_end);
    write_byte(block - 2);
    drop_block(block);
    survived();
}

static void *on_small_stack(void *unused) {
    static char small[16 * KIB];
    stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
    CHECK(sigaltstack(&stack, NULL) == 0, "no signal stack");
    overflow();
    return unused;
}

static void overflow_in_thread(void) { thread_join(thread_start(on_small_stack, NULL)); }

static void *drop_in_thread(void *old) {
    drop_block(old);
    return NULL;
}

static void freed_by_thread(void) {
    block = guarded(is_at_end);
    thread_join(thread_start(drop_in_thread, block));
    read_byte(block);
    survived();
}

/* A fault that is none of the library's. */
static void own_fault(void) {
    block = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_byte(block);
    survived();
}

/* Faults that the program's handler mends by itself. */
static volatile int repairs;

static void mended_faults(void) {
    block = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++) {
        CHECK(mprotect(block, PAGE_BYTES, PROT_NONE) == 0, "mprotect failed with errno %d", errno);
        repairs = 1;
        write_byte(block);
        CHECK(repairs == 0, "nothing was mended in round %d", i);
    }
    say("mended");
}

static void sent(void) {
    kill(getpid(), SIGSEGV);
    survived();
}

/* Prints whether the process handles SIGSEGV, after so many blocks that one is guarded. */
static void handles(void) {
    for (int i = 0; i < 100000; i++) {
        void *volatile block = malloc(100);
        free(block);
    }
    char text[4096] = {0};
    int file = open("/proc/self/status", O_RDONLY);
    CHECK(read(file, text, sizeof text - 1) > 0, "no status");
    char *caught = strstr(text, "SigCgt:");
    CHECK(caught != NULL, "no line SigCgt");
    say((strtoull(caught + 7, NULL, 16) >> (SIGSEGV - 1) & 1) ? "handled" : "not handled");
}

/* -- All is well. -- */

enum { BLOCKS = 400, STEPS = 200000, LARGEST = 5000 };

static char *blocks[BLOCKS];
static size_t sizes[BLOCKS];

static void make_any(size_t i, uint64_t *random) {
    size_t size = sizes[i] = random_below(random, LARGEST), alignment = (size_t)16 << random_below(random, 9);
    switch (random_below(random, 4)) {
    case 0:
        blocks[i] = calloc(1, size);
        for (size_t at = 0; at < size; at++)
            CHECK(blocks[i][at] == 0, "byte %zu of calloc's %zu is not zero", at, size);
        break;
    case 1:
        CHECK(posix_memalign((void **)&blocks[i], alignment, size) == 0, "no memory");
        CHECK((uintptr_t)blocks[i] % alignment == 0, "%p is not aligned to %zu", (void *)blocks[i], alignment);
        break;
    default:
        blocks[i] = malloc(size);
    }
    CHECK(blocks[i] && (uintptr_t)blocks[i] % 16 == 0, "%p for %zu bytes", (void *)blocks[i], size);
    CHECK(malloc_usable_size(blocks[i]) >= size, "%zu of %zu bytes", malloc_usable_size(blocks[i]), size);
    fill(blocks[i], size, i);
}

static size_t count_guarded(void) {
    size_t count = 0;
    for (size_t i = 0; i < BLOCKS; i++)
        /* No class has an odd size. */
        count += blocks[i] && sizes[i] % 2 && malloc_usable_size(blocks[i]) == sizes[i];
    return count;
}

static void churn(uint64_t random) {
    size_t most = 0;
    for (int step = 0; step < STEPS; step++) {
        size_t i = random_below(&random, BLOCKS), size = random_below(&random, LARGEST);
        if (!blocks[i]) {
            make_any(i, &random);
            continue;
        }
        check_filled(blocks[i], sizes[i], sizes[i], i, "before its free");
        if (random_below(&random, 3) == 0 && size > 0) {
            blocks[i] = realloc(blocks[i], size);
            check_filled(blocks[i], sizes[i], sizes[i] < size ? sizes[i] : size, i, "after realloc");
            fill(blocks[i], sizes[i] = size, i);
        } else {
            drop_block(blocks[i]);
            blocks[i] = NULL;
        }
        if (step % 1000 == 0) {
            size_t count = count_guarded();
            most = count > most ? count : most;
        }
    }
    CHECK(most > 10 && most <= PLACES, "%zu blocks of odd sizes are guarded at once", most);
}

static void sound(void) {
    churn(1);
    pid_t child = fork();
    if (child == 0) {
        /* Blocks of the parent's. */
        churn(2);
        _exit(0);
    }
    child_ends(child, 0, "a fork");
    churn(3);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void child_misuses(void) {
    block = guarded(is_at_end);
    pid_t child = fork();
    if (child == 0) {
        drop_block(block);
        read_byte(block);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the child ended with status %x", (unsigned)status);
    fill(block, SIZE, 1);
    drop_block(block);
    raise(SIGSEGV);
}

CHECK_TABLE({"overflow", overflow}, {"underflow", underflow}, {"read_after_free", read_after_free},
            {"write_after_free", write_after_free}, {"double_free", double_free}, {"interior", interior},
            {"realloc_freed", realloc_freed}, {"slack", slack}, {"slack_before", slack_before},
            {"overflow_in_thread", overflow_in_thread}, {"freed_by_thread", freed_by_thread}, {"own_fault", own_fault},
            {"mended_faults", mended_faults},
            {"sent", sent}, {"handles", handles}, {"sound", sound}, {"child_misuses", child_misuses});

/* -- Surroundings. -- */

static void own_handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    if (repairs > 0) {
        repairs--;
        mprotect(block, PAGE_BYTES, PROT_READ | PROT_WRITE);
        return;
    }
    say(info->si_code <= 0 || info->si_addr == (void *)block ? "own fault" : "fault of a block");
    _exit(0);
}

/* Before the library's start: it is the only code of a program that runs so early. */
static void begin(int count, char **arguments) {
    struct sigaction action = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO};
    for (int i = 1; i < count; i++)
        if (strcmp(arguments[i], "early") == 0)
            sigaction(SIGSEGV, &action, NULL);
}

__attribute__((section(".preinit_array"), used)) static void (*const begins)(int, char **) = begin;

/* Executes the program again under a kernel that knows no such advice. */
static void become_old(char **arguments) {
    static struct filter filter;
    const struct sock_filter advice = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args[2]));
    const struct sock_filter is_madvise = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_madvise, 0, 3);
    const struct sock_filter is_guard = BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 102, 0, 1);
    const struct sock_filter refused = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL);
    filter_begin(&filter);
    filter.steps[filter.length++] = is_madvise;
    filter.steps[filter.length++] = advice;
    filter.steps[filter.length++] = is_guard;
    filter.steps[filter.length++] = refused;
    filter_install(&filter, SECCOMP_RET_ALLOW, 0, true);
    arguments[1] = arguments[0];
    execv(arguments[0], arguments + 1);
    CHECK(0, "execv failed with errno %d", errno);
}

int main(int count, char **arguments) {
    if (count > 2 && strcmp(arguments[1], "old") == 0)
        become_old(arguments);
    if (count > 2 && strcmp(arguments[1], "early") == 0)
        arguments++, count--;
    return run_named(count, arguments, checks);
}
