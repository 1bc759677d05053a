/* Threads: many in turn, many at once, blocks that one allocates and another frees.
 *
 * in_turn [COUNT]        COUNT threads one after the other; the footprint comes back
 * together ROUNDS [MIB]  200 threads at once, each with blocks of its own and blocks that change hands; doing
 *                        the same again takes no more memory
 * small_stacks           threads with the least stack there is use every size of block
 * left_behind            what a thread allocated lives on after it and is freed by others
 * much                   a thread has 20 GiB at a time, untouched */
#include "churn.h"

#include <limits.h>

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
        thread_join(thread_start(short_life, (void *)i));
        if (i == count / 10)
            settled = resident_bytes();
    }
    size_t after = resident_bytes();
    CHECK(after < settled + 4 * MIB, "memory is not reused: after %zu threads %zu bytes are resident, after %zu %zu",
          count / 10, settled, count, after);
    mailboxes_empty();
}

enum { AT_ONCE = 200 };

static void *crowd_member(void *seed) {
    struct churn churn;
    churn_begin(&churn, (uintptr_t)seed, 32 * KIB);
    for (size_t round = 0; round < number_argument(0, 20); round++) {
        churn_steps(&churn, 200);
        mailbox_steps(&churn.random, 100, 8 * KIB);
        burst(&churn.random);
    }
    churn_end(&churn);
    return NULL;
}

static void run_crowd(void) {
    pthread_t threads[AT_ONCE];
    set_stack_bytes(256 * KIB);
    threads_start(threads, AT_ONCE, crowd_member);
    threads_join(threads, AT_ONCE);
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

static void *use_all_sizes(void *unused) {
    for (size_t size = 1; size <= 8 * MIB; size = size * 9 / 8 + 1) {
        unsigned char *block = malloc(size);
        CHECK(block != NULL, "malloc(%zu) failed with errno %d", size, errno);
        block[0] = block[size - 1] = 1;
        block = realloc(block, size + size / 2);
        CHECK(block != NULL, "realloc to %zu bytes failed with errno %d", size + size / 2, errno);
        free(block);
        free(aligned_block(4096, size));
    }
    return unused;
}

static void check_small_stacks(void) {
    set_stack_bytes(PTHREAD_STACK_MIN);
    for (int round = 0; round < 5; round++) {
        pthread_t threads[8];
        threads_start(threads, 8, use_all_sizes);
        threads_join(threads, 8);
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

static void *inherit(void *unused) {
    for (size_t i = 0; i < HEIRLOOMS; i++)
        parcel_drop(heirlooms[i], "allocated by a thread that ended");
    return unused;
}

static void check_left_behind(void) {
    size_t settled = 0, last = 0;
    for (size_t round = 0; round < 20; round++) {
        thread_join(thread_start(bequeath, (void *)round));
        last = resident_bytes();
        if (round == 4)
            settled = last;
        if (round % 2)
            thread_join(thread_start(inherit, NULL));
        else
            inherit(NULL);
    }
    CHECK(last < settled + 8 * MIB, "memory is not reused: resident %zu, then %zu", settled, last);
}

/* A thread that owns no counter has more than 2^30 of whatever a statistic may count it by, 16 bytes; nothing is
 * touched. */
static void *have_much(void *unused) {
    enum { BLOCKS = 20 };
    char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc((size_t)1 << 30);
        CHECK(blocks[i] != NULL, "no GiB number %zu: errno %d", i, errno);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return unused;
}

static void check_much(void) {
    char *own = malloc(1 << 20);
    CHECK(own != NULL, "no MiB: errno %d", errno);
    thread_join(thread_start(have_much, NULL));
    free(own);
}

CHECKS({"in_turn", check_in_turn}, {"together", check_together}, {"small_stacks", check_small_stacks},
       {"left_behind", check_left_behind}, {"much", check_much})
