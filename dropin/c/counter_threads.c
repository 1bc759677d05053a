/* The counters of commensal.h among threads, signal handlers and forks. Linked with the library, not
 * preloaded.
 *
 * statics           counters that nobody initialised
 * threads           additions from everywhere: none is lost
 * handed_over       a counter that changes hands
 * limit             threads that compete for the last places
 * resets            what one thread takes away while others add
 * signals [lazy]    handlers that add to what they interrupt, and upgrade it
 * forks             children and their values */
#include "counter.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { THREADS = 4, SOME = 1000000, FEW = 50000 };

/* -- threads -- */

static void in_threads(void *(*run)(void *), void *argument) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run, argument) == 0, "pthread_create failed");
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void *add_some(void *counter) {
    for (int i = 0; i < SOME; i++) {
        cm_counter_add(counter, 3);
        cm_counter_sub(counter, 1);
    }
    return NULL;
}

static void *add_some_remotely(void *counter) {
    for (int i = 0; i < SOME; i++)
        cm_counter_add_remote(counter, 2);
    return NULL;
}

static void *add_to_colours(void *unused) {
    for (int i = 0; i < SOME; i++)
        cm_counters_add(&colours.set, (size_t)i % COLOURS, 1 + i % COLOURS);
    return unused;
}

static cm_counter never_initialised;
static cm_counter many_never_initialised[100];

static void check_statics(void) {
    cm_counter *allocated = calloc(1, sizeof *allocated);
    in_threads(add_some, &never_initialised);
    in_threads(add_some, &many_never_initialised[99]);
    in_threads(add_some, allocated);
    IS(cm_counter_sum(&never_initialised), 2LL * THREADS * SOME);
    IS(cm_counter_sum(&many_never_initialised[99]), 2LL * THREADS * SOME);
    IS(cm_counter_sum(&many_never_initialised[98]), 0);
    IS(cm_counter_sum(allocated), 2LL * THREADS * SOME);
    cm_counter_destroy(allocated);
    free(allocated);
}

static void check_threads(void) {
    for (int shared = 0; shared < 2; shared++) {
        cm_counter counter = CM_COUNTER_INIT;
        CHECK(!shared || cm_counter_share(&counter) == 0, "the counter cannot be shared");
        in_threads(add_some, &counter);
        in_threads(add_some_remotely, &counter);
        IS(cm_counter_sum(&counter), 4LL * THREADS * SOME);
        is_read(cm_counter_read(&counter), 4LL * THREADS * SOME, true);
        cm_counter_destroy(&counter);

        CHECK(!shared || cm_counters_share(&colours.set) == 0, "the set cannot be shared");
        in_threads(add_to_colours, NULL);
        for (size_t i = 0; i < COLOURS; i++) {
            int64_t turns = SOME / COLOURS + (i < SOME % COLOURS);
            IS(cm_counters_sum(&colours.set, i), (int64_t)THREADS * turns * (int64_t)(1 + i));
        }
        cm_counters_destroy(&colours.set);
    }
}

/* -- handed_over -- */

static void *own_for_a_while(void *counter) {
    cm_counter_bind(counter);
    for (int i = 0; i < SOME; i++)
        cm_counter_add_local(counter, 1);
    return NULL;
}

static void check_handed_over(void) {
    cm_counter counter = CM_COUNTER_INIT;
    cm_counter_add(&counter, 1000);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, own_for_a_while, &counter) == 0, "pthread_create failed");
        pthread_join(thread, NULL);
        own_for_a_while(&counter);
        CHECK(cm_counter_share(&counter) == 0, "the counter cannot be shared");
        add_some(&counter);
    }
    IS(cm_counter_sum(&counter), 1000 + 3 * 4LL * SOME);
}

/* -- limit -- */

enum { ROUNDS = 40 };
static const int64_t LIMIT = 100000;
static atomic_long granted;
static pthread_barrier_t start;
static cm_counter places;

static void *compete(void *unused) {
    long mine = 0;
    pthread_barrier_wait(&start);
    while (cm_counter_limited_add(&places, 1, LIMIT)) {
        if (mine++ % 100 == 0)
            CHECK(cm_counter_sum(&places) <= LIMIT, "the counter is above its limit");
    }
    atomic_fetch_add(&granted, mine);
    return unused;
}

/* Many rounds, since only the last places of each are hard to get right. */
static void check_limit(void) {
    CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0, "pthread_barrier_init failed");
    for (int round = 0; round < ROUNDS; round++) {
        atomic_store(&granted, 0);
        CHECK(round % 2 || cm_counter_share(&places) == 0, "the counter cannot be shared");
        in_threads(compete, NULL);
        IS(cm_counter_sum(&places), LIMIT);
        IS(atomic_load(&granted), LIMIT);
        IS(cm_counter_limited_add(&places, 1, LIMIT), false);
        cm_counter_sub(&places, 1);
        IS(cm_counter_limited_add(&places, 1, LIMIT), true);
        cm_counter_destroy(&places);
    }
}

/* -- resets -- */

static atomic_int at_work;

static void *add_some_and_leave(void *counter) {
    add_some(counter);
    atomic_fetch_sub(&at_work, 1);
    return NULL;
}

