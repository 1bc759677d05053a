/* The memory groups of commensal.h: each function, errno, and what the C library and the kernel see of groups. Linked
 * with the library, not preloaded. What groups promise is tested in runtime/tests.
 *
 * basics     every function, and each edge of its arguments, and errno
 * own        a thread that the library makes while a thread is inside: it is charged to nobody, and outlives the group
 * faults     pages that groups take fault once each: a page that is read first faults twice, and the second time
 *            interrupts other CPUs */
#include "check.h"
#include <commensal.h>
#include <sys/resource.h>

static cm_group *create(const char *name, cm_group *parent, uint64_t limit) {
    cm_group *group = cm_group_create(name, parent, limit);
    CHECK(group != NULL, "no group %s", name);
    return group;
}

static void destroy(cm_group *group) { CHECK(cm_group_destroy(group) == 0, "not destroyed: errno %d", errno); }

static cm_group_stats stats_of(cm_group *group) {
    cm_group_stats stats;
    cm_group_stats_read(group, &stats);
    return stats;
}

static void *make(size_t bytes) {
    void *block = malloc(bytes);
    CHECK(block != NULL, "no block of %zu bytes", bytes);
    memset(block, 0x5c, bytes);
    return block;
}

static void check_basics(void) {
    /* What compilers refuse. */
    const char *volatile no_name = NULL;
    volatile size_t all = SIZE_MAX;
    CHECK(cm_group_create(no_name, NULL, 0) == NULL && errno == EINVAL, "a group without a name");
    CHECK(cm_group_create("a b", NULL, 0) == NULL && errno == EINVAL, "a group with a blank in its name");
    CHECK(cm_group_current() == NULL, "the thread is in a group");
    cm_group *group = create("basic", NULL, 0);
    CHECK(stats_of(group).limit == UINT64_MAX && stats_of(group).charged == 0, "a new group is charged");
    errno = 0;
    char *small = cm_group_alloc(group, 100), *large = cm_group_alloc(group, 100000);
    CHECK(small != NULL && large != NULL && errno == 0, "no memory");
    void *aligned = cm_group_aligned_alloc(group, 4096, 10);
    CHECK(aligned != NULL && (uintptr_t)aligned % 4096 == 0, "%p is not aligned", aligned);
    CHECK(cm_group_aligned_alloc(group, 3, 10) == NULL && errno == EINVAL, "aligned to 3");
    CHECK(cm_group_alloc(group, all) == NULL && errno == ENOMEM, "all memory there is");
    CHECK(stats_of(group).charged >= 100 + 102400 + 4096, "%llu bytes", (unsigned long long)stats_of(group).charged);
    CHECK(stats_of(group).large_blocks == 1 && stats_of(group).caches == 2, "other blocks, or caches");
    free(large);
    CHECK(stats_of(group).large_blocks == 0 && stats_of(group).peak >= 102400, "the large block is there still");
    cm_group_set_limit(group, 50000);
    CHECK(cm_group_alloc(group, 60000) == NULL && errno == ENOMEM, "beyond the limit");
    CHECK(stats_of(group).refused == 1 && stats_of(group).limit == 50000, "not refused");
    small = realloc(small, 20000);
    CHECK(small != NULL && stats_of(group).charged >= 20000, "realloc left the group");

    cm_group_entry entry;
    CHECK(cm_group_leave(&entry) == -1 && errno == EINVAL, "left, but never entered");
    CHECK(cm_group_enter(group, &entry) == 0 && cm_group_current() == group, "not entered");
    CHECK(cm_group_destroy(group) == -1 && errno == EBUSY, "destroyed with a thread inside");
    uint64_t before = stats_of(group).charged;
    char *text = strdup("the C library's own allocations are the group's, too");
    CHECK(text != NULL && stats_of(group).charged > before, "charged elsewhere");
    CHECK(malloc(60000) == NULL && errno == ENOMEM, "the limit does not hold inside");
    CHECK(cm_group_leave(&entry) == 0 && cm_group_current() == NULL, "not left");
    free(make(60000));
    cm_group *child = create("child", group, 0);
    CHECK(cm_group_destroy(group) == -1 && errno == EBUSY, "destroyed with a child");
    destroy(child);
    destroy(group);
}

static void *wait_for_end(void *lock) {
    pthread_mutex_lock(lock);
    return NULL;
}

static void check_own(void) {
    enum { LARGE = 1 << 20, AT_ONCE = 32, TRIES = 3000 };
    cm_group *group = create("served", NULL, 0);
    /* Who never had a second thread gets none of the library's; where one has ended, another one gets what it had. */
    pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&end);
    pthread_t thread = thread_start(wait_for_end, &end);
    cm_group_entry entry;
    CHECK(cm_group_enter(group, &entry) == 0, "not entered");
    /* Large blocks only, so that nothing is left in arrays: freed, they are what somebody has to see to. */
    for (int i = 0; i < TRIES && thread_count() == 2; i++) {
        void *blocks[AT_ONCE];
        for (int j = 0; j < AT_ONCE; j++)
            blocks[j] = make(LARGE);
        for (int j = 0; j < AT_ONCE; j++)
            free(blocks[j]);
        usleep(1000);
    }
    CHECK(thread_count() == 3, "%u threads", thread_count());
    cm_group_stats stats = stats_of(group);
    CHECK(stats.charged == 0 && stats.caches == 0, "%llu bytes of %u caches are charged for the library's own thread",
          (unsigned long long)stats.charged, stats.caches);
    CHECK(cm_group_leave(&entry) == 0, "not left");
    destroy(group);
    /* It needs what it has there still. */
    for (int i = 0; i < 200; i++) {
        free(make(LARGE));
        usleep(1000);
    }
    pthread_mutex_unlock(&end);
    thread_join(thread);
}

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "no usage");
    return usage.ru_minflt;
}

static void *allocate_once(void *unused) {
    free(make(1000));
    return unused;
}

static void check_faults(void) {
    enum { MANY = 2000, SIZES = 5 };
    static cm_group *groups[MANY];
    /* So that the process is upgraded. */
    thread_join(thread_start(allocate_once, NULL));
    free(cm_group_alloc(create("first", NULL, 0), 1000));
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    long pages = (long)(resident_bytes() / page), before = faults();
    for (int i = 0; i < MANY; i++) {
        groups[i] = create("fresh", NULL, 1 << 30);
        for (size_t size = 0; size < SIZES; size++)
            CHECK(cm_group_alloc(groups[i], 24 << size) != NULL, "no memory");
    }
    long took = faults() - before, grown = (long)(resident_bytes() / page) - pages;
    CHECK(grown > MANY, "%ld pages for %d groups", grown, MANY);
    /* The kernel counts resident pages in batches. */
    CHECK(took < grown + grown / 10 + 300, "%ld faults for %ld pages", took, grown);
    for (int i = 0; i < MANY; i++)
        destroy(groups[i]);
}

CHECKS({"basics", check_basics}, {"own", check_own}, {"faults", check_faults})
