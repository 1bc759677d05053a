/* Programs that misuse the heap. Each case must end by SIGABRT after one line on standard error.
 *
 *     misuse CASE SIZE [threaded]
 *
 * A wrong free may sit in a per-CPU array for a while. It has to be found when the array is flushed, so each
 * case goes on to free thousands of good blocks of the same size, calls malloc_trim and exits. A misuse
 * that was missed shows as the line "not found" and status 0. */
#include "check.h"

#include <dlfcn.h>
#include <malloc.h>

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

static void wrong_size(void) {
    void (*free_sized_)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    CHECK(free_sized_ != NULL, "free_sized is not defined");
    free_sized_(malloc(size), 7 * size + 100);
}

CHECK_TABLE({"double_free", double_free}, {"double_free_by_realloc", double_free_by_realloc}, {"stack", stack},
            {"interior", interior}, {"realloc_stack", realloc_stack}, {"wrong_size", wrong_size});

enum { FLUSH_BLOCKS = 20000 };

static void *flush_blocks[FLUSH_BLOCKS];

static size_t flush_count(void) { return size < 16 * KIB ? FLUSH_BLOCKS : 200; }

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
