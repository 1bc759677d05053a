/* Allocators that each do one thing wrong, on top of the C library's. Which one is chosen when it is compiled. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void __libc_free(void *block);

/* The blocks of the program below; smaller ones are other people's. */
enum { LARGE = 50000 };

void *malloc(size_t size) {
#if defined SLOW
    /* The program sleeps for a millisecond between its large blocks: several times as long, also where others have the CPU. */
    if (size >= LARGE)
        nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
#elif defined CRASHING
    if (size >= LARGE) {
        static const char why[] = "fake allocator: out of order\n";
        if (write(2, why, sizeof why - 1) > 0)
            abort();
    }
#elif defined HANGING
    if (size >= LARGE)
        for (;;)
            pause();
#endif
    return __libc_malloc(size);
}

void free(void *block) {
#if !defined LEAKING
    __libc_free(block);
#else
    (void)block;
#endif
}

void *calloc(size_t count, size_t size) {
    char *block = __libc_calloc(count, size);
#if defined DIRTY
    if (block != NULL && count * size >= LARGE)
        block[count * size / 2] = 1;
#endif
    return block;
}
