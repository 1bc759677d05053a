/* Sandboxes: system-call filters that refuse what an allocator may ask the kernel for.
 *
 * run CALL=ERRNO,… COMMAND …    installs a filter, makes sure that it works and executes COMMAND
 * solo CALL=ERRNO,…             installs it in a process with one thread, then starts threads
 * late CALL=ERRNO,…             installs it for all threads of a process that is at work
 * closed [unseen]               a process with one thread permits itself what the C library's malloc needs, and ends
 *                               for all else; unseen: by system calls that the library does not see
 * closed_threads [unseen]       one with threads at work permits itself what these need, too, and makes more of them
 *
 * CALL is one of those in `calls`. */
#include "churn.h"
#include "filter.h"

#include <malloc.h>

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

static void trim_for(int rounds, long pause_us) {
    for (int i = 0; i < rounds; i++) {
        sleep_us(pause_us);
        malloc_trim(0);
    }
}

static void check_solo(void) {
    pthread_t threads[4];
    uint64_t random = 1;
    burst(&random);
    install(argument(0), 0);
    burst(&random);
    threads_start(threads, 4, work_until_stop);
    trim_for(10, 50000);
    threads_stop(threads, 4);
}

static void check_late(void) {
    pthread_t threads[4];
    threads_start(threads, 4, work_until_stop);
    sleep_us(100000);
    install(argument(0), SECCOMP_FILTER_FLAG_TSYNC);
    trim_for(10, 50000);
    threads_stop(threads, 4);
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

static void shut_in(bool with_threads) {
    struct sigaction action = {.sa_sigaction = tell_call, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0, "no handler");
    struct filter filter;
    filter_begin(&filter);
    for (int i = 0; i < OF_MALLOC; i++)
        filter_call(&filter, of_malloc[i], SECCOMP_RET_ALLOW);
    for (int i = 0; with_threads && i < OF_THREADS; i++)
        filter_call(&filter, of_threads[i], SECCOMP_RET_ALLOW);
    filter_install(&filter, SECCOMP_RET_TRAP, SECCOMP_FILTER_FLAG_TSYNC, argument(0) == NULL);
}

/* More than a small heap, for longer than it takes until memory goes back. */
static void check_closed(void) {
    static struct churn churn;
    static char *blocks[1500];
    shut_in(false);
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

static void check_closed_threads(void) {
    pthread_t threads[8];
    threads_start(threads, 4, work_until_stop);
    sleep_us(100000);
    shut_in(true);
    threads_start(threads + 4, 4, work_until_stop);
    /* Longer than the library's thread stays without work. */
    trim_for(10, 250000);
    threads_stop(threads, 8);
    sleep_us(2500000);
    _exit(0);
}

CHECKS({"run", run_command}, {"solo", check_solo}, {"late", check_late}, {"closed", check_closed},
       {"closed_threads", check_closed_threads})
