/* ---- Object caches ---- */

/* Declared early, because it frees what another function returns. (cm_cache_destroy is not declared so: it may refuse.) */
struct cm_cache;
void cm_cache_free(struct cm_cache *cache, void *object) CM_NOTHROW CM_NONNULL_AT(1);
