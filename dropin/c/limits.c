/* When address space runs out: NULL and ENOMEM, and everything works again once there is room.
 *
 * exhaust SIZE              under a limit set before the program started (ulimit -v or -d): takes blocks of
 *                           SIZE bytes to the end, which is at least half of the limit; twice
 * exhaust_threads SIZE      the same from four threads at once
 * lowered                   the limit falls to what is in use, later it is lifted
 * late as|data              the program limits itself, to 64 MiB more than it has, and gets all but 16 of them
 * promises                  what the system does not promise to a mapping it does not promise to malloc
 * aliases                   blocks at all distances that a table of addresses could take for one another
 * null                      NULL is nobody's block, wherever the heap lies
 * refused                   much free memory stays as it is where more is asked for than all of it
 * many COUNT MIB            so many blocks of so many MiB, alive at the same time
 * staircase as|data [MS]    processes that may grow by 0, 1, 2, … steps, with their first thread among what
 *                           may fail; afterwards the limit is lifted and everything works. With MS they
 *                           have lived for so long before, and the steps are the small ones */
#include "churn.h"

#include <malloc.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>

static struct rlimit get_limit(int resource) {
    struct rlimit limit;
    CHECK(getrlimit(resource, &limit) == 0, "getrlimit failed with errno %d", errno);
    return limit;
}

static void set_limit(int resource, size_t bytes) {
    struct rlimit limit = get_limit(resource);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    CHECK(setrlimit(resource, &limit) == 0, "setrlimit failed with errno %d", errno);
}

/* What argument 0 says: RLIMIT_AS or RLIMIT_DATA; and how much of it is used. */
static int chosen_limit(void) { return argument(0) && strcmp(argument(0), "data") == 0 ? RLIMIT_DATA : RLIMIT_AS; }

static size_t used_bytes(int resource) { return resource == RLIMIT_DATA ? statm_bytes(5) : address_space_bytes(); }

static struct churn churn;

static void churn_on(size_t steps) {
    if (!churn.random)
        churn_begin(&churn, 1, 64 * KIB);
    churn_steps(&churn, steps);
}

/* A taken block begins with the address of the one before it. */
struct taken {
    struct taken *before;
};

static struct taken *take_all(size_t size, size_t *count) {
    struct taken *last = NULL;
    for (*count = 0;; ++*count) {
        errno = 0;
        struct taken *block = malloc(size);
        if (!block) {
            CHECK(errno == ENOMEM, "malloc gave NULL with errno %d", errno);
            return last;
        }
        block->before = last;
        last = block;
    }
}

static void give_all(struct taken *last) {
    while (last) {
        struct taken *before = last->before;
        free(last);
        last = before;
    }
}

/* Nothing of this size is left; every function says so, and what exists stays usable. */
static void check_refusals(struct taken *last, size_t size) {
    void *untouched = &size;
    errno = 0;
    CHECK(calloc(1, size) == NULL && errno == ENOMEM, "calloc beyond the end: errno %d", errno);
    errno = 0;
    CHECK(memalign(4096, size + 64 * MIB) == NULL && errno == ENOMEM, "memalign beyond the end: errno %d", errno);
    int error = posix_memalign(&untouched, 64, size + 64 * MIB);
    CHECK(error == ENOMEM && untouched == &size, "posix_memalign beyond the end returned %d", error);
    struct taken *before = last->before;
    errno = 0;
    CHECK(realloc(last, 8 * size + 256 * MIB) == NULL && errno == ENOMEM, "realloc beyond the end: errno %d", errno);
    CHECK(last->before == before, "a failed realloc changed the block");
}

static size_t limit_in_force(void) {
    size_t space = get_limit(RLIMIT_AS).rlim_cur, data = get_limit(RLIMIT_DATA).rlim_cur;
    size_t limit = space < data ? space : data;
    CHECK(limit != RLIM_INFINITY, "run this under ulimit -v or ulimit -d");
    return limit;
}

static void check_exhaust(void) {
    size_t size = number_argument(0, KIB), limit = limit_in_force();
    size_t count = 0, again = 0;
    struct taken *last = take_all(size, &count);
    CHECK(count * size >= limit / 2, "%zu blocks of %zu bytes are less than half of the limit %zu", count, size, limit);
    check_refusals(last, size);
    give_all(last);

    give_all(take_all(size, &again));
    CHECK(again >= count / 10 * 9, "%zu blocks fitted, after they were freed only %zu", count, again);

    /* What small blocks used also serves a large one, and the other way round. */
    void *large = malloc(limit / 3);
    CHECK(large != NULL, "no block of %zu bytes under the limit %zu after all was freed", limit / 3, limit);
    free(large);
    churn_on(10000);
    churn_end(&churn);
}

