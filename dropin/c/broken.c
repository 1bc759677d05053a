/* A preloaded allocator with one defect, chosen by -DDEFECT=NAME, to show that the checks can fail.
 *
 * With DEFECT=NONE it is sound, if wasteful: power-of-two chunks on lock-free lists, so that it survives
 * fork at any moment and signal handlers. Each test of tests/canaries.rs runs a check under a defect that
 * the check is there to find, and under NONE, where it has to pass.
 *
 *     chunk (2^class bytes, or a mapping):  [ … padding … | header | user's block … ]
 *
 * Chunks never go back to the kernel; only mappings (requests above 1 MiB) do. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum defect {
    NONE,
    TWICE,            /* now and then a live block is handed out again */
    MISALIGNED,       /* blocks above 1 KiB are aligned to 8 bytes only */
    LEAKS,            /* free forgets the block */
    KEEPS,            /* free keeps large mappings */
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

enum { LEAST_CLASS = 6, LARGEST_CLASS = 21, MAPPED = 0 };

#define REGION_BYTES ((size_t)256 << 30)
#define PAGE ((size_t)4096)

struct header {
    char *chunk;
    uint32_t class_index; /* of the chunk, or MAPPED */
    uint32_t mapped_pages;
};

/* The chunk's address divided by 16, and above it a tag that makes each value unique. */
static _Atomic uint64_t free_lists[LARGEST_CLASS + 1];
static _Atomic uintptr_t region, region_used;
static atomic_flag lock = ATOMIC_FLAG_INIT;

enum { ADDRESS_BITS = 44 };

#define ADDRESS_MASK (((uint64_t)1 << ADDRESS_BITS) - 1)

static void enter(void) {
    while (DEFECT == LOCKED && atomic_flag_test_and_set(&lock)) {
    }
}

static void leave(void) {
    if (DEFECT == LOCKED)
        atomic_flag_clear(&lock);
}

static void *map(size_t bytes) {
    int saved = errno;
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        if (DEFECT == ABORTS_WHEN_FULL)
            __builtin_trap();
        errno = ENOMEM;
        return NULL;
    }
    errno = saved;
    return mapped;
}

static char *fresh_chunk(size_t bytes) {
    uintptr_t base = atomic_load(&region), none = 0;
    if (base == 0) {
        base = (uintptr_t)map(REGION_BYTES);
        if (!atomic_compare_exchange_strong(&region, &none, base)) {
            munmap((void *)base, REGION_BYTES);
            base = none;
        }
    }
    uintptr_t offset = atomic_fetch_add(&region_used, bytes);
    return base && offset + bytes <= REGION_BYTES ? (char *)(base + offset) : NULL;
}

static char *pop(uint32_t class_index) {
    uint64_t head = atomic_load(&free_lists[class_index]);
    for (;;) {
        uint64_t *chunk = (uint64_t *)((head & ADDRESS_MASK) << 4);
        if (!chunk)
            return fresh_chunk((size_t)1 << class_index);
        /* Stale if another thread took the chunk; then the tag has changed and the exchange fails. */
        uint64_t next = (*(volatile uint64_t *)chunk & ADDRESS_MASK) | ((head & ~ADDRESS_MASK) + ADDRESS_MASK + 1);
        if (atomic_compare_exchange_weak(&free_lists[class_index], &head, next))
            return (char *)chunk;
    }
}

static void push(char *chunk, uint32_t class_index) {
    uint64_t head = atomic_load(&free_lists[class_index]), mine;
    do {
        *(volatile uint64_t *)chunk = head & ADDRESS_MASK;
        mine = ((uint64_t)(uintptr_t)chunk >> 4) | ((head & ~ADDRESS_MASK) + ADDRESS_MASK + 1);
    } while (!atomic_compare_exchange_weak(&free_lists[class_index], &head, mine));
}

static char *place(struct header header, size_t alignment) {
    uintptr_t least = (uintptr_t)header.chunk + sizeof header;
    char *block = (char *)((least + alignment - 1) / alignment * alignment);
    if (DEFECT == MISALIGNED && header.class_index > 11)
        block += 8;
    memcpy(block - sizeof header, &header, sizeof header);
    return block;
}

static struct header header_of(void *block) {
    struct header header;
    memcpy(&header, (char *)block - sizeof header, sizeof header);
    return header;
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

static void *allocate(size_t size, size_t alignment) {
    size_t needed = size + alignment + sizeof(struct header) + 8;
    if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX || needed > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    struct header header = {0};
    if (needed > (size_t)1 << LARGEST_CLASS) {
        header.mapped_pages = (uint32_t)((needed + PAGE - 1) / PAGE);
        if ((size_t)header.mapped_pages * PAGE < needed) {
            errno = ENOMEM;
            return NULL;
        }
        header.chunk = map(header.mapped_pages * PAGE);
    } else {
        header.class_index = LEAST_CLASS;
        while ((size_t)1 << header.class_index < needed)
            header.class_index++;
        enter();
        header.chunk = pop(header.class_index);
        leave();
    }
    if (!header.chunk)
        return NULL;
    void *block = place(header, alignment);
    return DEFECT == TWICE ? again(size, block) : block;
}

void *malloc(size_t size) { return allocate(size, 16); }

void free(void *block) {
    if (!block)
        return;
    struct header header = header_of(block);
    int saved = errno;
    if (header.class_index != MAPPED && DEFECT != LEAKS) {
        enter();
        push(header.chunk, header.class_index);
        leave();
    } else if (header.class_index == MAPPED && DEFECT != LEAKS && DEFECT != KEEPS) {
        munmap(header.chunk, header.mapped_pages * PAGE);
    }
    errno = DEFECT == EATS_ERRNO ? EAGAIN : saved;
}

size_t malloc_usable_size(void *block) {
    if (!block)
        return 0;
    struct header header = header_of(block);
    size_t bytes = header.class_index ? (size_t)1 << header.class_index : header.mapped_pages * PAGE;
    return (size_t)(header.chunk + bytes - (char *)block) + (DEFECT == BOASTS ? 24 : 0);
}

void *calloc(size_t count, size_t size) {
    size_t bytes = count * size;
    if (DEFECT != OVERFLOWS && __builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = malloc(bytes);
    if (block && !(DEFECT == DIRTY && bytes > 100))
        memset(block, 0, bytes);
    return block;
}

void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (!old || !block)
        return block;
    size_t kept = malloc_usable_size(old);
    kept = kept < size ? kept : size;
    memcpy(block, old, DEFECT == FORGETS && kept > 100 ? kept - 50 : kept);
    free(old);
    return block;
}

void *reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

static size_t power_of_two(size_t alignment) {
    size_t power = 16;
    while (power < alignment && power << 1)
        power <<= 1;
    return power;
}

void *memalign(size_t alignment, size_t size) { return allocate(size, power_of_two(alignment)); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

void *valloc(size_t size) { return memalign(PAGE, size); }

void *pvalloc(size_t size) {
    return size > PTRDIFF_MAX ? memalign(PAGE, size) : memalign(PAGE, (size + PAGE - 1) / PAGE * PAGE);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    int saved = errno;
    void *block = memalign(alignment, size);
    errno = saved;
    if (!block)
        return ENOMEM;
    *result = block;
    return 0;
}

__attribute__((destructor)) static void at_exit(void) {
    if (DEFECT == CHATTY && strcmp(program_invocation_short_name, "rev") == 0 && write(STDOUT_FILENO, "bye\n", 4) != 4)
        _exit(1);
    if (DEFECT == CHANGES_STATUS)
        _exit(9);
}
