/* Caches that watch their users: programs that misuse their objects, each in a way that one of the options finds.
 * Linked with the library, not preloaded; COMMENSAL_CONF says what is watched. The functions that allocate and free
 * have names, which reports must lead to.
 *
 * sound          threads, forks, bulk operations, hooks, every function of malloc's family: nothing is wrong with it
 * behind         a byte behind the end of an object of a cache
 * before         a byte before the beginning
 * far_before     many bytes before the beginning, over what the library knows of the object
 * twice          an object freed twice
 * raced          an object freed by two threads
 * used_again     a byte of a free object written, and the object used again
 * quarantined    a byte of a free object written while it is in quarantine, which it then leaves
 * left           a byte of a free object written, and nothing after
 * leaked         a byte behind the end of an object that is never freed
 * run_over       many bytes behind the end, over what lies before the next object, which is freed first
 * interior       a pointer into an object freed
 * stranger       an object of another cache given back
 * mixed_up       an object given back to a cache that does not watch
 * malloc BYTES HOW   a byte behind the end of a block, which is allocated as HOW says */
#include "check.h"
#include <commensal.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

#define NAMED __attribute__((noinline, noclone))
enum { SIZE = 100 };

static cm_cache *create(const char *name, const cm_cache_options *options) {
    cm_cache *cache = cm_cache_create(name, SIZE, 0, options);
    CHECK(cache != NULL, "no cache %s", name);
    return cache;
}

/* One of its objects stays, so that the memory of the others is not given back as a whole: nobody could tell then what
 * was in it. */
static cm_cache *create_in_use(const char *name) {
    cm_cache *cache = create(name, NULL);
    CHECK(cm_cache_alloc(cache) != NULL, "no object");
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

static void write_behind(void) {
    cm_cache *cache = create_in_use("watched");
    unsigned char *object = make_one(cache);
    object[SIZE] = 0x41;
    drop_one(cache, object);
}

static void write_before(void) {
    cm_cache *cache = create_in_use("watched");
    unsigned char *object = make_one(cache);
    object[-1] = 0x41;
    drop_one(cache, object);
}

static void write_far_before(void) {
    cm_cache *cache = create_in_use("watched");
    unsigned char *object = make_one(cache);
    memset(object - 40, 0x41, 40);
    drop_one(cache, object);
}

static void free_twice(void) {
    cm_cache *cache = create_in_use("watched");
    unsigned char *object = make_one(cache);
    drop_one(cache, object);
    drop_again(cache, object);
}

struct job {
    cm_cache *cache;
    void *object;
};

static void *free_job(void *argument) {
    struct job *job = argument;
    drop_one(job->cache, job->object);
    return NULL;
}

static void free_in_a_race(void) {
    cm_cache *cache = create_in_use("watched");
    struct job job = {cache, make_one(cache)};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, free_job, &job) == 0, "no thread");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void write_and_use_again(void) {
    cm_cache *cache = create_in_use("watched");
    unsigned char *object = make_one(cache);
    drop_one(cache, object);
    object[7] = 0x41;
    for (int i = 0; i < 10000; i++)
        cm_cache_alloc(cache);
}

static void write_in_quarantine(void) {
    cm_cache *cache = create_in_use("watched");
    unsigned char *object = make_one(cache);
    drop_one(cache, object);
    object[7] = 0x41;
    for (int i = 0; i < 100000; i++)
        drop_again(cache, cm_cache_alloc(cache));
}

static void write_and_leave(void) {
    cm_cache *cache = create_in_use("watched");
    unsigned char *object = make_one(cache);
    drop_one(cache, object);
    object[7] = 0x41;
}

static void leak(void) {
    cm_cache *cache = create_in_use("watched");
    unsigned char *object = make_one(cache);
    object[SIZE + 3] = 0x41;
}

static void run_over(void) {
    cm_cache *cache = create("watched", NULL);
    unsigned char *first = make_one(cache), *second = cm_cache_alloc(cache);
    CHECK(second > first, "the second object lies before the first");
    memset(first + SIZE, 0x41, (size_t)(second - first) - SIZE);
    drop_one(cache, second);
}

static void free_inside(void) {
    cm_cache *cache = create("watched", NULL);
    drop_one(cache, make_one(cache) + 16);
}

static void give_to_a_stranger(void) {
    cm_cache *cache = create("watched", NULL), *other = create("watched/too", NULL);
    drop_one(other, make_one(cache));
}

static void mix_up(void) {
    cm_cache *cache = create("watched", NULL), *other = create("plain", NULL);
    drop_one(other, make_one(cache));
    cm_cache_shrink(other);
}

static size_t bytes;
static const char *how;

NAMED static unsigned char *make_block(void) {
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
    unsigned char *block = make_block();
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
        CHECK(pthread_create(&threads[i], NULL, churn, cache) == 0, "no thread");
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            churn(cache);
            exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "a child ended with status %#x", status);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
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

CHECK_TABLE({"sound", check_sound}, {"behind", write_behind}, {"before", write_before},
            {"far_before", write_far_before}, {"twice", free_twice}, {"raced", free_in_a_race},
            {"used_again", write_and_use_again}, {"quarantined", write_in_quarantine}, {"left", write_and_leave},
            {"leaked", leak}, {"run_over", run_over}, {"interior", free_inside}, {"stranger", give_to_a_stranger},
            {"mixed_up", mix_up}, {"malloc", write_behind_a_block});

int main(int count, char **arguments) {
    if (count == 4) {
        bytes = (size_t)atoi(arguments[2]);
        how = arguments[3];
    }
    return run_named(count, arguments, checks);
}
