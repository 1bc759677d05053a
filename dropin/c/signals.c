/* Signal handlers that call malloc, free and realloc while the code that they interrupt does the same.
 *
 * No standard allows it, yet programs do it and mostly get away with it; here it must neither hang nor
 * corrupt anything. (Under glibc's malloc these checks hang.)
 *
 * timer SECONDS       one thread, two timers, whose handlers interrupt each other as well
 * storm SECONDS       two threads that two others bombard with signals, handled on small alternate stacks
 * births [COUNT]      processes whose first further threads are created while timers fire
 * forks [COUNT]       forks while timers fire, in a process with threads */
#include "churn.h"

#include <stdbool.h>
#include <sys/time.h>

enum { LEAST_SIGNALS = 100 };

/* One table per thread and signal: a handler never interrupts itself, but one may interrupt the other. */
static _Thread_local struct churn of_handler[2];
static atomic_size_t signals_handled;

static void handle(int number) {
    int saved = errno;
    struct churn *churn = &of_handler[number == SIGALRM || number == SIGUSR1 ? 0 : 1];
    if (!churn->random)
        churn_begin(churn, (uint64_t)number, 16 * KIB);
    churn_steps(churn, 8);
    mailbox_steps(&churn->random, 4, KIB);
    atomic_fetch_add(&signals_handled, 1);
    errno = saved;
}

static void end_handler_tables(void) {
    churn_end(&of_handler[0]);
    churn_end(&of_handler[1]);
}

static void catch_signals(int flags) {
    int numbers[] = {SIGALRM, SIGUSR1, SIGVTALRM, SIGUSR2};
    for (size_t i = 0; i < 4; i++) {
        struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART | flags};
        CHECK(sigaction(numbers[i], &action, NULL) == 0, "sigaction failed with errno %d", errno);
    }
}

static void set_timers(long first_us, long second_us) {
    struct itimerval first = {{0, first_us}, {0, first_us}}, second = {{0, second_us}, {0, second_us}};
    CHECK(setitimer(ITIMER_REAL, &first, NULL) == 0, "setitimer failed with errno %d", errno);
    CHECK(setitimer(ITIMER_VIRTUAL, &second, NULL) == 0, "setitimer failed with errno %d", errno);
}

static void check_timer(void) {
    static struct churn churn;
    double end = seconds_now() + seconds_argument(0);
    churn_begin(&churn, 1, 256 * KIB);
    catch_signals(0);
    set_timers(100, 1000);
    while (seconds_now() < end || atomic_load(&signals_handled) < LEAST_SIGNALS)
        churn_work(&churn);
    set_timers(0, 0);
    churn_end(&churn);
    end_handler_tables();
    mailboxes_empty();
}

enum { TARGETS = 2 };

static pthread_t targets[TARGETS];
static atomic_bool signallers_stop;

static void *target(void *seed) {
    size_t bytes = (size_t)sysconf(_SC_SIGSTKSZ);
    stack_t stack = {.ss_sp = malloc(bytes), .ss_size = bytes}, none = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&stack, NULL) == 0, "sigaltstack failed with errno %d", errno);
    work_until_stop(seed);
    end_handler_tables();
    sigaltstack(&none, NULL);
    free(stack.ss_sp);
    return NULL;
}

static void *signaller(void *argument) {
    uint64_t random = (uintptr_t)argument;
    while (!atomic_load(&signallers_stop)) {
        pthread_kill(targets[random_below(&random, TARGETS)], random_below(&random, 2) ? SIGUSR1 : SIGUSR2);
        sleep_us((long)random_below(&random, 100));
    }
    return NULL;
}

static void check_storm(void) {
    pthread_t signallers[2];
    catch_signals(SA_ONSTACK);
    threads_start(targets, TARGETS, target);
    threads_start(signallers, 2, signaller);
    sleep_us((long)(seconds_argument(0) * 1e6));
    while (atomic_load(&signals_handled) < LEAST_SIGNALS)
        sleep_us(1000);
    /* No signal may reach a thread that is gone, or one whose table is being emptied. */
    atomic_store(&signallers_stop, true);
    threads_join(signallers, 2);
    threads_stop(targets, TARGETS);
}

/* -- births and forks -- */

static void *work_a_little(void *seed) {
    struct churn churn;
    churn_begin(&churn, (uintptr_t)seed, 64 * KIB);
    for (int i = 0; i < 5; i++)
        churn_work(&churn);
    churn_end(&churn);
    return NULL;
}

static void first_threads(size_t number) {
    static struct churn churn;
    pthread_t threads[3];
    churn_begin(&churn, number, 64 * KIB);
    catch_signals(0);
    set_timers(60 + (long)(number * 7 % 100), 1000);
    for (size_t i = 0; i < 3; i++) {
        churn_work(&churn);
        threads[i] = thread_start(work_a_little, (void *)(i + 1));
    }
    threads_join(threads, 3);
    set_timers(0, 0);
    _exit(0);
}

static void check_births(void) {
    for (size_t i = 0; i < number_argument(0, 100); i++) {
        pid_t child = fork();
        if (child == 0)
            first_threads(i + 1);
        child_ends(child, 0, "first threads under signals");
    }
}

static void check_forks(void) {
    static struct churn churn;
    churn_begin(&churn, 1, 64 * KIB);
    catch_signals(0);
    pthread_t thread = thread_start(work_until_stop, (void *)1);
    set_timers(300, 2000);
    for (size_t i = 0; i < number_argument(0, 200); i++) {
        churn_work(&churn);
        pid_t child = fork();
        if (child == 0) {
            set_timers(200, 1000);
            churn_work(&churn);
            mailboxes_empty();
            _exit(0);
        }
        child_ends(child, 0, "forks under signals");
    }
    set_timers(0, 0);
    threads_stop(&thread, 1);
}

CHECKS({"timer", check_timer}, {"storm", check_storm}, {"births", check_births}, {"forks", check_forks})
