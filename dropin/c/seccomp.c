/* Sandboxes: system-call filters that refuse what an allocator may ask the kernel for.
 *
 * run CALL=ERRNO,… COMMAND …    installs a filter, makes sure that it works and executes COMMAND
 * solo CALL=ERRNO,…             installs it in a process with one thread, then starts threads
 * late CALL=ERRNO,…             installs it for all threads of a process that is at work
 * closed                        a process with one thread permits itself what the C library's malloc needs, and ends
 * for all else closed_first                  the same before its first allocation, by system calls that the library
 * does not see closed_threads                one with threads at work permits itself what these need, too, and makes
 * more of them closed_unseen                 the same, unseen as above
 *
 * CALL is one of those in `calls`. */
#include "churn.h"
#include "filter.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>

struct call {
    const char *name;
    long number;
};

static const struct call calls[] = {{"membarrier", SYS_membarrier},
                                    {"rseq", SYS_rseq},
                                    {"mremap", SYS_mremap},
                                    {"madvise", SYS_madvise},
                                    {"sched_getaffinity", SYS_sched_getaffinity},
                                    {"openat", SYS_openat},
                                    {"mkdirat", SYS_mkdirat},
                                    {"unlinkat", SYS_unlinkat},
                                    {"fallocate", SYS_fallocate},
                                    {"getpid", SYS_getpid}};

enum { CALLS = sizeof calls / sizeof *calls };

/* Refuses the listed calls and allows all others, for the calling thread or for all
 * (SECCOMP_FILTER_FLAG_TSYNC). */
static void install(const char *list, unsigned flags) {
    struct filter filter;
    long refused[CALLS];
    int errors[CALLS], count = 0;
    CHECK(list != NULL, "usage: seccomp CHECK CALL=ERRNO,…");
    filter_begin(&filter);
    for (size_t i = 0; i < CALLS; i++) {
        const char *found = strstr(list, calls[i].name);
        if (!found)
            continue;
        int error = atoi(found + strlen(calls[i].name) + 1);
        CHECK(error > 0, "no error number for %s in %s", calls[i].name, list);
        filter_call(&filter, calls[i].number, SECCOMP_RET_ERRNO | (uint32_t)error);
        refused[count] = calls[i].number;
        errors[count++] = error;
    }
    CHECK(count > 0, "no known call in %s", list);
    filter_install(&filter, SECCOMP_RET_ALLOW, flags, false);
    for (int i = 0; i < count; i++) {
        errno = 0;
        long result = syscall(refused[i], 0, 0, 0, 0, 0);
        CHECK(result == -1 && errno == errors[i], "the filter lets call %ld pass", refused[i]);
    }
}

static void run_command(void) {
    CHECK(argument(1) != NULL, "usage: seccomp run CALL=ERRNO,… COMMAND …");
    install(argument(0), 0);
    execv(argument(1), check_arguments + 3);
    CHECK(false, "cannot execute %s: errno %d", argument(1), errno);
}

/* -- Work under a filter. -- */

static atomic_bool stop;

static void *work(void *seed) {
    struct churn churn;
    churn_begin(&churn, (uintptr_t)seed, MIB);
    while (!atomic_load(&stop)) {
        churn_steps(&churn, 100);
        mailbox_steps(&churn.random, 100, 16 * KIB);
        burst(&churn.random);
    }
    churn_end(&churn);
    return NULL;
}

static void start(pthread_t threads[4]) {
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0, "pthread_create failed");
}

static void finish(pthread_t threads[4]) {
    for (int i = 0; i < 10; i++) {
        sleep_us(50000);
        malloc_trim(0);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    mailboxes_empty();
}

static void check_solo(void) {
    pthread_t threads[4];
    uint64_t random = 1;
    burst(&random);
    install(argument(0), 0);
    burst(&random);
    start(threads);
    finish(threads);
}

static void check_late(void) {
    pthread_t threads[4];
    start(threads);
    sleep_us(100000);
    install(argument(0), SECCOMP_FILTER_FLAG_TSYNC);
    finish(threads);
}

/* -- A process that shuts itself in. -- */

/* What the C library's malloc needs, and what the program does itself, */
static const int of_malloc[] = {SYS_read,      SYS_write,         SYS_mmap,      SYS_munmap,
                                SYS_mremap,    SYS_mprotect,      SYS_madvise,   SYS_brk,
                                SYS_futex,     SYS_clock_gettime, SYS_nanosleep, SYS_clock_nanosleep,
                                SYS_getrandom, SYS_rt_sigreturn,  SYS_exit,      SYS_exit_group};
/* and what its threads need. */
static const int of_threads[] = {SYS_rt_sigprocmask, SYS_set_robust_list, SYS_rseq, SYS_clone, SYS_clone3};

enum { OF_MALLOC = sizeof of_malloc / sizeof *of_malloc, OF_THREADS = sizeof of_threads / sizeof *of_threads };

static void tell_call(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    char text[] = "system call ... is not permitted\n";
    for (int place = 14, rest = info->si_syscall; place > 11; place--, rest /= 10)
        text[place] = (char)('0' + rest % 10);
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    _exit(1);
}

static void shut_in(bool with_threads, bool is_seen) {
    struct sigaction action = {.sa_sigaction = tell_call, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0, "no handler");
    struct filter filter;
    filter_begin(&filter);
    for (int i = 0; i < OF_MALLOC; i++)
        filter_call(&filter, of_malloc[i], SECCOMP_RET_ALLOW);
    for (int i = 0; with_threads && i < OF_THREADS; i++)
        filter_call(&filter, of_threads[i], SECCOMP_RET_ALLOW);
    filter_install(&filter, SECCOMP_RET_TRAP, SECCOMP_FILTER_FLAG_TSYNC, is_seen);
}

/* More than a small heap, for longer than it takes until memory goes back. */
static void work_closed(bool is_seen) {
    static struct churn churn;
    static char *blocks[1500];
    shut_in(false, is_seen);
    churn_begin(&churn, 1, MIB);
    for (int round = 0; round < 8; round++) {
        for (size_t i = 0; i < 1500; i++) {
            blocks[i] = malloc(100 * KIB);
            CHECK(blocks[i] != NULL, "no block");
            blocks[i][i] = 1;
        }
        churn_steps(&churn, 2000);
        for (size_t i = 0; i < 1500; i++)
            free(blocks[i]);
        char *large = malloc(100 * MIB);
        CHECK(large != NULL, "no large block");
        free(realloc(large, 150 * MIB));
        sleep_us(200000);
    }
    churn_end(&churn);
    _exit(0);
}

static void check_closed(void) { work_closed(true); }

static void check_closed_first(void) { work_closed(false); }

static void shut_threads_in(bool is_seen) {
    pthread_t before[4], after[4];
    start(before);
    sleep_us(100000);
    shut_in(true, is_seen);
    start(after);
    /* Longer than the library's thread stays without work. */
    for (int i = 0; i < 10; i++) {
        sleep_us(250000);
        malloc_trim(0);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 4; i++) {
        pthread_join(before[i], NULL);
        pthread_join(after[i], NULL);
    }
    mailboxes_empty();
    sleep_us(2500000);
    _exit(0);
}

static void check_closed_threads(void) { shut_threads_in(true); }

static void check_closed_unseen(void) { shut_threads_in(false); }

CHECKS({"run", run_command}, {"solo", check_solo}, {"late", check_late}, {"closed", check_closed},
       {"closed_first", check_closed_first}, {"closed_threads", check_closed_threads},
       {"closed_unseen", check_closed_unseen})
