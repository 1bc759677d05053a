/* Threads: many in turn, many at once, blocks that one allocates and another frees.
 *
 * in_turn [COUNT]        COUNT threads one after the other; the footprint comes back
 * together ROUNDS [MIB]  200 threads at once, each with blocks of its own and blocks that change hands; doing
 *                        the same again takes no more memory
 * footprint ROUNDS [MIB] the same; after malloc_trim the memory is back
 * migrate SECONDS        as together, by four threads that are moved from CPU to CPU all the time
 * small_stacks           threads with the least stack there is use every size of block
 * left_behind            what a thread allocated lives on after it and is freed by others
 * much                   a thread has 20 GiB at a time, untouched
 * very_many COUNT        one more thread than COUNT that rest does not ask the kernel, block by block, who lives */
#include "churn.h"
#include "filter.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>

static atomic_bool stop;

static pthread_t start_thread(size_t stack_bytes, void *(*body)(void *), void *argument) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    int error = pthread_create(&thread, &attributes, body, argument);
    CHECK(error == 0, "pthread_create returned %d", error);
    pthread_attr_destroy(&attributes);
    return thread;
}

static void join(pthread_t thread) {
    int error = pthread_join(thread, NULL);
    CHECK(error == 0, "pthread_join returned %d", error);
}

/* Each thread frees what its predecessor left and leaves something itself. */
static void *short_life(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    void *blocks[60];
    for (size_t i = 0; i < 60; i++) {
        size_t size = random_size(&random, 64 * KIB);
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL, "malloc(%zu) failed with errno %d", size, errno);
        fill(blocks[i], size < 512 ? size : 512, i);
    }
    for (size_t i = 0; i < 60; i++)
        free(blocks[i]);
    mailbox_steps(&random, 4, 4 * KIB);
    return NULL;
}

static void check_in_turn(void) {
    size_t count = number_argument(0, 10000), settled = 0;
    for (size_t i = 0; i < count; i++) {
        join(start_thread(256 * KIB, short_life, (void *)(uintptr_t)i));
        if (i == count / 10)
            settled = resident_bytes();
    }
    size_t after = resident_bytes();
    CHECK(after < settled + 4 * MIB, "memory is not reused: after %zu threads %zu bytes are resident, after %zu %zu",
          count / 10, settled, count, after);
    mailboxes_empty();
}

enum { AT_ONCE = 200 };

static size_t crowd_rounds = SIZE_MAX;

static void *crowd_member(void *argument) {
    struct churn churn;
    churn_begin(&churn, (uintptr_t)argument, 32 * KIB);
    for (size_t round = 0; round < crowd_rounds && !atomic_load(&stop); round++) {
        churn_steps(&churn, 200);
        mailbox_steps(&churn.random, 100, 8 * KIB);
        burst(&churn.random);
    }
    churn_end(&churn);
    return NULL;
}

static void run_crowd(void) {
    pthread_t threads[AT_ONCE];
    crowd_rounds = number_argument(0, 20);
    for (size_t i = 0; i < AT_ONCE; i++)
        threads[i] = start_thread(256 * KIB, crowd_member, (void *)(uintptr_t)(i + 1));
    for (size_t i = 0; i < AT_ONCE; i++)
        join(threads[i]);
    mailboxes_empty();
}

static void check_together(void) {
    run_crowd();
    size_t once = resident_bytes();
    run_crowd();
    size_t twice = resident_bytes();
    CHECK(twice < once + (size_t)number_argument(1, 48) * MIB,
          "memory is not reused: resident %zu, then %zu after the same again", once, twice);
}

/* What is left are the stacks that libc keeps, and little else: where every thread has a slot of its own, the arrays of
 * the slots that wait for the next threads. */
static void check_footprint(void) {
    size_t before = resident_bytes();
    run_crowd();
    size_t after = resident_bytes();
    malloc_trim(0);
    size_t trimmed = resident_bytes();
    CHECK(trimmed < before + (size_t)number_argument(1, 32) * MIB,
          "memory is kept: resident %zu at first, %zu after 200 threads, %zu trimmed", before, after, trimmed);
}

enum { MOVED = 4 };

static void move_thread(pthread_t thread, size_t step) {
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    size_t chosen = step % (size_t)CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || chosen-- != 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(thread, sizeof one, &one);
        return;
    }
}

static void check_migrate(void) {
    double end = seconds_now() + seconds_argument(0);
    pthread_t threads[MOVED];
    uint64_t random = 1;
    for (size_t i = 0; i < MOVED; i++)
        threads[i] = start_thread(256 * KIB, crowd_member, (void *)(uintptr_t)(i + 1));
    while (seconds_now() < end) {
        move_thread(threads[random_below(&random, MOVED)], random_below(&random, 1024));
        sleep_us((long)random_below(&random, 200));
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < MOVED; i++)
        join(threads[i]);
    mailboxes_empty();
}

