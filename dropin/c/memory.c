/* Memory goes back to the kernel, and is used again.
 *
 * returns SIZE          200 MiB in blocks of SIZE bytes; after free and malloc_trim it is gone
 * alone SIZE            the same in a process with one thread, which calls nothing after the last free: it is gone
 *                       but for 64 MiB. Blocks of 0 bytes are of many sizes
 * reuse SIZE            the same blocks again and again take no more memory
 * recycle               memory of one size serves other sizes */
#include "check.h"

#include <malloc.h>
#include <stdbool.h>
#include <sys/mman.h>

#define TOTAL (200 * MIB)
#define SLACK (6 * MIB)

static void **blocks;

/* The table is no heap block and is resident from the start, so it cancels out. */
static void make_table(size_t count) {
    size_t bytes = count * sizeof *blocks;
    blocks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(blocks != MAP_FAILED, "mmap failed with errno %d", errno);
    memset(blocks, 1, bytes);
}

/* Of 0 bytes: of up to 4 KiB. */
static void take(size_t from, size_t to, size_t size) {
    for (size_t i = from; i < to; i++) {
        size_t own = size > 0 ? size : i * 1979 % 4096 + 1;
        blocks[i] = malloc(own);
        CHECK(blocks[i] != NULL, "malloc(%zu) failed with errno %d", own, errno);
        for (size_t at = 0; at < own; at += 4096)
            ((char *)blocks[i])[at] = 1;
    }
}

/* In an order unlike that of the allocations: strides through the table. */
static void give(size_t from, size_t to) {
    enum { STRIDE = 97 };
    for (size_t start = 0; start < STRIDE; start++) {
        for (size_t i = from + start; i < to; i += STRIDE)
            free(blocks[i]);
    }
}

/* Whether no more than so much stays of blocks that are given back, by themselves or when asked for. */
static void check_gone(bool is_asked, size_t kept) {
    size_t size = number_argument(0, 64), count = TOTAL / (size > 0 ? size : 2048);
    make_table(count);
    free(malloc(size));
    size_t before = resident_bytes();
    take(0, count, size);
    size_t with = resident_bytes();
    give(0, count);
    if (is_asked)
        malloc_trim(0);
    size_t after = resident_bytes();
    CHECK(with > before + TOTAL / 2, "only %zu bytes became resident", with - before);
    CHECK(after < before + kept, "memory is kept: resident %zu at first, %zu with the blocks, %zu after them", before,
          with, after);
}

static void check_returns(void) { check_gone(true, SLACK); }

static void check_alone(void) { check_gone(false, 64 * MIB); }

/* -- reuse and recycle -- */

#define ROUND_BYTES (40 * MIB)

static void check_reuse(void) {
    size_t size = number_argument(0, 64), count = ROUND_BYTES / size, first = 0, last = 0;
    make_table(count);
    for (int round = 0; round < 10; round++) {
        take(0, count, size);
        last = resident_bytes();
        if (round == 0)
            first = last;
        give(0, count);
    }
    CHECK(last < first + SLACK, "memory is not reused: resident %zu in the first round, %zu in the tenth", first, last);
}

static void check_recycle(void) {
    size_t sizes[] = {32, 100, 1000, 5000, 33000, 200000, 3000000, 64, 20000, 400};
    size_t first = 0, last = 0;
    make_table(ROUND_BYTES / 32);
    for (size_t round = 0; round < sizeof sizes / sizeof *sizes; round++) {
        size_t count = ROUND_BYTES / sizes[round];
        take(0, count, sizes[round]);
        last = resident_bytes();
        if (round == 0)
            first = last;
        CHECK(last < first + ROUND_BYTES, "memory is not recycled: resident %zu, then %zu with blocks of %zu", first,
              last, sizes[round]);
        give(0, count);
    }
}

CHECKS({"returns", check_returns}, {"alone", check_alone}, {"reuse", check_reuse}, {"recycle", check_recycle})
