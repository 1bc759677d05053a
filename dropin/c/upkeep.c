/* Upkeep of commensal.h. Linked with the library, not preloaded. What upkeep does, and when, is tested in
 * runtime/tests.
 *
 * settings   values in and out of range, and errno
 * leaves     the library's thread ends when the program has one thread left, at once before that forks or leaves a
 *            namespace, and there is none as long as it has
 * user       the program sets its user and groups, which each thread has to do, beside the library's thread */
#include "check.h"
#include <commensal.h>
#include <sched.h>

enum { BLOCKS = 3000 };

static size_t size_of_block(size_t at) {
    static const size_t sizes[] = {40, 300, 2000, 9000, 30000, 90000};
    return sizes[at % 6];
}

static void *peak(void *unused) {
    static char *blocks[BLOCKS];
    for (size_t at = 0; at < BLOCKS; at++) {
        blocks[at] = malloc(size_of_block(at));
        CHECK(blocks[at] != NULL, "no memory");
        memset(blocks[at], 1, size_of_block(at));
    }
    for (size_t at = 0; at < BLOCKS; at++)
        free(blocks[at]);
    return unused;
}

static cm_upkeep_figures figures(void) {
    cm_upkeep_figures read;
    errno = 123;
    cm_upkeep_report(&read);
    CHECK(errno == 123, "errno is %d", errno);
    return read;
}

static void check_settings(void) {
    CHECK(figures().is_on && !figures().has_shepherd, "not as it should begin");
    CHECK(cm_set("upkeep.interval_ms", 20) == 0 && cm_set("upkeep.budget_mib", 1) == 0, "not set");
    errno = 0;
    CHECK(cm_set("upkeep.interval_ms", 0) == -1 && errno == ERANGE, "out of range, and set");
    errno = 0;
    CHECK(cm_set("upkeep.interval", 20) == -1 && errno == ENOENT, "no such setting, and set");
    errno = 123;
    CHECK(cm_upkeep_tick() >= -1 && errno == 123, "errno is %d", errno);
    CHECK(cm_set("upkeep", 0) == 0 && !figures().is_on, "not off");
    CHECK(cm_upkeep_tick() == -1, "it is off, and something is due");
}

static void *rest(void *unused) {
    /* Setting the user interrupts it. */
    for (;;)
        pause();
    return unused;
}

static void have_shepherd_alone(void) {
    double end = seconds_now() + HANGS_AFTER_SECONDS;
    do {
        CHECK(seconds_now() < end, "no thread of the library's");
        thread_join(thread_start(peak, NULL));
    } while (!figures().has_shepherd);
}

static void check_leaves(void) {
    for (int turn = 0; turn < 2; turn++) {
        have_shepherd_alone();
        /* The kernel may know a joined thread for a moment. */
        while (thread_count() > 2)
            sleep_us(100);
        pid_t child = fork();
        CHECK(child >= 0 && thread_count() == 1, "forked with %u threads", thread_count());
        if (child == 0)
            _exit(0);
        child_ends(child, 0, "fork");
        have_shepherd_alone();
        CHECK(unshare(CLONE_THREAD) == 0, "errno %d with %u threads", errno, thread_count());
    }
    have_shepherd_alone();
    for (int turn = 0; turn < HANGS_AFTER_SECONDS * 100 && thread_count() > 1; turn++)
        sleep_us(10000);
    for (int turn = 0; turn < 100; turn++) {
        peak(NULL);
        sleep_us(5000);
        CHECK(thread_count() == 1, "%u threads", thread_count());
    }
    thread_start(rest, NULL);
    for (int turn = 0; turn < HANGS_AFTER_SECONDS * 100 && thread_count() < 3; turn++) {
        peak(NULL);
        sleep_us(10000);
    }
    CHECK(thread_count() == 3, "%u threads", thread_count());
}

static void check_user(void) {
    thread_start(rest, NULL);
    CHECK(cm_set("upkeep.interval_ms", 20) == 0, "not set");
    /* It ends when there is nothing to do, and may do so before. */
    for (int tries = 0; tries < 20; tries++) {
        uint64_t before = figures().bytes;
        thread_join(thread_start(peak, NULL));
        for (int turn = 0; turn < HANGS_AFTER_SECONDS * 100 && figures().bytes < before + (uint64_t)(40 * MIB);
             turn++) {
            if (!figures().has_shepherd)
                free(malloc(100000));
            sleep_us(10000);
        }
        CHECK(setuid(getuid()) == 0 && setgid(getgid()) == 0, "not set");
        if (figures().has_shepherd)
            return;
    }
    CHECK(false, "it always ended before");
}

CHECKS({"settings", check_settings}, {"leaves", check_leaves}, {"user", check_user})