static size_t thread_size;
static pthread_barrier_t all_started;

static void *take_and_give(void *unused) {
    pthread_barrier_wait(&all_started);
    for (int round = 0; round < 3; round++) {
        size_t count = 0;
        give_all(take_all(thread_size, &count));
    }
    return unused;
}

/* Who gets how much is chance; what they gave back is there afterwards. */
static void check_exhaust_threads(void) {
    thread_size = number_argument(0, KIB);
    pthread_t threads[4];
    set_stack_bytes(256 * KIB);
    size_t limit = limit_in_force(), count = 0;
    pthread_barrier_init(&all_started, NULL, 4);
    threads_start(threads, 4, take_and_give);
    threads_join(threads, 4);
    give_all(take_all(thread_size, &count));
    CHECK(count * thread_size >= limit / 8, "after the threads ended only %zu bytes of the limit %zu are to be had",
          count * thread_size, limit);
}

/* Small requests may still be served from memory at hand; large ones can't be. */
static void ask_for_everything(void) {
    for (size_t size = 1; size <= 64 * MIB; size = size * 3 / 2 + 1) {
        void *blocks[4] = {malloc(size), calloc(1, size), memalign(256, size), realloc(malloc(10), size)};
        CHECK(size < 32 * MIB || (!blocks[0] && !blocks[1] && !blocks[2] && !blocks[3]),
              "%zu bytes were given although no address space is left", size);
        for (size_t i = 0; i < 4; i++)
            free(blocks[i]);
    }
}

static atomic_bool is_lowered;

static void *ask_in_thread(void *unused) {
    while (!atomic_load(&is_lowered))
        sleep_us(10);
    for (int i = 0; i < 10; i++)
        ask_for_everything();
    return unused;
}

static void check_lowered(void) {
    pthread_t threads[2];
    churn_on(5000);
    for (int round = 0; round < 5; round++) {
        set_limit(RLIMIT_AS, address_space_bytes());
        atomic_store(&is_lowered, true);
        ask_in_thread(NULL);
        set_limit(RLIMIT_AS, RLIM_INFINITY);
        churn_on(5000);
    }
    atomic_store(&is_lowered, false);
    threads_start(threads, 2, ask_in_thread);
    set_limit(RLIMIT_AS, address_space_bytes());
    atomic_store(&is_lowered, true);
    threads_join(threads, 2);
    set_limit(RLIMIT_AS, RLIM_INFINITY);
    churn_on(5000);
    churn_end(&churn);
    void *large = malloc(100 * MIB);
    CHECK(large != NULL, "no 100 MiB after the limit was lifted");
    free(large);
}

static void *pass(void *argument) { return argument; }

static void check_late(void) {
    const size_t room = 64 * MIB, slack = 16 * MIB, stack = 8 * MIB;
    size_t count = 0;
    int resource = chosen_limit();
    churn_on(5000);
    for (size_t size = 40; size <= 8 * MIB; size *= 7) {
        pid_t child = fork();
        if (child == 0) {
            set_limit(resource, used_bytes(resource) + room);
            give_all(take_all(size, &count));
            CHECK(count * size >= room - slack - size, "%zu blocks of %zu bytes, where %zu bytes are allowed", count,
                  size, room);
            _exit(0);
        }
        child_ends(child, 0, "fork, for blocks of %zu bytes,", size);
    }
    /* Half for blocks, and the rest less the slack for mappings of the program's own. */
    set_limit(resource, used_bytes(resource) + room);
    for (size_t taken = 0; taken < room / 2; taken += 100 * KIB)
        CHECK(malloc(100 * KIB) != NULL, "no block after %zu bytes of %zu", taken, room);
    void *own = mmap(NULL, room / 2 - slack - stack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED, "no mapping of the program's own: errno %d", errno);
    set_stack_bytes(stack - 64 * KIB);
    thread_join(thread_start(pass, NULL));
    churn_end(&churn);
}

static size_t memory_bytes(void) { return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE); }

static void check_promises(void) {
    for (size_t bytes = memory_bytes() / 4; bytes < (size_t)1 << 46; bytes *= 2) {
        void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping != MAP_FAILED)
            munmap(mapping, bytes);
        void *block = malloc(bytes);
        CHECK((block != NULL) == (mapping != MAP_FAILED), "of %zu bytes malloc gives %p, and mmap %p", bytes, block,
              mapping);
        free(block);
    }
}

enum { UNIT_BLOCKS = 400, FARS = 12 };