static void *use_all_sizes(void *argument) {
    (void)argument;
    for (size_t size = 1; size <= 8 * MIB; size = size * 9 / 8 + 1) {
        unsigned char *block = malloc(size);
        CHECK(block != NULL, "malloc(%zu) failed with errno %d", size, errno);
        block[0] = block[size - 1] = 1;
        block = realloc(block, size + size / 2);
        CHECK(block != NULL, "realloc to %zu bytes failed with errno %d", size + size / 2, errno);
        free(block);
        free(aligned_block(4096, size));
    }
    return NULL;
}

static void check_small_stacks(void) {
    for (int round = 0; round < 5; round++) {
        pthread_t threads[8];
        for (size_t i = 0; i < 8; i++)
            threads[i] = start_thread(PTHREAD_STACK_MIN, use_all_sizes, NULL);
        for (size_t i = 0; i < 8; i++)
            join(threads[i]);
    }
}

enum { HEIRLOOMS = 20000 };

static struct parcel *heirlooms[HEIRLOOMS];

static void *bequeath(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    for (size_t i = 0; i < HEIRLOOMS; i++)
        heirlooms[i] = parcel_new(&random, 2 * KIB);
    return NULL;
}

static void *inherit(void *argument) {
    (void)argument;
    for (size_t i = 0; i < HEIRLOOMS; i++)
        parcel_drop(heirlooms[i], "allocated by a thread that ended");
    return NULL;
}

static void check_left_behind(void) {
    size_t settled = 0, last = 0;
    for (size_t round = 0; round < 20; round++) {
        join(start_thread(256 * KIB, bequeath, (void *)round));
        last = resident_bytes();
        if (round == 4)
            settled = last;
        if (round % 2)
            join(start_thread(256 * KIB, inherit, NULL));
        else
            inherit(NULL);
    }
    CHECK(last < settled + 8 * MIB, "memory is not reused: resident %zu, then %zu", settled, last);
}

/* A thread that owns no counter has more than 2^30 of whatever a statistic may count it by, 16 bytes; nothing is
 * touched. */
static void *have_much(void *argument) {
    (void)argument;
    enum { BLOCKS = 20 };
    char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc((size_t)1 << 30);
        CHECK(blocks[i] != NULL, "no GiB number %zu: errno %d", i, errno);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

static void check_much(void) {
    char *own = malloc(1 << 20);
    CHECK(own != NULL, "no MiB: errno %d", errno);
    join(start_thread(256 * KIB, have_much, NULL));
    free(own);
}

static sem_t rests, ends;
static atomic_int questions;

static void *rest(void *unused) {
    for (size_t i = 0; i < 40; i++)
        free(malloc(100 + 10 * i));
    sem_post(&rests);
    sem_wait(&ends);
    return unused;
}

static void count_question(int signal) {
    (void)signal;
    atomic_fetch_add(&questions, 1);
}

/* From here on a question of this thread after another one is counted, and has no answer. */
static void count_questions(void) {
    struct filter filter;
    CHECK(signal(SIGSYS, count_question) != SIG_ERR, "no handler");
    filter_begin(&filter);
    filter_call(&filter, SYS_tgkill, SECCOMP_RET_TRAP);
    filter_install(&filter, SECCOMP_RET_ALLOW, 0, false);
}

static void *work_beside(void *unused) {
    enum { BLOCKS = 100, ROUNDS = 20, MOST = 200 };
    void *blocks[BLOCKS];
    count_questions();
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            CHECK((blocks[i] = malloc(64)) != NULL, "no block");
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    int asked = atomic_load(&questions);
    CHECK(asked <= MOST, "for %d blocks the kernel was asked %d times whether a thread lives", BLOCKS * ROUNDS, asked);
    return unused;
}

static void check_very_many(void) {
    size_t count = number_argument(0, 1100);
    pthread_t *threads = malloc(count * sizeof *threads);
    sem_init(&rests, 0, 0);
    sem_init(&ends, 0, 0);
    for (size_t i = 0; i < count; i++) {
        threads[i] = start_thread(64 * KIB, rest, NULL);
        sem_wait(&rests);
    }
    join(start_thread(64 * KIB, work_beside, NULL));
    for (size_t i = 0; i < count; i++)
        sem_post(&ends);
    for (size_t i = 0; i < count; i++)
        join(threads[i]);
    free(threads);
}

CHECKS({"in_turn", check_in_turn}, {"together", check_together}, {"footprint", check_footprint},
       {"migrate", check_migrate}, {"small_stacks", check_small_stacks}, {"left_behind", check_left_behind},
       {"much", check_much}, {"very_many", check_very_many})
