/* A program with functions of its own in the place of the C library's, as collectors, profilers, sanitizers and MPI
 * libraries have them.
 *
 * under_lock    its pthread_create takes a lock, and it allocates while it holds that, until the library has made a
 *               thread of its own
 * mappings      its munmap and madvise see what the library returns to the kernel, as `syscalls:libc` has it */
#include "check.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static int threads_made;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    pthread_mutex_lock(&threads_lock);
    threads_made++;
    int result = next(thread, attributes, start, argument);
    pthread_mutex_unlock(&threads_lock);
    return result;
}

static int unmapped, advised;

int munmap(void *at, size_t bytes) {
    unmapped++;
    return (int)syscall(SYS_munmap, at, bytes);
}

int madvise(void *at, size_t bytes, int advice) {
    advised++;
    return (int)syscall(SYS_madvise, at, bytes, advice);
}

static void check_mappings(void) {
    static void *blocks[4000];
    free(malloc(200 * MIB));
    for (size_t i = 0; i < 4000; i++)
        blocks[i] = calloc(1, 10000);
    for (size_t i = 0; i < 4000; i++)
        free(blocks[i]);
    malloc_trim(0);
    CHECK(unmapped > 0 && advised > 0, "munmap was called %d times, madvise %d", unmapped, advised);
}

static void *waits(void *unused) {
    pause();
    return unused;
}

static void check_under_lock(void) {
    static void *blocks[4000];
    thread_start(waits, NULL);
    while (thread_count() < 3) {
        pthread_mutex_lock(&threads_lock);
        for (size_t i = 0; i < 4000; i++)
            blocks[i] = malloc(16 + i * 37 % 8000);
        for (size_t i = 0; i < 4000; i++)
            free(blocks[i]);
        pthread_mutex_unlock(&threads_lock);
    }
    CHECK(threads_made == 1, "the library made its thread by the program's pthread_create");
}

CHECKS({"under_lock", check_under_lock}, {"mappings", check_mappings})
