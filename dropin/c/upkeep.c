/* Upkeep of commensal.h. Linked with the library, not preloaded. What upkeep does, and when, is tested in
 * runtime/tests.
 *
 * settings   values in and out of range, and errno
 * leaves     the library's thread ends when the program has one thread left, at once before that forks or leaves a
 *            namespace, and there is none as long as it has
 * user       the program sets its user and groups, which each thread has to do, beside the library's thread */
#include "check.h"
#include <commensal.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 3000 };

static size_t size_of_block(size_t at) {
    static const size_t sizes[] = {40, 300, 2000, 9000, 30000, 90000};
    return sizes[at % 6];
}

static void *peak(void *argument) {
    static char *blocks[BLOCKS];
    (void)argument;
    for (size_t at = 0; at < BLOCKS; at++) {
        blocks[at] = malloc(size_of_block(at));
        CHECK(blocks[at] != NULL, "no memory");
        memset(blocks[at], 1, size_of_block(at));
    }
    for (size_t at = 0; at < BLOCKS; at++)
        free(blocks[at]);
    return NULL;
}

static void in_a_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, peak, NULL) == 0, "no thread");
    CHECK(pthread_join(thread, NULL) == 0, "not joined");
}

static cm_upkeep_figures figures(void) {
    cm_upkeep_figures read;
    errno = 123;
    cm_upkeep_report(&read);
    CHECK(errno == 123, "errno is %d", errno);
    return read;
}

static void sleep_ns(int64_t ns) {
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

static void check_settings(void) {
    CHECK(figures().is_on && !figures().has_shepherd, "not as it should begin");
    CHECK(cm_upkeep_set("interval_ms", 20) == 0 && cm_upkeep_set("budget_mib", 1) == 0, "not set");
    errno = 0;
    CHECK(cm_upkeep_set("interval_ms", 0) == -1 && errno == EINVAL, "out of range, and set");
    errno = 0;
    CHECK(cm_upkeep_set("interval", 20) == -1 && errno == EINVAL, "no such setting, and set");
    errno = 123;
    CHECK(cm_upkeep_tick() >= -1 && errno == 123, "errno is %d", errno);
    CHECK(cm_upkeep_set("on", 0) == 0 && !figures().is_on, "not off");
    CHECK(cm_upkeep_tick() == -1, "it is off, and something is due");
}

static void *rest(void *unused) {
    /* Setting the user interrupts it. */
    for (;;)
        pause();
    return unused;
}

static void rest_beside(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, rest, NULL) == 0, "no thread");
}

static unsigned threads(void) {
    struct stat status;
    CHECK(stat("/proc/self/task", &status) == 0, "errno %d", errno);
    return (unsigned)status.st_nlink - 2;
}

static void have_shepherd_alone(void) {
    double end = seconds_now() + HANGS_AFTER_SECONDS;
    do {
        CHECK(seconds_now() < end, "no thread of the library's");
        in_a_thread();
    } while (!figures().has_shepherd);
}

static void check_leaves(void) {
    for (int turn = 0; turn < 2; turn++) {
        have_shepherd_alone();
        /* The kernel may know a joined thread for a moment. */
        while (threads() > 2)
            sleep_ns(100000);
        pid_t child = fork();
        CHECK(child >= 0 && threads() == 1, "forked with %u threads", threads());
        if (child == 0)
            _exit(0);
        CHECK(waitpid(child, NULL, 0) == child, "no child");
        have_shepherd_alone();
        CHECK(unshare(CLONE_THREAD) == 0, "errno %d with %u threads", errno, threads());
    }
    have_shepherd_alone();
    for (int turn = 0; turn < HANGS_AFTER_SECONDS * 100 && threads() > 1; turn++)
        sleep_ns(10000000);
    for (int turn = 0; turn < 100; turn++) {
        peak(NULL);
        sleep_ns(5000000);
        CHECK(threads() == 1, "%u threads", threads());
    }
    rest_beside();
    for (int turn = 0; turn < HANGS_AFTER_SECONDS * 100 && threads() < 3; turn++) {
        peak(NULL);
        sleep_ns(10000000);
    }
    CHECK(threads() == 3, "%u threads", threads());
}

static void check_user(void) {
    rest_beside();
    CHECK(cm_upkeep_set("interval_ms", 20) == 0, "not set");
    /* It ends when there is nothing to do, and may do so before. */
    for (int tries = 0; tries < 20; tries++) {
        uint64_t before = figures().bytes;
        in_a_thread();
        for (int turn = 0; turn < HANGS_AFTER_SECONDS * 100 && figures().bytes < before + (uint64_t)(40 * MIB);
             turn++) {
            if (!figures().has_shepherd)
                free(malloc(100000));
            sleep_ns(10000000);
        }
        CHECK(setuid(getuid()) == 0 && setgid(getgid()) == 0, "not set");
        if (figures().has_shepherd)
            return;
    }
    CHECK(false, "it always ended before");
}

CHECKS({"settings", check_settings}, {"leaves", check_leaves}, {"user", check_user})
