/* Before main and after it: allocation where a process or a thread begins or ends.
 *
 * before_main      constructors, and code that runs before all constructors, allocate
 * keys             destructors of thread-specific data allocate, free and set the data again
 * atexit           exit handlers and destructors allocate and free; exits with status 7
 * main_leaves      main ends by pthread_exit while another thread goes on
 * detached WAY COUNT   so many processes end by exit, quick_exit or _exit while threads allocate */
#include "churn.h"

static struct block early[3];

static void allocate_early(size_t index) {
    uint64_t random = index + 1;
    block_get(&early[index], &random, 64 * KIB);
    burst(&random);
}

static void before_all(void) { allocate_early(0); }

/* Before the constructors of all libraries, a preloaded one's among them. */
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = before_all;

__attribute__((constructor(101))) static void early_constructor(void) { allocate_early(1); }

__attribute__((constructor)) static void late_constructor(void) { allocate_early(2); }

static void check_before_main(void) {
    for (size_t i = 0; i < 3; i++) {
        CHECK(early[i].at != NULL, "constructor %zu did not run", i);
        block_drop(&early[i]);
    }
}

enum { KEYS = 6, KEY_THREADS = 200, KEY_ROUNDS = 4 };

struct visits {
    size_t key;
    size_t rounds_left;
    struct block block;
};

static pthread_key_t keys[KEYS];
static atomic_size_t destructions;

static struct visits *visits_new(size_t key, size_t rounds) {
    struct visits *visits = malloc(sizeof *visits);
    CHECK(visits != NULL, "malloc failed with errno %d", errno);
    uint64_t random = key * 31 + rounds + 1;
    *visits = (struct visits){.key = key, .rounds_left = rounds};
    block_get(&visits->block, &random, 32 * KIB);
    return visits;
}

/* Sets its key again until the rounds are used up; libc comes back each time. */
static void destroy_visits(void *value) {
    struct visits *visits = value;
    uint64_t random = visits->key + 1;
    atomic_fetch_add(&destructions, 1);
    block_drop(&visits->block);
    burst(&random);
    mailbox_steps(&random, 5, KIB);
    if (visits->rounds_left > 1)
        pthread_setspecific(keys[visits->key], visits_new(visits->key, visits->rounds_left - 1));
    free(visits);
}

static void *use_keys(void *argument) {
    (void)argument;
    for (size_t key = 0; key < KEYS; key++)
        CHECK(pthread_setspecific(keys[key], visits_new(key, KEY_ROUNDS)) == 0, "pthread_setspecific failed");
    return NULL;
}

static void check_keys(void) {
    for (size_t key = 0; key < KEYS; key++)
        CHECK(pthread_key_create(&keys[key], destroy_visits) == 0, "pthread_key_create failed");
    for (size_t i = 0; i < KEY_THREADS; i += 4) {
        pthread_t threads[4];
        threads_start(threads, 4, use_keys);
        threads_join(threads, 4);
    }
    size_t expected = (size_t)KEY_THREADS * KEYS * KEY_ROUNDS;
    CHECK(atomic_load(&destructions) == expected, "%zu destructors ran, not %zu", atomic_load(&destructions), expected);
    mailboxes_empty();
}

enum { EXIT_HANDLERS = 100 };

static struct churn at_exit;
static size_t handlers_run;
static int speaks_at_exit;

static void exit_handler(void) {
    churn_steps(&at_exit, 50);
    if (++handlers_run == EXIT_HANDLERS)
        say("100 exit handlers ran");
}

__attribute__((destructor)) static void late_destructor(void) {
    if (!speaks_at_exit)
        return;
    churn_steps(&at_exit, 1000);
    churn_end(&at_exit);
    say("a destructor ran");
}

__attribute__((destructor(101))) static void last_destructor(void) {
    uint64_t random = 1;
    if (!speaks_at_exit)
        return;
    burst(&random);
    say("the last destructor ran");
}

static void check_atexit(void) {
    churn_begin(&at_exit, 1, 64 * KIB);
    speaks_at_exit = 1;
    for (size_t i = 0; i < EXIT_HANDLERS; i++)
        CHECK(atexit(exit_handler) == 0, "atexit failed");
    exit(7);
}

/* -- Threads that go on. -- */

static void *outlives_main(void *argument) {
    thread_join(*(pthread_t *)argument);
    struct churn churn;
    churn_begin(&churn, 1, 64 * KIB);
    churn_steps(&churn, 20000);
    churn_end(&churn);
    say("a thread outlived main");
    return NULL;
}

static void check_main_leaves(void) {
    static pthread_t self;
    self = pthread_self();
    thread_start(outlives_main, &self);
    pthread_exit(NULL);
}

static void detached_child(const char *way) {
    for (size_t i = 0; i < 4; i++)
        pthread_detach(thread_start(work_until_stop, (void *)i));
    sleep_us(3000);
    if (strcmp(way, "exit") == 0)
        exit(4);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(4);
    _exit(4);
}

static void check_detached(void) {
    const char *way = argument(0) ? argument(0) : "exit";
    for (size_t i = 0; i < number_argument(1, 40); i++) {
        pid_t child = fork();
        if (child == 0)
            detached_child(way);
        child_ends(child, 4, "%s beside threads", way);
    }
}

CHECKS({"before_main", check_before_main}, {"keys", check_keys}, {"atexit", check_atexit},
       {"main_leaves", check_main_leaves}, {"detached", check_detached})
