/* A program that brings its own malloc, free, calloc and realloc, as glibc's manual allows ("Replacing
 * malloc"). A preloaded allocator then serves nobody, and must not mix with the program's blocks: libc's
 * reallocarray, for one, is defined to call the program's realloc. */
#include "check.h"

#include <pthread.h>
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
    CHECK((char *)block > memory && (char *)block < memory + sizeof memory, "%p is not this program's block",
          block);
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

void *calloc(size_t count, size_t size) {
    return malloc(count * size);
}

void *realloc(void *old, size_t size) {
    size_t kept = old ? header_of(old)->size : 0;
    void *block = malloc(size);
    if (block && old)
        memcpy(block, old, kept < size ? kept : size);
    return block;
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
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, strdup("to a thread")) == 0, "pthread_create failed");
    pthread_join(thread, &result);
    free(result);
    say("own malloc served");
    return 0;
}
