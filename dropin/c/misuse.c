/* Programs that misuse the heap. Each case must end by SIGABRT after one line on standard error.
 *
 *     misuse CASE SIZE [threaded]
 *
 * A wrong free may sit in a per-CPU array for a while. It has to be found when the array is flushed, so each
 * case goes on to free thousands of good blocks of the same size, calls malloc_trim and exits. A misuse
 * that was missed shows as the line "not found" and status 0.
 *
 * With misuse:report the program goes on after the line. The cases that then must hold check what is left. */
#include "check.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>

#pragma GCC diagnostic ignored "-Wfree-nonheap-object"
#pragma GCC diagnostic ignored "-Wuse-after-free"

static size_t size;

/* The compiler must not see what is freed here. */
static void wrong_free(void *block) {
    void *volatile hidden = block;
    free(hidden);
}

static void double_free(void) {
    void *block = malloc(size);
    free(block);
    wrong_free(block);
}

static void double_free_by_realloc(void) {
    void *block = malloc(size);
    free(realloc(block, 3 * size + 64 * KIB));
    wrong_free(block);
}

/* The block's run joins both neighbours before it is freed again. */
static void double_free_joined(void) {
    void *before = malloc(size), *block = malloc(size), *behind = malloc(size);
    free(before);
    free(behind);
    free(block);
    wrong_free(block);
}

/* Its pages are back in the kernel's hands. */
static void double_free_purged(void) {
    void *block = malloc(size);
    free(block);
    malloc_trim(0);
    wrong_free(block);
}

/* A block that begins before it has its memory now. */
static void double_free_covered(void) {
    char *before = malloc(size), *block = malloc(size);
    CHECK(block > before, "the second block, %p, lies below the first, %p", (void *)block, (void *)before);
    size_t both = (size_t)(block - before) + size;
    free(block);
    free(before);
    char *cover = malloc(both);
    CHECK(cover < block && block < cover + both, "%p does not cover %p", (void *)cover, (void *)block);
    wrong_free(block);
}

/* It is one of several with mappings of their own, of which the latest was unmapped since. */
static void double_free_unmapped(void) {
    void *blocks[10];
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(size);
    for (int i = 0; i < 10; i++)
        free(blocks[i]);
    wrong_free(blocks[3]);
}

static void *foreign_memory(void) {
    char *memory = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "mmap failed with errno %d", errno);
    return memory + MIB;
}

static void foreign(void) { wrong_free(foreign_memory()); }

/* Where a block with a mapping of its own was, the program has one of its own, and frees inside of it. */
static void foreign_where_a_block_was(void) {
    char *block = malloc(size);
    free(block);
    void *memory = mmap(block, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory == block, "mmap gave %p, not %p", memory, (void *)block);
    wrong_free(block + MIB);
}

static void stack(void) {
    char on_the_stack[256] __attribute__((aligned(64)));
    wrong_free(on_the_stack);
}

static void interior(void) {
    char *block = malloc(size);
    wrong_free(block + (size / 2 + 15) / 16 * 16);
}

static void realloc_stack(void) {
    char on_the_stack[256] __attribute__((aligned(64)));
    void *volatile hidden = on_the_stack;
    free(realloc(hidden, size));
}

static void *wrong_realloc(void *block) {
    void *volatile hidden = block;
    return realloc(hidden, 3 * size + 64 * KIB);
}

static void realloc_freed(void) {
    void *block = malloc(size);
    free(block);
    wrong_realloc(block);
}

static void realloc_interior(void) { wrong_realloc((char *)malloc(size) + (size / 2 + 15) / 16 * 16); }

/* What frees with a size, by its symbol. Those of C++ are there without the C++ library. */
typedef void sized_free(void *block, size_t bytes);
typedef void aligned_free(void *block, size_t bytes, size_t alignment);

static void *symbol(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL, "%s is not defined", name);
    return found;
}

static void too_large(const char *name) { ((sized_free *)symbol(name))(malloc(size), 7 * size + 100); }
static void too_small(const char *name) { ((sized_free *)symbol(name))(malloc(size), size / 3); }

static void wrong_size(void) { too_large("free_sized"); }
static void small_size(void) { too_small("free_sized"); }
static void wrong_delete(void) { too_large("_ZdlPvm"); }
static void small_delete(void) { too_small("_ZdlPvm"); }
static void wrong_delete_of_array(void) { too_large("_ZdaPvm"); }
static void small_delete_of_array(void) { too_small("_ZdaPvm"); }

static void wrong_aligned_delete(void) {
    ((aligned_free *)symbol("_ZdlPvmSt11align_val_t"))(aligned_alloc(64, size), 7 * size + 100, 64);
}