/* The least power of two that is four times the memory or more, as the page map has it. */
static size_t window_bytes(void) {
    size_t window = (size_t)128 << 30;
    while (window < 4 * memory_bytes())
        window *= 2;
    return window;
}

/* A place where nothing lies becomes the only one that the kernel has for the next mappings. */
static void leave_room_only_at(uintptr_t place, size_t room, uintptr_t below) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    for (uintptr_t at = place + room; at < below;) {
        uintptr_t bytes = below - at < (uintptr_t)1 << 30 ? below - at : (uintptr_t)1 << 30;
        mmap((void *)at, bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        at += bytes;
    }
    for (size_t bytes = 64 * MIB; bytes >= 64 * KIB; bytes /= 2) {
        void *filler;
        while ((filler = mmap(NULL, bytes, PROT_NONE, flags, -1, 0)) != MAP_FAILED && (uintptr_t)filler > place)
            continue;
        if (filler != MAP_FAILED)
            munmap(filler, bytes);
    }
}

static void check_aliases(void) {
    static struct {
        char *block;
        size_t size;
    } blocks[FARS * UNIT_BLOCKS];
    size_t window = window_bytes(), count = 0;
    uintptr_t first = (uintptr_t)malloc(40) & ~(4 * MIB - 1), lowest = first;
    for (size_t far = 1; far <= 3 && first > far * window; far++) {
        uintptr_t place = first - far * window - 64 * MIB;
        leave_room_only_at(place, 128 * MIB, lowest);
        lowest = place;
        for (size_t i = 0; i < UNIT_BLOCKS; i++, count++) {
            size_t size = i % 100 == 0 ? 65 * MIB : i % 3 ? (i * 997) % (30 * KIB) + 1 : 600 * KIB;
            blocks[count].block = malloc(size);
            blocks[count].size = size;
            CHECK(blocks[count].block != NULL, "no block of %zu bytes", size);
            fill(blocks[count].block, size, count);
        }
    }
    for (size_t i = 0; i < count; i++)
        check_filled(blocks[i].block, blocks[i].size, blocks[i].size, i, "far away");
    for (size_t i = 0; i < count; i++) {
        CHECK(malloc_usable_size(blocks[i].block) >= blocks[i].size, "%zu bytes of %zu",
              malloc_usable_size(blocks[i].block), blocks[i].size);
        free(blocks[i].block);
    }
    malloc_trim(0);
}

/* In a table of addresses NULL has the place of all multiples of the window. */
static void free_null(void) {
    enum { BLOCK = 1000, AT_ONCE = 50, TIMES = 1000 };
    void *volatile null = NULL; /* The compiler drops free(NULL). */
    void *blocks[AT_ONCE];
    free(malloc(24 * MIB)); /* From here on, there is a heap. */
    const size_t usable = malloc_usable_size(malloc(BLOCK));
    for (size_t bytes = 0; bytes < 24 * MIB; bytes += BLOCK)
        CHECK(malloc(BLOCK) != NULL, "no block after %zu bytes", bytes);
    for (size_t time = 0; time < TIMES; time++) {
        for (size_t i = 0; i < AT_ONCE; i++) {
            blocks[i] = malloc(BLOCK);
            CHECK(malloc_usable_size(blocks[i]) == usable, "a block of %d bytes is %p, and has %zu, not %zu", BLOCK,
                  blocks[i], malloc_usable_size(blocks[i]), usable);
            fill(blocks[i], BLOCK, i);
        }
        for (size_t i = 0; i < AT_ONCE; i++) {
            check_filled(blocks[i], BLOCK, BLOCK, i, "beside free(NULL)");
            free(null);
            free(blocks[i]);
        }
    }
    /* One of those that the kernel offers below begins at the multiple. */
    for (size_t i = 0; i < 100; i++)
        CHECK(malloc(65 * MIB) != NULL, "block %zu of 65 MiB: errno %d", i, errno);
}

/* Mappings lie below the room for the stack, which is so large that they begin `above` bytes above a multiple of the
 * window. */
static void free_null_near_multiple(size_t above) {
    static char step[] = "here";
    CHECK(personality(ADDR_NO_RANDOMIZE) != -1, "personality failed with errno %d", errno);
    set_limit(RLIMIT_STACK, window_bytes() - above);
    CHECK(get_limit(RLIMIT_STACK).rlim_cur == window_bytes() - above, "no stack may be as large as the window");
    char *arguments[] = {check_arguments[0], check_arguments[1], step, NULL};
    execv("/proc/self/exe", arguments);
    CHECK(false, "cannot execute the program: errno %d", errno);
}

