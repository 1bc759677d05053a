/* Caches that watch their users: programs that misuse their objects, each in a way that one of the options finds.
 * Linked with the library, not preloaded; COMMENSAL_CONF says what is watched. The functions that allocate and free
 * have names, which reports must lead to.
 *
 * sound              threads, forks, bulk operations, hooks, every function of malloc's family: nothing is wrong
 * misuse HOW         an object of a cache is misused in one of the ways below
 * malloc BYTES HOW   a byte behind the end of a block is written, which is allocated as HOW says */
#include "check.h"
#include <commensal.h>
#include <malloc.h>

#define NAMED __attribute__((noinline, noclone))
enum { SIZE = 100 };

static cm_cache *create(const char *name, const cm_cache_options *options) {
    cm_cache *cache = cm_cache_create(name, SIZE, 0, options);
    CHECK(cache != NULL, "no cache %s", name);
    return cache;
}

NAMED static unsigned char *make_one(cm_cache *cache) {
    unsigned char *object = cm_cache_alloc(cache);
    CHECK(object != NULL, "no object");
    return object;
}

NAMED static void drop_one(cm_cache *cache, void *object) {
    cm_cache_free(cache, object);
    __asm__ volatile("" ::: "memory");
}

NAMED static void drop_again(cm_cache *cache, void *object) {
    cm_cache_free(cache, object);
    __asm__ volatile("" ::: "memory");
}

/* -- Misuses: each is given an object of the cache. -- */

static void write_behind(cm_cache *cache, unsigned char *object) {
    object[SIZE] = 0x41;
    drop_one(cache, object);
}

static void write_before(cm_cache *cache, unsigned char *object) {
    object[-1] = 0x41;
    drop_one(cache, object);
}

static void write_far_before(cm_cache *cache, unsigned char *object) {
    memset(object - 40, 0x41, 40);
    drop_one(cache, object);
}

static void free_twice(cm_cache *cache, unsigned char *object) {
    drop_one(cache, object);
    drop_again(cache, object);
}

static cm_cache *cache_of_race;

static void *free_it(void *object) {
    drop_one(cache_of_race, object);
    return NULL;
}

static void free_in_a_race(cm_cache *cache, unsigned char *object) {
    cache_of_race = cache;
    pthread_t threads[] = {thread_start(free_it, object), thread_start(free_it, object)};
    threads_join(threads, 2);
}

static void write_and_leave(cm_cache *cache, unsigned char *object) {
    drop_one(cache, object);
    object[7] = 0x41;
}

static void write_and_use_again(cm_cache *cache, unsigned char *object) {
    write_and_leave(cache, object);
    for (int i = 0; i < 10000; i++)
        (void)!cm_cache_alloc(cache);
}

static void write_in_quarantine(cm_cache *cache, unsigned char *object) {
    write_and_leave(cache, object);
    for (int i = 0; i < 100000; i++)
        drop_again(cache, cm_cache_alloc(cache));
}

static void leak(cm_cache *cache, unsigned char *object) {
    (void)cache;
    object[SIZE + 3] = 0x41;
}

static void run_over(cm_cache *cache, unsigned char *first) {
    unsigned char *second = cm_cache_alloc(cache);
    CHECK(second > first, "the second object lies before the first");
    memset(first + SIZE, 0x41, (size_t)(second - first) - SIZE);
    drop_one(cache, second);
}

static void free_inside(cm_cache *cache, unsigned char *object) { drop_one(cache, object + 16); }

static void give_to_a_stranger(cm_cache *cache, unsigned char *object) {
    (void)cache;
    drop_one(create("watched/too", NULL), object);
}

static void mix_up(cm_cache *cache, unsigned char *object) {
    (void)cache;
    cm_cache *other = create("plain", NULL);
    drop_one(other, object);
    cm_cache_shrink(other);
}

static const struct misuse {
    const char *name;
    void (*commit)(cm_cache *cache, unsigned char *object);
} misuses[] = {{"behind", write_behind},
               {"before", write_before},
               {"far_before", write_far_before},
               {"twice", free_twice},
               {"raced", free_in_a_race},
               {"used_again", write_and_use_again},
               {"quarantined", write_in_quarantine},
               {"left", write_and_leave},
               {"leaked", leak},
               {"run_over", run_over},
               {"interior", free_inside},
               {"stranger", give_to_a_stranger},
               {"mixed_up", mix_up}};

/* One object of the cache stays in use, so that the memory of the others is not given back as a whole: nobody could
 * tell then what was in it. */
