/* Libraries that come and go while the program runs.
 *
 * repeat PLUGIN        opens, calls and closes a C++ library 200 times
 * threads PLUGIN       the same in threads that end while the library's thread_local objects live
 * bad_alloc PLUGIN     has it ask for more than there is
 * closed PLUGIN        opens and closes one that has Commensal inside
 * late ALLOCATOR       opens a malloc library at run time and uses it beside the one the program has, from
 *                      several threads */
#include "churn.h"

#include <dlfcn.h>

static void *open_library(const char *path) {
    CHECK(path != NULL, "usage: dlopen CHECK LIBRARY");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, "dlopen: %s", dlerror());
    return library;
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    CHECK(found != NULL, "dlsym: %s", dlerror());
    return found;
}

static void run_plugin(void) {
    void *library = open_library(argument(0));
    int (*plugin_run)(int) = (int (*)(int))symbol(library, "plugin_run");
    int first = plugin_run(12), second = plugin_run(34);
    CHECK(first > 0 && first == second, "the plugin returned %d and %d", first, second);
    CHECK(dlclose(library) == 0, "dlclose: %s", dlerror());
}

static void check_repeat(void) {
    size_t settled = 0;
    for (int i = 0; i < 200; i++) {
        run_plugin();
        if (i == 20)
            settled = resident_bytes();
    }
    size_t after = resident_bytes();
    CHECK(after < settled + 4 * MIB, "resident memory grew from %zu to %zu", settled, after);
}

static void *plugin_thread(void *unused) {
    run_plugin();
    return unused;
}

static void check_threads(void) {
    for (int i = 0; i < 50; i++) {
        pthread_t threads[4];
        threads_start(threads, 4, plugin_thread);
        threads_join(threads, 4);
    }
}

static void check_bad_alloc(void) {
    int (*has_bad_alloc)(void) = (int (*)(void))symbol(open_library(argument(0)), "plugin_has_bad_alloc");
    CHECK(has_bad_alloc(), "operator new did not throw bad_alloc");
}

/* A thread that was in the library ends after that was closed. */
static void *uses_and_ends(void *library) {
    CHECK(((int (*)(void))symbol(library, "plugin_use"))(), "the library lost something");
    CHECK(dlclose(library) == 0, "dlclose: %s", dlerror());
    return NULL;
}

static void check_closed(void) {
    void *library = open_library(argument(0));
    CHECK(((int (*)(void))symbol(library, "plugin_use"))(), "the library lost something");
    thread_join(thread_start(uses_and_ends, library));
    /* The kernel looks at what a thread was last in when it goes to sleep. */
    for (int i = 0; i < 100; i++)
        sleep_us(1000);
}

static void *(*late_malloc)(size_t size);
static void *(*late_realloc)(void *block, size_t size);
static void (*late_free)(void *block);

enum { LATE_BLOCKS = 500 };

static void *use_both(void *seed) {
    struct block blocks[LATE_BLOCKS] = {0};
    uint64_t random = (uintptr_t)seed;
    struct churn churn;
    churn_begin(&churn, random, 64 * KIB);
    for (size_t i = 0; i < 40000; i++) {
        struct block *block = &blocks[random_below(&random, LATE_BLOCKS)];
        if (block->at) {
            block_check(block, "from the late library");
            late_free(block->at);
        }
        block->size = random_size(&random, 64 * KIB);
        block->seed = random_next(&random);
        block->at = late_realloc(late_malloc(block->size / 2 + 1), block->size + 1);
        CHECK(block->at != NULL, "the late library has no memory");
        fill(block->at, block->size, block->seed);
        churn_steps(&churn, 1);
    }
    for (size_t i = 0; i < LATE_BLOCKS; i++)
        late_free(blocks[i].at);
    churn_end(&churn);
    return NULL;
}

static void check_late(void) {
    void *library = open_library(argument(0));
    late_malloc = (void *(*)(size_t))symbol(library, "malloc");
    late_realloc = (void *(*)(void *, size_t))symbol(library, "realloc");
    late_free = (void (*)(void *))symbol(library, "free");
    pthread_t threads[3];
    use_both((void *)9);
    threads_start(threads, 3, use_both);
    threads_join(threads, 3);
    use_both((void *)10);
    dlclose(library);
}

CHECKS({"repeat", check_repeat}, {"threads", check_threads}, {"bad_alloc", check_bad_alloc}, {"closed", check_closed},
       {"late", check_late})
