/* Loads that check themselves: a table of live blocks (churn), blocks that change hands between threads
 * (mailboxes), a burst, and threads that do all of it.
 *
 * Every block carries a pattern of its own from the moment it is allocated until it is freed, so an
 * allocator that hands out overlapping memory, loses contents in realloc or returns dirty memory from
 * calloc is found by the next look at the block. A churn belongs to one thread at a time. Mailboxes may be
 * used by any number of threads, signal handlers and forked children: they are exchanged atomically. */
#ifndef CHURN_H
#define CHURN_H

#include "check.h"

#include <stdatomic.h>

/* -- A table of live blocks. -- */

struct block {
    unsigned char *at;
    size_t size;
    uint64_t seed;
};

enum { CHURN_BLOCKS = 400 };

struct churn {
    struct block blocks[CHURN_BLOCKS];
    size_t largest;
    uint64_t random;
};

static inline void *aligned_block(size_t alignment, size_t size) {
    void *block = NULL;
    int error = posix_memalign(&block, alignment, size);
    CHECK(error == 0, "posix_memalign(%zu, %zu) returned %d", alignment, size, error);
    CHECK((uintptr_t)block % alignment == 0, "posix_memalign(%zu, %zu) gave %p", alignment, size, block);
    return block;
}

static inline void *zeroed_block(size_t size) {
    unsigned char *block = (unsigned char *)calloc(1, size);
    CHECK(block != NULL, "calloc(1, %zu) returned NULL", size);
    for (size_t i = 0; i < size; i += pattern_step(size, i))
        CHECK(block[i] == 0, "calloc(1, %zu): byte %zu is %d", size, i, block[i]);
    return block;
}

static inline void block_get(struct block *block, uint64_t *random, size_t largest) {
    block->size = random_size(random, largest);
    block->seed = random_next(random);
    switch (random_below(random, 8)) {
    case 0:
        block->at = (unsigned char *)zeroed_block(block->size);
        break;
    case 1:
        block->at = (unsigned char *)aligned_block((size_t)16 << random_below(random, 9), block->size);
        break;
    default:
        block->at = (unsigned char *)malloc(block->size);
        break;
    }
    CHECK(block->at != NULL, "allocating %zu bytes failed with errno %d", block->size, errno);
    fill(block->at, block->size, block->seed);
}

static inline void block_check(const struct block *block, const char *when) {
    check_filled(block->at, block->size, block->size, block->seed, when);
}

static inline void block_drop(struct block *block) {
    block_check(block, "before free");
    free(block->at);
    block->at = NULL;
}

static inline void block_resize(struct block *block, uint64_t *random, size_t largest) {
    size_t size = random_size(random, largest) + 1;
    size_t kept = size < block->size ? size : block->size;
    unsigned char *moved = (unsigned char *)realloc(block->at, size);
    CHECK(moved != NULL, "realloc to %zu bytes failed with errno %d", size, errno);
    check_filled(moved, block->size, kept, block->seed, "after realloc");
    *block = (struct block){moved, size, random_next(random)};
    fill(block->at, block->size, block->seed);
}

static inline void churn_begin(struct churn *churn, uint64_t seed, size_t largest) {
    memset(churn, 0, sizeof *churn);
    churn->random = seed * 0x9E3779B97F4A7C15u + 1;
    churn->largest = largest;
}

/* Each step allocates, frees or resizes one block of the table. */
static inline void churn_steps(struct churn *churn, size_t steps) {
    for (size_t i = 0; i < steps; i++) {
        struct block *block = &churn->blocks[random_below(&churn->random, CHURN_BLOCKS)];
        if (!block->at)
            block_get(block, &churn->random, churn->largest);
        else if (random_below(&churn->random, 4) == 0)
            block_resize(block, &churn->random, churn->largest);
        else
            block_drop(block);
    }
}

static inline void churn_end(struct churn *churn) {
    for (size_t i = 0; i < CHURN_BLOCKS; i++) {
        if (churn->blocks[i].at)
            block_drop(&churn->blocks[i]);
    }
}

/* -- Blocks that change hands. -- */

/* A parcel says itself what it holds, so whoever gets it can check and free it. */
struct parcel {
    size_t size; /* of the contents */
    uint64_t seed;
    unsigned char contents[];
};

enum { MAILBOXES = 256 };

static _Atomic(struct parcel *) mailboxes[MAILBOXES];

static inline struct parcel *parcel_new(uint64_t *random, size_t largest) {
    size_t size = random_size(random, largest);
    struct parcel *parcel = (struct parcel *)malloc(sizeof *parcel + size);
    CHECK(parcel != NULL, "malloc of %zu bytes failed with errno %d", size, errno);
    parcel->size = size;
    parcel->seed = random_next(random);
    fill(parcel->contents, size, parcel->seed);
    return parcel;
}

static inline void parcel_drop(struct parcel *parcel, const char *when) {
    if (!parcel)
        return;
    check_filled(parcel->contents, parcel->size, parcel->size, parcel->seed, when);
    free(parcel);
}

/* Leaves a new block in a random mailbox and frees the one found there, which mostly is another thread's. */
static inline void mailbox_steps(uint64_t *random, size_t steps, size_t largest) {
    for (size_t i = 0; i < steps; i++) {
        struct parcel *mine = parcel_new(random, largest);
        struct parcel *theirs = atomic_exchange(&mailboxes[random_below(random, MAILBOXES)], mine);
        parcel_drop(theirs, "taken from a mailbox");
    }
}

static inline void mailboxes_empty(void) {
    for (size_t i = 0; i < MAILBOXES; i++)
        parcel_drop(atomic_exchange(&mailboxes[i], NULL), "left in a mailbox");
}

/* -- A burst: many small blocks at once, so that arrays run empty and full. -- */

enum { BURST_BLOCKS = 1000 };

static inline void burst(uint64_t *random) {
    uint64_t *blocks[BURST_BLOCKS];
    size_t size = 8 + random_below(random, 500);
    for (size_t i = 0; i < BURST_BLOCKS; i++) {
        blocks[i] = (uint64_t *)malloc(size);
        CHECK(blocks[i] != NULL, "malloc(%zu) failed with errno %d", size, errno);
        *blocks[i] = (uintptr_t)blocks[i];
    }
    for (size_t i = 0; i < BURST_BLOCKS; i++) {
        CHECK(*blocks[i] == (uintptr_t)blocks[i], "block overwritten: %p in a burst of %zu-byte blocks",
              (void *)blocks[i], size);
        free(blocks[i]);
    }
}

/* -- Threads that go on until they are told to stop. -- */

static atomic_bool stop;

static inline void churn_work(struct churn *churn) {
    churn_steps(churn, 100);
    mailbox_steps(&churn->random, 100, 2 * KIB);
    burst(&churn->random);
}

static inline void *work_until_stop(void *seed) {
    struct churn churn;
    churn_begin(&churn, (uintptr_t)seed, 256 * KIB);
    while (!atomic_load(&stop))
        churn_work(&churn);
    churn_end(&churn);
    return NULL;
}

/* Tells threads that were started with work_until_stop. */
static inline void threads_stop(const pthread_t *threads, size_t count) {
    atomic_store(&stop, 1);
    threads_join(threads, count);
    mailboxes_empty();
}

#endif