static void wrong_aligned_delete_of_array(void) {
    ((aligned_free *)symbol("_ZdaPvmSt11align_val_t"))(aligned_alloc(64, size), 7 * size + 100, 64);
}

static void wrong_aligned_size(void) {
    typedef void freeing(void *block, size_t alignment, size_t bytes);
    ((freeing *)symbol("free_aligned_sized"))(aligned_alloc(64, size), 64, 7 * size + 100);
}

/* -- with misuse:report -- */

/* Each is told once, nothing is freed, and the heap is as good as before. */
static void reported(void) {
    char *block = malloc(size), *freed = malloc(size), *other = malloc(100);
    fill(block, size, 1);
    free(freed);
    wrong_free(freed);
    CHECK(malloc_usable_size(freed) == 0, "a freed block has %zu bytes", malloc_usable_size(freed));
    wrong_free(block + 32);
    void *foreign = foreign_memory();
    wrong_free(foreign);
    void *wrong[] = {freed, block + 32, foreign, other + 16};
    for (int i = 0; i < 4; i++) {
        errno = 0;
        void *moved = wrong_realloc(wrong[i]);
        CHECK(moved == NULL && errno == EINVAL, "realloc %d gave %p and errno %d", i, moved, errno);
    }
    ((sized_free *)symbol("free_sized"))(block, 7 * size);
    ((sized_free *)symbol("_ZdlPvm"))(block, 7 * size);
    check_filled(block, size, size, 1, "a block that was misused, and not freed");
    free(other);
    free(block);
}

/* Found when the magazine is flushed: the second pointer is dropped, and no block is given out twice. */
static void reported_late(void) {
    enum { BLOCKS = 1000 };
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(size);
    for (int i = 0; i < BLOCKS; i += 2)
        free(blocks[i]);
    malloc_trim(0);
    size_t before = mallinfo2().uordblks, usable = malloc_usable_size(blocks[503]);
    wrong_free(blocks[500]);
    wrong_free(blocks[501] + 16);
    wrong_free(blocks[503]);
    wrong_free(blocks[503]);
    malloc_trim(0);
    size_t after = mallinfo2().uordblks;
    CHECK(after == before - usable, "%zu bytes in use, then %zu after a block of %zu was freed", before, after, usable);
    for (int i = 0; i < BLOCKS; i += 2) {
        blocks[i] = malloc(size);
        fill(blocks[i], size, (uint64_t)i);
    }
    for (int i = 0; i < BLOCKS; i += 2)
        check_filled(blocks[i], size, size, (uint64_t)i, "blocks after a double free");
}

static void reported_often(void) {
    void *foreign = foreign_memory();
    for (int i = 0; i < 150; i++)
        wrong_free(foreign);
}

CHECK_TABLE({"double_free", double_free}, {"double_free_by_realloc", double_free_by_realloc}, {"stack", stack},
            {"double_free_joined", double_free_joined}, {"double_free_purged", double_free_purged},
            {"double_free_covered", double_free_covered}, {"double_free_unmapped", double_free_unmapped},
            {"foreign", foreign}, {"foreign_where_a_block_was", foreign_where_a_block_was},
            {"interior", interior}, {"realloc_stack", realloc_stack}, {"realloc_freed", realloc_freed},
            {"realloc_interior", realloc_interior}, {"wrong_size", wrong_size}, {"small_size", small_size},
            {"wrong_delete", wrong_delete}, {"small_delete", small_delete},
            {"wrong_delete_of_array", wrong_delete_of_array}, {"small_delete_of_array", small_delete_of_array},
            {"wrong_aligned_delete", wrong_aligned_delete}, {"wrong_aligned_size", wrong_aligned_size},
            {"wrong_aligned_delete_of_array", wrong_aligned_delete_of_array}, {"reported", reported},
            {"reported_late", reported_late}, {"reported_often", reported_often});

enum { FLUSH_BLOCKS = 20000 };

static void *flush_blocks[FLUSH_BLOCKS];

static size_t flush_count(void) { return size < 16 * KIB ? FLUSH_BLOCKS : size < 16 * MIB ? 200 : 2; }

static void prepare_flush(void) {
    for (size_t i = 0; i < flush_count(); i++)
        flush_blocks[i] = malloc(size);
}

static void flush(void) {
    for (size_t i = 0; i < flush_count(); i++)
        free(flush_blocks[i]);
    malloc_trim(0);
}

static void *idle(void *unused) {
    free(malloc(100));
    return unused;
}

int main(int count, char **arguments) {
    CHECK(count >= 3, "usage: misuse CASE SIZE [threaded]");
    size = strtoul(arguments[2], NULL, 10);
    if (count > 3)
        thread_join(thread_start(idle, NULL));
    prepare_flush();
    int status = run_named(count, arguments, checks);
    flush();
    say("not found");
    return status;
}
