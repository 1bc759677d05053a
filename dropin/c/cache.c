/* The object caches of commensal.h: each function, errno, and what settings and exits do with caches. Linked with the
 * library, not preloaded. What caches promise is tested in runtime/tests.
 *
 * basics     every function, and how it refuses
 * hooks [general]   constructors and destructors, with an argument, that allocate themselves; also of a cache that a
 *            rule has served by the general classes
 * general    caches that a rule has served by the general classes
 * table      some objects of a tuned cache are in use at the end
 * mixed_up   an object given back to another cache: ends by SIGABRT */
#include "check.h"
#include <commensal.h>

enum { MANY = 300 };

static cm_cache *create(size_t size) {
    cm_cache *cache = cm_cache_create("test", size, 0, NULL);
    CHECK(cache != NULL, "no cache of objects of %zu bytes", size);
    return cache;
}

static void destroy(cm_cache *cache) {
    CHECK(cm_cache_destroy(cache) == 0, "a cache with %zu objects alive was not destroyed", cm_cache_alive(cache));
}

static void refused(const char *name, size_t size, size_t alignment, const cm_cache_options *options) {
    errno = 0;
    CHECK(cm_cache_create(name, size, alignment, options) == NULL, "%s, %zu, %zu was created", name, size, alignment);
    CHECK(errno == EINVAL, "errno is %d", errno);
}

static void check_basics(void) {
    const cm_cache_options half_tuned = {.limit = 10};
    refused(NULL, 8, 8, NULL);
    refused("a name", 8, 8, NULL);
    refused("a", 0, 8, NULL);
    refused("a", 8, 3, NULL);
    refused("a", 8, 8, &half_tuned);

    void *objects[MANY];
    cm_cache *cache = create(100);
    errno = 0;
    void *first = cm_cache_alloc(cache), *second = cm_cache_alloc(cache);
    CHECK(first != NULL && second != NULL && cm_cache_alive(cache) == 2, "%zu are alive", cm_cache_alive(cache));
    CHECK(errno == 0, "errno is %d", errno);
    CHECK(cm_cache_destroy(cache) == -1 && errno == EBUSY, "a cache with live objects was destroyed");
    errno = 0;
    cm_cache_free(cache, first);
    free(second);
    cm_cache_free(cache, NULL);
    CHECK(cm_cache_alive(cache) == 0, "%zu are alive", cm_cache_alive(cache));

    CHECK(cm_cache_alloc_bulk(cache, NULL, 0) == 0, "objects for no places");
    CHECK(cm_cache_alloc_bulk(cache, objects, MANY) == MANY, "fewer than %d", MANY);
    cm_cache_free_bulk(cache, objects, MANY);
    CHECK(cm_cache_prefill(cache, 500) == 0, "no memory for 500 objects");
    cm_cache_shrink(cache);
    CHECK(cm_cache_tune(cache, 64, 16) == 0, "not tuned");
    CHECK(errno == 0, "errno is %d", errno);
    CHECK(cm_cache_tune(cache, 1, 2) == -1 && errno == EINVAL, "a limit below the batch");
    destroy(cache);

    cache = cm_cache_create("aligned", 24, 4096, NULL);
    void *object = cm_cache_alloc(cache);
    CHECK((uintptr_t)object % 4096 == 0, "%p is not aligned", object);
    cm_cache_free(cache, object);
    destroy(cache);
}

struct lives {
    int constructed, destroyed;
};

struct context {
    char *text;
    struct lives *lives;
};

static void construct(void *object, void *argument) {
    struct context *context = object;
    *context = (struct context){.text = strdup("constructed"), .lives = argument};
    context->lives->constructed++;
}

static void end(void *object, void *argument) {
    struct context *context = object;
    CHECK(context->lives == argument && context->text != NULL, "an object is not constructed");
    free(context->text);
    *context = (struct context){0};
    ((struct lives *)argument)->destroyed++;
}

static void check_hooks(void) {
    struct lives lives = {0, 0};
    const cm_cache_options options = {.constructor = construct, .destructor = end, .argument = &lives};
    cm_cache *cache = cm_cache_create("context", sizeof(struct context), 0, &options);
    /* In general classes hooks run for each use. */
    int rounds = 10, is_general = argument(0) != NULL;
    for (int round = 1; round <= rounds; round++) {
        void *objects[MANY];
        CHECK(cm_cache_alloc_bulk(cache, objects, MANY) == MANY, "no memory");
        for (int i = 0; i < MANY; i++)
            CHECK(strcmp(((struct context *)objects[i])->text, "constructed") == 0, "round %d, object %d", round, i);
        cm_cache_free(cache, objects[0]);
        cm_cache_free_bulk(cache, objects + 1, MANY - 1);
        int most = is_general ? round * MANY : 2 * MANY - 1;
        CHECK(lives.constructed >= (is_general ? most : MANY) && lives.constructed <= most, "%d were constructed",
              lives.constructed);
    }
    destroy(cache);
    CHECK(lives.destroyed == lives.constructed, "%d of %d were destroyed", lives.destroyed, lives.constructed);
}

/* Objects of a cache that the general classes serve are blocks; the last rule that fits a cache holds. */
static void check_general(void) {
    cm_cache *plain = create(100), *own = cm_cache_create("own", 100, 0, NULL);
    unsigned char *objects[MANY];
    CHECK(cm_cache_prefill(plain, MANY) == 0 && cm_cache_tune(plain, 60, 20) == 0, "neither set aside nor tuned");
    for (int i = 0; i < MANY; i++) {
        objects[i] = i % 2 == 0 ? cm_cache_alloc(plain) : malloc(100);
        memset(objects[i], i, 100);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK(objects[i][99] == (unsigned char)i, "object %d was overwritten", i);
        if (i % 3 == 0)
            cm_cache_free(plain, objects[i]);
        else
            free(objects[i]);
    }
    void *object = cm_cache_alloc(own);
    CHECK(cm_cache_alive(own) == 1 && cm_cache_destroy(own) == -1, "the last rule does not hold");
    cm_cache_free(own, object);
    destroy(own);
    destroy(plain);
}

static void leave_some(void) {
    enum { KEPT = 7 };
    cm_cache *cache = cm_cache_create("contexts/used", 1000, 0, NULL);
    void *objects[MANY];
    CHECK(cm_cache_tune(cache, 60, 20) == 0, "not tuned");
    CHECK(cm_cache_alloc_bulk(cache, objects, MANY) == MANY, "no memory");
    cm_cache_free_bulk(cache, objects, MANY - KEPT);
}

static void mix_up(void) {
    cm_cache *one = create(64), *other = create(64);
    void *object = cm_cache_alloc(one);
    cm_cache_free(other, object);
    cm_cache_shrink(other);
}

CHECKS({"basics", check_basics}, {"hooks", check_hooks}, {"general", check_general}, {"table", leave_some},
       {"mixed_up", mix_up})
