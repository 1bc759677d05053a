/* Everything that runs in restartable sections, under a tracer that stops the program at each instruction, as debuggers
 * do for watchpoints that the processor has no registers for. The kernel then begins each section again before it has
 * come to its end.
 *
 * traced             a process with one thread
 * traced threads     one that has another thread, which works untraced meanwhile */
#include "check.h"
#include <commensal.h>
#include <stdatomic.h>
#include <sys/ptrace.h>

/* Many times what the work below takes. */
enum { STEPS = 1000 * 1000, BLOCKS = 6 };

static cm_counter counter = CM_COUNTER_INIT;
static cm_cache *cache;
static atomic_bool ends;

static void work(void) {
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        cm_rcu_section section = cm_rcu_read_lock();
        blocks[i] = i % 4 == 0 ? calloc(1, 20 * i) : i % 4 == 1 ? cm_cache_alloc(cache) : malloc(100 + 30 * i);
        CHECK(blocks[i] != NULL, "no block");
        cm_counter_add(&counter, 1);
        cm_rcu_read_unlock(section);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 4 == 1)
            cm_cache_free(cache, blocks[i]);
        else
            free(i % 4 == 2 ? realloc(blocks[i], 3000) : blocks[i]);
    }
}

static void *count(void *unused) {
    for (; !atomic_load(&ends); sleep_us(100))
        for (int i = 0; i < 50; i++) {
            cm_counter_add(&counter, 1);
            free(malloc(500));
        }
    return unused;
}

static void be_traced(int has_threads) {
    pthread_t thread;
    cache = cm_cache_create("stepped", 200, 0, NULL);
    CHECK(cache != NULL, "no cache");
    if (has_threads)
        thread = thread_start(count, NULL);
    work();
    int64_t before = cm_counter_sum(&counter);
    CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0, "not to be traced: errno %d", errno);
    raise(SIGSTOP);
    work();
    raise(SIGSTOP);
    atomic_store(&ends, true);
    if (has_threads)
        thread_join(thread);
    int64_t sum = cm_counter_sum(&counter);
    CHECK(has_threads ? sum >= before + BLOCKS : sum == before + BLOCKS, "%lld counted, before %lld", (long long)sum,
          (long long)before);
    cm_rcu_synchronize();
    CHECK(cm_cache_destroy(cache) == 0, "an object of the cache was lost: errno %d", errno);
    _exit(0);
}

static void check_traced(void) {
    int has_threads = argument(0) != NULL;
    pid_t child = fork();
    CHECK(child >= 0, "no child: errno %d", errno);
    if (child == 0)
        be_traced(has_threads);
    int status = 0, steps = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status), "status %x instead of a stop", status);
    do {
        CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0, "no step: errno %d", errno);
        CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status), "status %x after %d steps", status, steps);
        if (++steps == STEPS) {
            kill(child, SIGKILL);
            CHECK(steps < STEPS, "the work did not come to its end in %d steps", steps);
        }
    } while (WSTOPSIG(status) == SIGTRAP);
    CHECK(WSTOPSIG(status) == SIGSTOP, "signal %d after %d steps", WSTOPSIG(status), steps);
    CHECK(ptrace(PTRACE_CONT, child, NULL, NULL) == 0, "the child does not go on: errno %d", errno);
    child_ends(child, 0, "fork");
}

CHECKS({"traced", check_traced})
