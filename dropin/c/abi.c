/* The C interface of malloc, function by function: what the standards and glibc's manual promise.
 *
 * names LIBRARY     every function is bound to LIBRARY (a part of its file's name)
 * zero              requests for nothing
 * huge              what cannot be had gives NULL and ENOMEM and disturbs nothing
 * errno             success and free leave errno alone
 * sizes             every size up to 70,000: aligned to 16 bytes, writable as far as malloc_usable_size says
 * alignments        every alignment from 16 bytes to 4 MiB, and the refused ones
 * realloc           contents are kept, from 1 byte to 100 MiB
 * sized             free_sized and free_aligned_sized (C23)
 * information       mallinfo, malloc_info and their like answer */
#include "churn.h"

#include <dlfcn.h>
#include <malloc.h>

/* Requests that cannot be had are the subject here. */
#pragma GCC diagnostic ignored "-Walloc-size-larger-than="

typedef void (*free_sized_function)(void *block, size_t size);
typedef void (*free_aligned_sized_function)(void *block, size_t alignment, size_t size);

/* Larger than any object may be; behind a volatile so that the compiler does not see it coming. */
static volatile size_t too_large = (size_t)PTRDIFF_MAX + 1;

static const char *const names[] = {
    "malloc", "free", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc",
    "pvalloc", "malloc_usable_size", "malloc_trim", "mallopt", "mallinfo", "mallinfo2", "malloc_stats", "malloc_info",
    "free_sized", "free_aligned_sized",
    /* operator new and new[]: plain, nothrow, aligned, aligned and nothrow */
    "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t",
    /* operator delete and delete[]: plain, sized, nothrow, and the same with an alignment */
    "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t", "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t"};

static void check_names(void) {
    const char *library = argument(0);
    CHECK(library != NULL, "usage: abi names LIBRARY");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Dl_info found = {0};
        void *function = dlsym(RTLD_DEFAULT, names[i]);
        CHECK(function != NULL, "%s is not defined", names[i]);
        CHECK(dladdr(function, &found) != 0, "%s belongs to no file", names[i]);
        CHECK(strstr(found.dli_fname, library) != NULL, "%s comes from %s", names[i], found.dli_fname);
    }
}

static void check_zero(void) {
    void *first = malloc(0), *second = malloc(0);
    CHECK(first && second && first != second, "malloc(0) gave %p and %p", first, second);
    void *blocks[] = {first,
                      second,
                      calloc(0, 0),
                      calloc(0, 100),
                      calloc(100, 0),
                      realloc(NULL, 0),
                      reallocarray(NULL, 0, 8),
                      aligned_alloc(64, 0),
                      aligned_block(64, 0),
                      memalign(4096, 0),
                      valloc(0)};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        CHECK(blocks[i] != NULL, "request %zu for 0 bytes gave NULL", i);
        free(blocks[i]);
    }
    free(pvalloc(0));
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0, "malloc_usable_size(NULL) is %zu", malloc_usable_size(NULL));

    /* realloc(block, 0) frees in glibc and gives an empty block elsewhere; either way nothing leaks. */
    void *block = malloc(100);
    free(realloc(block, 0));
}

