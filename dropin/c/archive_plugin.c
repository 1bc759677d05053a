/* A library for dlopen.c that was linked with the archive: it has a counter and an object cache of Commensal's. */
#include <commensal.h>

static cm_counter hits = CM_COUNTER_INIT;

/* Whether nothing was lost. */
__attribute__((visibility("default"))) int plugin_use(void);

int plugin_use(void) {
    enum { TIMES = 10000 };
    cm_cache *cache = cm_cache_create("plugin", 64, 0, NULL);
    int64_t before = cm_counter_sum(&hits);
    cm_counter_share(&hits);
    for (int i = 0; i < TIMES; i++) {
        void *object = cm_cache_alloc(cache);
        cm_counter_add(&hits, object != NULL);
        cm_cache_free(cache, object);
    }
    cm_cache_destroy(cache);
    return cm_counter_sum(&hits) == before + TIMES;
}