static void check_resets(void) {
    for (int shared = 0; shared < 2; shared++) {
        cm_counter counter = CM_COUNTER_INIT;
        CHECK(!shared || cm_counter_share(&counter) == 0, "the counter cannot be shared");
        pthread_t threads[2];
        atomic_store(&at_work, 2);
        for (size_t i = 0; i < 2; i++)
            CHECK(pthread_create(&threads[i], NULL, add_some_and_leave, &counter) == 0,
                  "pthread_create failed");
        int64_t all = 0;
        while (atomic_load(&at_work) > 0)
            all += cm_counter_reset(&counter);
        for (size_t i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        all += cm_counter_reset(&counter);
        IS(all, 4LL * SOME);
        IS(cm_counter_sum(&counter), 0);
        cm_counter_destroy(&counter);
    }
}

/* -- signals -- */

static cm_counter interrupted;
static volatile sig_atomic_t times_interrupted;
static bool shares_in_handler;

static void interrupt(int number) {
    (void)number;
    times_interrupted++;
    cm_counter_add(&interrupted, 1000);
    cm_counters_add(&colours.set, GREEN, 1000);
    if (shares_in_handler)
        cm_counter_share(&interrupted);
    (void)cm_counter_sum(&interrupted);
}

/* Adds until some hundreds of signals came; the number of additions. */
static int64_t add_under_signals(void) {
    int64_t added = 0;
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    times_interrupted = 0;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0, "sigaction failed with errno %d", errno);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer failed with errno %d", errno);
    for (; times_interrupted < 500; added++) {
        cm_counter_add(&interrupted, 1);
        cm_counters_add(&colours.set, GREEN, 1);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0, "setitimer failed with errno %d", errno);
    return added;
}

static void check_signals(void) {
    shares_in_handler = !argument(0);
    for (int times = 0; times < 5; times++) {
        CHECK(!shares_in_handler || cm_counters_share(&colours.set) == 0, "the set cannot be shared");
        int64_t expected = add_under_signals() + 1000 * (int64_t)times_interrupted;
        IS(cm_counters_sum(&colours.set, GREEN), expected);
        IS(cm_counter_sum(&interrupted), expected);
        IS(cm_counter_is_shared(&interrupted), shares_in_handler);
        cm_counters_destroy(&colours.set);
        cm_counter_destroy(&interrupted);
    }
}

/* -- forks -- */

static cm_counter inherited;

/* The end of a child; in the parent, its success. */
static void wait_for(pid_t child) {
    int status = 0;
    CHECK(child > 0, "fork failed with errno %d", errno);
    CHECK(waitpid(child, &status, 0) == child, "waitpid failed with errno %d", errno);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ended with status %#x", (unsigned)status);
}

static void *add_a_few(void *counter) {
    for (int i = 0; i < FEW; i++)
        cm_counter_add(counter, 2);
    return NULL;
}

/* The thread that forked owns what it owned, so it may add as the owner; others add as others do. */
static void in_child(int64_t begins_with, bool shared) {
    IS(cm_counter_sum(&inherited), begins_with);
    IS(cm_counter_is_shared(&inherited), shared);
    cm_counter_add_local(&inherited, 7);
    in_threads(add_a_few, &inherited);
    IS(cm_counter_reset(&inherited), begins_with + 7 + 2LL * THREADS * FEW);
    CHECK(cm_counter_share(&inherited) == 0, "the counter cannot be shared in a child");
    in_threads(add_a_few, &inherited);
    cm_counter_bind(&inherited);
    IS(cm_counter_reset(&inherited), 2LL * THREADS * FEW);
    _exit(0);
}

static void *add_until_told(void *stop) {
    while (!atomic_load((atomic_bool *)stop))
        cm_counter_add(&places, 1);
    return NULL;
}

static void check_forks(void) {
    for (int shared = 0; shared < 2; shared++) {
        cm_counter_add(&inherited, 1000);
        CHECK(!shared || cm_counter_share(&inherited) == 0, "the counter cannot be shared");
        pid_t child = fork();
        if (child == 0)
            in_child(1000, shared);
        wait_for(child);
        IS(cm_counter_reset(&inherited), 1000);
    }
    atomic_bool stop = false;
    pthread_t thread;
    CHECK(cm_counter_share(&places) == 0, "the counter cannot be shared");
    CHECK(pthread_create(&thread, NULL, add_until_told, &stop) == 0, "pthread_create failed");
    for (int i = 0; i < 15; i++) {
        pid_t child = fork();
        if (child == 0) {
            int64_t before = cm_counter_sum(&places);
            in_threads(add_a_few, &places);
            IS(cm_counter_sum(&places), before + 2LL * THREADS * FEW);
            IS(cm_counter_limited_add(&places, 1, before + 2LL * THREADS * FEW), false);
            IS(cm_counter_limited_add(&places, 1, before + 2LL * THREADS * FEW + 1), true);
            _exit(0);
        }
        wait_for(child);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

static const struct check checks[] = {{"statics", check_statics},
                                      {"threads", check_threads},
                                      {"handed_over", check_handed_over},
                                      {"limit", check_limit},
                                      {"resets", check_resets},
                                      {"signals", check_signals},
                                      {"forks", check_forks},
                                      {NULL, NULL}};

int main(int count, char **arguments) {
    return run_named(count, arguments, checks);
}