#define CHECK_REFUSED(call)                                                                                            \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        void *refused = (call);                                                                                        \
        CHECK(refused == NULL, #call " gave %p", refused);                                                             \
        CHECK(errno == ENOMEM, #call " set errno to %d", errno);                                                       \
    } while (0)

static void refuse_plain(size_t size) {
    CHECK_REFUSED(malloc(size));
    CHECK_REFUSED(calloc(1, size));
    CHECK_REFUSED(calloc(size, 1));
    CHECK_REFUSED(realloc(NULL, size));
    CHECK_REFUSED(memalign(64, size));
    CHECK_REFUSED(memalign(64 * KIB, size));
    CHECK_REFUSED(aligned_alloc(4096, size));
    CHECK_REFUSED(valloc(size));
    CHECK_REFUSED(pvalloc(size));
    void *untouched = &size;
    int error = posix_memalign(&untouched, 64, size);
    CHECK(error == ENOMEM, "posix_memalign(64, %zu) returned %d", size, error);
    CHECK(untouched == &size, "a failed posix_memalign changed the pointer");
}

static void refuse_to_grow(size_t from) {
    void *block = malloc(from);
    CHECK(block != NULL, "malloc(%zu) failed", from);
    fill(block, from, 7);
    CHECK_REFUSED(realloc(block, too_large));
    CHECK_REFUSED(realloc(block, SIZE_MAX));
    CHECK_REFUSED(reallocarray(block, too_large, 2));
    CHECK_REFUSED(reallocarray(block, (size_t)1 << 33, (size_t)1 << 33));
    check_filled(block, from, from, 7, "after refused reallocs");
    free(block);
}

static void check_huge(void) {
    /* The address space has 47 bits. */
    size_t sizes[] = {SIZE_MAX,  SIZE_MAX - 15, SIZE_MAX - 4095, SIZE_MAX - 64 * KIB,
                      too_large, too_large - 1, (size_t)1 << 47};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        refuse_plain(sizes[i]);
    CHECK_REFUSED(calloc(too_large, 2));
    CHECK_REFUSED(calloc((size_t)1 << 32, (size_t)1 << 32));
    CHECK_REFUSED(calloc(SIZE_MAX / 16 + 2, 16));
    CHECK_REFUSED(reallocarray(NULL, SIZE_MAX / 8 + 2, 8));
    CHECK_REFUSED(memalign((size_t)1 << 46, too_large / 2));
    size_t starts[] = {1, 100, 5000, 300 * KIB, 20 * MIB};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        refuse_to_grow(starts[i]);
}

#define CHECK_KEEPS_ERRNO(call)                                                                                        \
    do {                                                                                                               \
        errno = 4321;                                                                                                  \
        call;                                                                                                          \
        CHECK(errno == 4321, #call " with %zu bytes set errno to %d", size, errno);                                    \
    } while (0)

static void keep_errno(size_t size) {
    void *block = NULL;
    CHECK_KEEPS_ERRNO(block = malloc(size));
    CHECK_KEEPS_ERRNO(block = realloc(block, size * 2 + 1));
    CHECK_KEEPS_ERRNO(block = realloc(block, size / 2 + 1));
    CHECK_KEEPS_ERRNO(block = reallocarray(block, size, 3));
    CHECK_KEEPS_ERRNO(free(block));
    CHECK_KEEPS_ERRNO(block = calloc(size, 1));
    CHECK_KEEPS_ERRNO(malloc_usable_size(block));
    CHECK_KEEPS_ERRNO(free(block));
    CHECK_KEEPS_ERRNO(block = aligned_alloc(4096, size));
    CHECK_KEEPS_ERRNO(free(block));
    CHECK_KEEPS_ERRNO(block = aligned_block(256, size));
    CHECK_KEEPS_ERRNO(free(block));
    CHECK_KEEPS_ERRNO(free(NULL));
}

static void check_errno(void) {
    for (size_t size = 1; size <= 64 * MIB; size = size * 3 / 2 + 1)
        keep_errno(size);
}

enum { ALL_SIZES = 70000, NEIGHBOURS = 64 };

/* The block is filled as far as malloc_usable_size says; its live neighbours show if that was too far. */
static void use_fully(struct block *block, size_t size) {
    if (block->at) {
        check_filled(block->at, block->size, block->size, block->seed, "beside blocks that were used fully");
        free(block->at);
    }
    block->at = (unsigned char *)malloc(size);
    CHECK(block->at != NULL, "malloc(%zu) failed with errno %d", size, errno);
    CHECK((uintptr_t)block->at % 16 == 0, "malloc(%zu) gave the misaligned %p", size, (void *)block->at);
    size_t usable = malloc_usable_size(block->at);
    CHECK(usable >= size, "malloc_usable_size is %zu for a block of %zu bytes", usable, size);
    block->size = usable;
    block->seed = size;
    fill(block->at, usable, block->seed);
}

static void check_sizes(void) {
    static struct block blocks[NEIGHBOURS];
    for (size_t size = 0; size <= ALL_SIZES; size++)
        use_fully(&blocks[size % NEIGHBOURS], size);
    for (size_t size = ALL_SIZES; size > 0; size -= size > 500 ? 97 : 1)
        use_fully(&blocks[size % NEIGHBOURS], size);
    for (size_t size = ALL_SIZES; size <= 64 * MIB; size = size * 5 / 4)
        use_fully(&blocks[size % NEIGHBOURS], size);
    for (size_t i = 0; i < NEIGHBOURS; i++)
        free(blocks[i].at);
    for (size_t size = 0; size <= ALL_SIZES; size += size < 2000 ? 1 : 61) {
        void *zeroed = calloc(size, 1), *resized = realloc(malloc(1), size + 1);
        CHECK((uintptr_t)zeroed % 16 == 0, "calloc(%zu, 1) gave the misaligned %p", size, zeroed);
        CHECK((uintptr_t)resized % 16 == 0, "realloc(…, %zu) gave the misaligned %p", size + 1, resized);
        free(zeroed);
        free(resized);
    }
}

static void check_aligned(const char *function, unsigned char *block, size_t alignment, size_t size) {
    CHECK(block != NULL, "%s(%zu, %zu) failed with errno %d", function, alignment, size, errno);
    CHECK((uintptr_t)block % alignment == 0, "%s(%zu, %zu) gave the misaligned %p", function, alignment, size,
          (void *)block);
    size_t usable = malloc_usable_size(block);
    CHECK(usable >= size, "%s(%zu, %zu): only %zu bytes are usable", function, alignment, size, usable);
    fill(block, usable, alignment);
}

/* An aligned block is an ordinary one for realloc and free. */
static void align_and_resize(size_t alignment, size_t size) {
    unsigned char *first = (unsigned char *)memalign(alignment, size);
    check_aligned("memalign", first, alignment, size);
    unsigned char *second = (unsigned char *)aligned_alloc(alignment, size);
    check_aligned("aligned_alloc", second, alignment, size);
    unsigned char *third = (unsigned char *)aligned_block(alignment, size);
    check_aligned("posix_memalign", third, alignment, size);

    size_t filled = malloc_usable_size(first), third_filled = malloc_usable_size(third);
    check_filled(first, filled, filled, alignment, "beside aligned blocks");
    size_t grown = filled + alignment + 100;
    first = (unsigned char *)realloc(first, grown);
    CHECK(first != NULL, "realloc of an aligned block to %zu bytes failed", grown);
    check_filled(first, filled, filled, alignment, "after realloc of an aligned block");
    memset(first, 1, grown);
    third = (unsigned char *)realloc(third, size / 2 + 1);
    check_filled(third, third_filled, size / 2, alignment, "after an aligned block shrank");
    free(second);
    free(third);
    free(first);
}

static void refuse_alignments(void) {
    size_t refused[] = {0, 1, 2, 3, 4, 7, 12, 24, 48, 100, 4095, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        void *untouched = refused;
        int error = posix_memalign(&untouched, refused[i], 100);
        CHECK(error == EINVAL, "posix_memalign with alignment %zu returned %d", refused[i], error);
        CHECK(untouched == refused, "a refused posix_memalign changed the pointer");
    }
    /* Here glibc rounds up, others refuse. What is given must be usable. */
    void *odd[] = {memalign(24, 100), memalign(1, 100), memalign(0, 100), aligned_alloc(24, 100)};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        if (odd[i])
            memset(odd[i], 1, 100);
        free(odd[i]);
    }
    CHECK_REFUSED(memalign((size_t)1 << 47, 100));
}

static void check_alignments(void) {
    for (size_t alignment = 16; alignment <= 4 * MIB; alignment *= 2) {
        size_t sizes[] = {0, 1, 17, alignment - 1, alignment, alignment + 1, 3 * alignment, 100000};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            align_and_resize(alignment, sizes[i]);
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 1; size < 300000; size += 4001) {
        unsigned char *whole = (unsigned char *)pvalloc(size), *aligned = (unsigned char *)valloc(size);
        check_aligned("valloc", aligned, page, size);
        check_aligned("pvalloc", whole, page, (size + page - 1) / page * page);
        free(whole);
        free(aligned);
    }
    void *least = aligned_block(sizeof(void *), 100);
    free(least);
    refuse_alignments();
}

static unsigned char *resize(unsigned char *block, size_t from, size_t to) {
    size_t kept = from < to ? from : to;
    block = (unsigned char *)realloc(block, to);
    CHECK(block != NULL, "realloc from %zu to %zu bytes failed with errno %d", from, to, errno);
    check_filled(block, from, kept, from, "after realloc");
    CHECK(malloc_usable_size(block) >= to, "realloc to %zu bytes gave %zu", to, malloc_usable_size(block));
    fill(block, to, to);
    return block;
}

static void check_realloc(void) {
    size_t size = 1;
    unsigned char *block = resize(NULL, 0, size), *neighbour = (unsigned char *)malloc(100);
    fill(neighbour, 100, 1);
    for (size_t next = 2; next <= 100 * MIB; size = next, next = next * 4 / 3 + 1)
        block = resize(block, size, next);
    for (size_t next = size * 2 / 3; next > 0; size = next, next = next * 2 / 3)
        block = resize(block, size, next);
    uint64_t random = 1;
    for (int i = 0; i < 3000; i++) {
        size_t next = random_size(&random, i % 64 == 0 ? 16 * MIB : 200 * KIB) + 1;
        block = resize(block, size, next);
        size = next;
    }
    check_filled(neighbour, 100, 100, 1, "beside a block that was resized");
    free(neighbour);
    free(block);
    int *array = (int *)reallocarray(NULL, 1000, sizeof *array);
    array[999] = 5;
    array = (int *)reallocarray(array, 100000, sizeof *array);
    CHECK(array && array[999] == 5, "reallocarray lost the contents");
    free(array);
}

static void check_sized(void) {
    free_sized_function free_sized_ = (free_sized_function)dlsym(RTLD_DEFAULT, "free_sized");
    free_aligned_sized_function free_aligned_sized_ =
        (free_aligned_sized_function)dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CHECK(free_sized_ && free_aligned_sized_, "free_sized or free_aligned_sized is not defined");
    for (size_t size = 0; size < 3 * MIB; size += size / 8 + 1) {
        errno = 4321;
        void *plain = malloc(size), *zeroed = calloc(1, size), *resized = realloc(malloc(10), size + 1);
        fill(plain, size, size);
        free_sized_(plain, size);
        free_sized_(zeroed, size);
        free_sized_(resized, size + 1);
        for (size_t alignment = 16; alignment <= 64 * KIB; alignment *= 4) {
            void *aligned = aligned_alloc(alignment, size);
            fill(aligned, size, size);
            free_aligned_sized_(aligned, alignment, size);
        }
        CHECK(errno == 4321, "a sized free of %zu bytes set errno to %d", size, errno);
    }
    free_sized_(NULL, 10);
    free_aligned_sized_(NULL, 64, 10);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void call_mallinfo(void) {
    void *held = malloc(1000);
    struct mallinfo information = mallinfo();
    CHECK(information.uordblks + information.hblkhd > 0, "mallinfo counts nothing in use");
    free(held);
}
#pragma GCC diagnostic pop

static size_t bytes_in_use(void) {
    struct mallinfo2 information = mallinfo2();
    return information.uordblks + information.hblkhd;
}

/* What is held is counted once, whatever its size is. */
static void check_held(size_t size) {
    size_t count = 200 * MIB / size, before = bytes_in_use();
    void **blocks = malloc(count * sizeof *blocks);
    for (size_t i = 0; i < count; i++)
        blocks[i] = malloc(size);
    size_t held = bytes_in_use() - before, asked = count * (size + sizeof *blocks);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    free(blocks);
    CHECK(held > asked / 10 * 9 && held < asked / 10 * 13, "mallinfo2 counts %zu bytes, of %zu", held, asked);
}

static void check_counts(void) {
    size_t before = bytes_in_use();
    check_held(1000);
    check_held(100 * KIB);
    check_held(20 * MIB);
    malloc_trim(0);
    CHECK(bytes_in_use() <= before + 20 * MIB, "mallinfo2 counts %zu bytes, and %zu before", bytes_in_use(), before);
}

/* Every opened element is closed in order, and the root is <malloc …>. */
static void check_xml(const char *text) {
    char open[32][32];
    size_t depth = 0, elements = 0;
    CHECK(strncmp(text, "<malloc", 7) == 0, "malloc_info begins with %.20s", text);
    for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<')) {
        char name[32] = {0};
        int closing = at[1] == '/';
        const char *end = strchr(at, '>');
        CHECK(end != NULL, "malloc_info has an unfinished element: %.40s", at);
        CHECK(sscanf(at + 1 + closing, "%31[a-zA-Z0-9_:-]", name) == 1, "malloc_info has %.40s", at);
        if (closing) {
            CHECK(depth > 0 && strcmp(open[--depth], name) == 0, "malloc_info: </%s> closes nothing", name);
        } else if (end[-1] != '/') {
            CHECK(depth < 32, "malloc_info is nested deeper than 32");
            strcpy(open[depth++], name);
        }
        elements++;
    }
    CHECK(depth == 0 && elements > 1, "malloc_info leaves %zu of %zu elements open", depth, elements);
}

/* The totals that programs read stand in the root, behind the heaps. */
static void check_totals(const char *text) {
    static const char *const TOTALS[] = {"<total type=\"fast\"",     "<total type=\"rest\"", "<total type=\"mmap\"",
                                         "<system type=\"current\"", "<system type=\"max\"", "<aspace type=\"total\""};
    const char *at = text;
    for (const char *heap; (heap = strstr(at, "</heap>")) != NULL;)
        at = heap + 1;
    for (size_t i = 0; i < sizeof TOTALS / sizeof *TOTALS; i++)
        CHECK(strstr(at, TOTALS[i]) != NULL, "malloc_info has no %s> of all heaps", TOTALS[i]);
}

/* As much stack as a thread has at least: what tells of the heap gets by with it. */
static void *tell_all(void *stream) {
    call_mallinfo();
    bytes_in_use();
    CHECK(malloc_info(0, stream) == 0, "malloc_info failed");
    malloc_trim(0);
    return NULL;
}

static void check_small_stack(void) {
    FILE *nowhere = fopen("/dev/null", "w");
    set_stack_bytes(16 * KIB);
    thread_join(thread_start(tell_all, nowhere));
    fclose(nowhere);
}

static void check_information(void) {
    check_counts();
    call_mallinfo();
    check_small_stack();
    CHECK(mallopt(M_MMAP_THRESHOLD, 256 * 1024) <= 1, "mallopt returned neither 0 nor 1");
    CHECK(mallopt(-12345, 1) <= 1, "mallopt of an unknown parameter returned neither 0 nor 1");
    for (size_t pad = 0; pad <= MIB; pad += MIB) {
        int trimmed = malloc_trim(pad);
        CHECK(trimmed == 0 || trimmed == 1, "malloc_trim returned %d", trimmed);
    }
    malloc_stats();

    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    CHECK(malloc_info(0, memory) == 0, "malloc_info(0) failed");
    CHECK(malloc_info(1, memory) != 0, "malloc_info(1) is no valid request and succeeded");
    fclose(memory);
    check_xml(text);
    check_totals(text);
    free(text);
}

CHECKS({"names", check_names}, {"zero", check_zero}, {"huge", check_huge}, {"errno", check_errno},
       {"sizes", check_sizes}, {"alignments", check_alignments}, {"realloc", check_realloc}, {"sized", check_sized},
       {"information", check_information})
