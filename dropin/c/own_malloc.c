/* A program that brings its own malloc, free, calloc and realloc, as glibc's manual allows ("Replacing
 * malloc"). A preloaded allocator then serves nobody, and must not mix with the program's blocks: libc's
 * reallocarray, for one, is defined to call the program's realloc. */
#include "check.h"

#include <stdatomic.h>

/* A bump allocator whose blocks begin with a mark, to see a block of somebody else's. */
struct header {
    size_t size;
    size_t mark;
};

enum { OWN_MARK = 0x0117 };

static char memory[64 << 20] __attribute__((aligned(16)));
static atomic_size_t used;

static struct header *header_of(void *block) {
    struct header *header = (struct header *)block - 1;
    CHECK((char *)block > memory && (char *)block < memory + sizeof memory, "%p is not this program's block", block);
    CHECK(header->mark == OWN_MARK, "%p is not this program's block", block);
    return header;
}

void *malloc(size_t size) {
    size_t bytes = sizeof(struct header) + (size + 15) / 16 * 16;
    size_t offset = atomic_fetch_add(&used, bytes);
    if (size > sizeof memory || offset + bytes > sizeof memory) {
        errno = ENOMEM;
        return NULL;
    }
    struct header *header = (struct header *)(memory + offset);
    *header = (struct header){size, OWN_MARK};
    return header + 1;
}

void free(void *block) {
    if (block)
        header_of(block);
}

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *old, size_t size) {
    size_t kept = old ? header_of(old)->size : 0;
    void *block = malloc(size);
    if (block && old)
        memcpy(block, old, kept < size ? kept : size);
    return block;
}

/* glibc's own names for what it has, whatever a program has under the usual ones. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static void use_glibcs_names(void) {
    void *blocks[] = {__libc_malloc(100), __libc_calloc(10, 10), __libc_realloc(NULL, 100), __libc_memalign(64, 100)};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        CHECK((char *)blocks[i] < memory || (char *)blocks[i] >= memory + sizeof memory, "it is the program's own");
        memset(blocks[i], 1, 100);
        __libc_free(__libc_realloc(blocks[i], 1000));
    }
}

static void *in_thread(void *text) {
    free(text);
    return strdup("from a thread");
}

int main(void) {
    int *numbers = reallocarray(NULL, 10, sizeof *numbers);
    header_of(numbers);
    numbers = reallocarray(numbers, 1000, sizeof *numbers);
    header_of(numbers);
    free(numbers);

    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    for (int i = 0; i < 1000; i++)
        fprintf(stream, "line %d\n", i);
    fclose(stream);
    CHECK(length == 8890, "the stream has %zu bytes", length);
    free(text);

    void *result = NULL;
    pthread_join(thread_start(in_thread, strdup("to a thread")), &result);
    free(result);
    use_glibcs_names();
    say("own malloc served");
    return 0;
}
