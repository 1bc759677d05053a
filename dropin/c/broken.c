/* A preloaded library with one defect, chosen by -DDEFECT=NAME, to show that the checks can fail.
 *
 * It stands before the library under test, or before the C library, and passes calls on to the functions by which both
 * are known besides. Each test of tests/canaries.rs runs a check under a defect that the check is there to find, and
 * under NONE, where it has to pass. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum defect {
    NONE,
    TWICE,            /* now and then a live block is handed out again */
    MISALIGNED,       /* blocks above 1 KiB are aligned to 8 bytes only */
    LEAKS,            /* free forgets the block */
    KEEPS,            /* free keeps large blocks */
    LOCKED,           /* one lock, which fork and signal handlers know nothing of */
    DIRTY,            /* calloc does not clear memory that was used before */
    OVERFLOWS,        /* calloc multiplies without looking */
    EATS_ERRNO,       /* free changes errno */
    FORGETS,          /* realloc copies too little */
    BOASTS,           /* malloc_usable_size promises more than there is */
    ABORTS_WHEN_FULL, /* instead of giving NULL */
    CHATTY,           /* writes to standard output at the exit of a program called rev */
    CHANGES_STATUS,   /* ends the process with a status of its own */
};

#ifndef DEFECT
#define DEFECT NONE
#endif

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_flag lock = ATOMIC_FLAG_INIT;

/* On its way to each function: not around it, as the library may call malloc itself. */
static void pass_the_lock(void) {
    if (DEFECT != LOCKED)
        return;
    while (atomic_flag_test_and_set(&lock)) {
    }
    for (volatile int i = 0; i < 100; i++) {
    }
    atomic_flag_clear(&lock);
}

/* A block on its way to the program. */
static void *given(void *block) {
    if (DEFECT == ABORTS_WHEN_FULL && !block)
        __builtin_trap();
    return block;
}

/* Hands out the block of 500 requests ago again, whatever became of it. */
static void *again(size_t size, void *block) {
    static _Atomic(void *) remembered;
    static atomic_size_t requests;
    if (size > 32 || atomic_fetch_add(&requests, 1) % 500 != 0)
        return block;
    void *old = atomic_exchange(&remembered, block);
    return old ? old : block;
}

static int is_shifted(size_t size) { return DEFECT == MISALIGNED && size > 1024 && size < PTRDIFF_MAX; }

void *memalign(size_t alignment, size_t size) {
    pass_the_lock();
    char *block = given(__libc_memalign(alignment, size + (is_shifted(size) ? 8 : 0)));
    return block && is_shifted(size) ? block + 8 : block;
}

void *malloc(size_t size) {
    if (is_shifted(size))
        return memalign(16, size);
    pass_the_lock();
    void *block = given(__libc_malloc(size));
    return DEFECT == TWICE ? again(size, block) : block;
}

size_t malloc_usable_size(void *block) {
    size_t (*next)(void *) = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    size_t shift = (uintptr_t)block % 16;
    return block ? next((char *)block - shift) - shift + (DEFECT == BOASTS ? 24 : 0) : 0;
}

void free(void *block) {
    int saved = errno;
    if (DEFECT == LEAKS || (DEFECT == KEEPS && malloc_usable_size(block) > 1 << 20))
        return;
    pass_the_lock();
    __libc_free((char *)block - (uintptr_t)block % 16);
    errno = DEFECT == EATS_ERRNO && block ? EAGAIN : saved;
}

void *calloc(size_t count, size_t size) {
    size_t bytes = count * size;
    if (DEFECT == OVERFLOWS || (DEFECT == DIRTY && bytes > 100)) {
        void *block = malloc(bytes);
        return block && DEFECT == OVERFLOWS ? memset(block, 0, bytes) : block;
    }
    pass_the_lock();
    return given(__libc_calloc(count, size));
}

void *realloc(void *old, size_t size) {
    if (DEFECT != FORGETS && DEFECT != MISALIGNED) {
        pass_the_lock();
        return given(__libc_realloc(old, size));
    }
    void *block = malloc(size);
    if (!old || !block)
        return block;
    size_t kept = malloc_usable_size(old);
    kept = kept < size ? kept : size;
    memcpy(block, old, DEFECT == FORGETS && kept > 100 ? kept - 50 : kept);
    free(old);
    return block;
}

__attribute__((destructor)) static void at_exit(void) {
    if (DEFECT == CHATTY && strcmp(program_invocation_short_name, "rev") == 0 && write(STDOUT_FILENO, "bye\n", 4) != 4)
        _exit(1);
    if (DEFECT == CHANGES_STATUS)
        _exit(9);
}