static void check_misuse(void) {
    cm_cache *cache = create("watched", NULL);
    CHECK(cm_cache_alloc(cache) != NULL, "no object");
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        if (argument(0) && strcmp(argument(0), misuses[i].name) == 0)
            misuses[i].commit(cache, make_one(cache));
    }
}

NAMED static unsigned char *make_block(size_t bytes, const char *how) {
    void *block = NULL;
    if (strcmp(how, "malloc") == 0)
        block = malloc(bytes);
    else if (strcmp(how, "calloc") == 0)
        block = calloc(1, bytes);
    else if (strcmp(how, "realloc") == 0)
        block = realloc(malloc(1), bytes);
    else if (strcmp(how, "aligned") == 0)
        block = aligned_alloc(64, bytes);
    else if (strcmp(how, "posix") == 0)
        CHECK(posix_memalign(&block, 64, bytes) == 0, "no block");
    CHECK(block != NULL, "no block of %zu bytes by %s", bytes, how);
    return block;
}

NAMED static void drop_block(void *block) {
    free(block);
    __asm__ volatile("" ::: "memory");
}

static void write_behind_a_block(void) {
    size_t bytes = number_argument(0, SIZE);
    unsigned char *block = make_block(bytes, argument(1));
    CHECK(malloc_usable_size(block) == bytes, "%zu bytes usable of %zu", malloc_usable_size(block), bytes);
    memset(block, 0x41, bytes + 1);
    drop_block(block);
}

static void construct(void *object, void *argument) { memset(object, *(int *)argument, SIZE); }

static void *churn(void *argument) {
    cm_cache *cache = argument;
    enum { KEPT = 64 };
    unsigned char *kept[KEPT] = {NULL};
    char *blocks[KEPT] = {NULL};
    for (unsigned i = 0; i < 5000; i++) {
        unsigned at = i * 7 % KEPT;
        cm_cache_free(cache, kept[at]);
        kept[at] = cm_cache_alloc(cache);
        CHECK(kept[at] != NULL, "no object");
        memset(kept[at], (int)i, SIZE);
        size_t size = 1 + i % 3000;
        blocks[at] = realloc(blocks[at], size);
        CHECK(blocks[at] != NULL, "no block");
        memset(blocks[at], (int)i, size);
    }
    for (unsigned at = 0; at < KEPT; at++) {
        cm_cache_free(cache, kept[at]);
        free(blocks[at]);
    }
    return NULL;
}

static void check_sound(void) {
    cm_cache *cache = create("watched", NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start(churn, cache);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            churn(cache);
            exit(0);
        }
        child_ends(child, 0, "fork");
    }
    threads_join(threads, 4);
    void *objects[100];
    CHECK(cm_cache_prefill(cache, 100) == 0, "nothing set aside");
    CHECK(cm_cache_alloc_bulk(cache, objects, 100) == 100, "too few");
    CHECK(cm_cache_alive(cache) == 100, "%zu are alive", cm_cache_alive(cache));
    CHECK(cm_cache_tune(cache, 64, 16) == 0, "not tuned");
    cm_cache_shrink(cache);
    cm_cache_free_bulk(cache, objects, 50);
    CHECK(cm_cache_destroy(cache) == -1 && errno == EBUSY, "destroyed with %zu alive", cm_cache_alive(cache));
    cm_cache_free_bulk(cache, objects + 50, 50);
    CHECK(cm_cache_destroy(cache) == 0, "not destroyed: %zu alive", cm_cache_alive(cache));

    int value = 7;
    cache = create("watched", &(cm_cache_options){.constructor = construct, .argument = &value});
    for (int i = 0; i < 3; i++) {
        unsigned char *object = cm_cache_alloc(cache);
        for (int at = 0; at < SIZE; at++)
            CHECK(object[at] == 7, "byte %d is %d: not as it was constructed", at, object[at]);
        cm_cache_free(cache, object);
    }
    CHECK(cm_cache_destroy(cache) == 0, "not destroyed");

    for (size_t alignment = 16; alignment <= 8192; alignment *= 2) {
        void *block = aligned_alloc(alignment, 3 * alignment);
        CHECK(block != NULL && (uintptr_t)block % alignment == 0, "%p is not aligned to %zu", block, alignment);
        memset(block, 1, 3 * alignment);
        free(block);
    }
}

CHECKS({"sound", check_sound}, {"misuse", check_misuse}, {"malloc", write_behind_a_block})