static void check_null(void) {
    if (argument(0)) {
        free_null();
        return;
    }
    for (size_t above = 0; above <= 160 * MIB; above += 4 * MIB) {
        pid_t child = fork();
        if (child == 0)
            free_null_near_multiple(above);
        child_ends(child, 0, "fork, with mappings %zu MiB above a multiple of the window,", above / MIB);
    }
}

static void check_refused(void) {
    enum { BLOCKS = 200 };
    static char *blocks[BLOCKS];
    const size_t least = BLOCKS * MIB / 16;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(100 * KIB);
        CHECK(blocks[i] != NULL, "no block");
        memset(blocks[i], 1, 100 * KIB);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    size_t before = resident_bytes();
    for (size_t i = 0; i < 100; i++)
        CHECK(malloc((size_t)1 << 47) == NULL && errno == ENOMEM, "more than there are addresses was given");
    CHECK(before > least && resident_bytes() > before - MIB, "%zu bytes were resident, and %zu are after refusals",
          before, resident_bytes());
}

static void check_many(void) {
    size_t count = number_argument(0, 1), mib = number_argument(1, 1);
    char **blocks = malloc(count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(mib * MIB);
        CHECK(blocks[i] != NULL, "block %zu of %zu MiB: errno %d", i, mib, errno);
        *(size_t *)blocks[i] = i;
    }
    for (size_t i = 0; i < count; i++) {
        CHECK(*(size_t *)blocks[i] == i, "block %zu holds %zu", i, *(size_t *)blocks[i]);
        free(blocks[i]);
    }
    free(blocks);
}

enum { SMALL_STEPS = 32, LARGE_STEPS = 96 };

#define THREAD_STACK_BYTES (256 * KIB)

static char thread_stack[THREAD_STACK_BYTES] __attribute__((aligned(4096)));

static void *ask_politely(void *unused) {
    uint64_t random = 5;
    void *blocks[200] = {0};
    for (size_t i = 0; i < 2000; i++) {
        size_t which = random_below(&random, 200), size = random_size(&random, 256 * KIB);
        errno = 0;
        void *block = i % 3 ? malloc(size) : calloc(size, 1);
        CHECK(block != NULL || errno == ENOMEM, "malloc(%zu) gave NULL with errno %d", size, errno);
        void *resized = block ? realloc(block, size + 100) : NULL;
        block = resized ? resized : block;
        if (block)
            memset(block, 1, size);
        free(blocks[which]);
        blocks[which] = block;
    }
    for (size_t i = 0; i < 200; i++)
        free(blocks[i]);
    return unused;
}

/* On a stack that needs no address space, so that the allocator is what fails. */
static int try_thread(pthread_t *thread) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, thread_stack, THREAD_STACK_BYTES);
    int error = pthread_create(thread, &attributes, ask_politely, NULL);
    CHECK(error == 0 || error == EAGAIN || error == ENOMEM, "pthread_create returned %d", error);
    return error == 0;
}

static void one_step(int resource, size_t growth) {
    pthread_t thread;
    if (number_argument(1, 0)) {
        churn_begin(&churn, 1, 64);
        churn_steps(&churn, 1000);
        churn_end(&churn);
        sleep_us((long)number_argument(1, 0) * 1000);
    }
    set_limit(resource, used_bytes(resource) + growth);
    ask_politely(NULL);
    int started = try_thread(&thread);
    ask_politely(NULL);
    set_limit(resource, RLIM_INFINITY);
    churn_begin(&churn, 1, 64 * KIB);
    churn_steps(&churn, 2000);
    if (started)
        thread_join(thread);
    CHECK(try_thread(&thread), "no thread after the limit was lifted");
    churn_steps(&churn, 2000);
    thread_join(thread);
    churn_end(&churn);
    _exit(0);
}

static void check_staircase(void) {
    size_t steps = number_argument(1, 0) ? SMALL_STEPS : SMALL_STEPS + LARGE_STEPS;
    for (size_t step = 0; step < steps; step++) {
        size_t growth = step < SMALL_STEPS ? step * 8 * KIB : (step - SMALL_STEPS) * 320 * KIB;
        pid_t child = fork();
        if (child == 0)
            one_step(chosen_limit(), growth);
        child_ends(child, 0, "fork, with %zu KiB of growth allowed,", growth / KIB);
    }
}

CHECKS({"exhaust", check_exhaust}, {"exhaust_threads", check_exhaust_threads}, {"lowered", check_lowered},
       {"late", check_late}, {"promises", check_promises}, {"aliases", check_aliases}, {"null", check_null},
       {"refused", check_refused}, {"many", check_many}, {"staircase", check_staircase})
