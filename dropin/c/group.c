/* The memory groups of commensal.h. Linked with the library, not preloaded.
 *
 * basics     every function, and each edge of its arguments, and errno
 * nesting    groups inside groups, left in any order; what realloc, calloc and the C library's own allocations do there
 * limits     a limit that threads reach at the same time: exact, and nobody else is disturbed
 * own        a thread that the library makes while a thread is inside: it is charged to nobody, and outlives the group
 * forks      children of a process whose threads are inside groups
 * busy       a group with threads inside, while they allocate
 * bulk       a million blocks that go at once; memory goes back where it was
 * many       a hundred thousand groups at once
 * faults     pages that groups take fault once each: a page that is read first faults twice, and the second time interrupts other CPUs */
#include "check.h"
#include <commensal.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static cm_group *create(const char *name, cm_group *parent, uint64_t limit) {
    cm_group *group = cm_group_create(name, parent, limit);
    CHECK(group != NULL, "no group %s", name);
    return group;
}

static void destroy(cm_group *group) {
    CHECK(cm_group_destroy(group) == 0, "not destroyed: errno %d", errno);
}

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

/* -- basics -- */

static void check_basics(void) {
    CHECK(cm_group_create(NULL, NULL, 0) == NULL && errno == EINVAL, "a group without a name");
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
    CHECK(cm_group_alloc(group, SIZE_MAX) == NULL && errno == ENOMEM, "all memory there is");
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
    void *zeroed = calloc(10, 1000);
    CHECK(zeroed != NULL && malloc(60000) == NULL && errno == ENOMEM, "the limit does not hold inside");
    CHECK(cm_group_leave(&entry) == 0 && cm_group_current() == NULL, "not left");
    free(make(60000));
    cm_group *child = create("child", group, 0);
    CHECK(cm_group_destroy(group) == -1 && errno == EBUSY, "destroyed with a child");
    destroy(child);
    destroy(group);
}

/* -- nesting -- */

static void check_nesting(void) {
    cm_group *one = create("one", NULL, 0), *two = create("two", NULL, 0);
    cm_group_entry a, b, c;
    CHECK(cm_group_enter(one, &a) == 0 && cm_group_enter(two, &b) == 0 && cm_group_enter(one, &c) == 0, "not entered");
    uint64_t before = stats_of(two).charged;
    char *text = strdup("the C library's own allocations are the group's, too");
    CHECK(stats_of(one).charged > 0 && stats_of(two).charged == before, "charged elsewhere");
    CHECK(cm_group_leave(&b) == 0 && cm_group_leave(&a) == 0 && cm_group_current() == one, "left in any order");
    CHECK(stats_of(one).inside == 1 && stats_of(two).inside == 0, "entered otherwise");
    CHECK(cm_group_leave(&c) == 0 && cm_group_current() == NULL, "still inside");
    text = realloc(text, 1000000);
    CHECK(stats_of(one).large_blocks == 1 && strlen(text) == 52, "realloc left the group, or lost %zu", strlen(text));
    free(text);
    destroy(one);
    destroy(two);
}

/* -- limits -- */

enum { THREADS = 8, OBJECT = 512, MOST = 2000 };

struct taker {
    cm_group *group;
    pthread_barrier_t *barrier;
    size_t held;
    void *blocks[MOST];
};

static void *take_all(void *argument) {
    struct taker *taker = argument;
    cm_group_entry entry;
    CHECK(cm_group_enter(taker->group, &entry) == 0, "not entered");
    for (int i = 0; i < 20000; i++)
        free(malloc(OBJECT));
    pthread_barrier_wait(taker->barrier);
    void *block;
    while ((block = malloc(OBJECT)) != NULL)
        taker->blocks[taker->held++] = block;
    CHECK(errno == ENOMEM, "errno is %d", errno);
    CHECK(cm_group_leave(&entry) == 0, "not left");
    free(make(OBJECT));
    return NULL;
}

static void check_limits(void) {
    static struct taker takers[THREADS];
    cm_group *group = create("limited", NULL, (uint64_t)MOST * OBJECT);
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int round = 0; round < 5; round++) {
        size_t held = 0;
        for (int i = 0; i < THREADS; i++) {
            takers[i] = (struct taker){.group = group, .barrier = &barrier};
            CHECK(pthread_create(&threads[i], NULL, take_all, &takers[i]) == 0, "no thread");
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            held += takers[i].held;
        }
        /* What lies in arrays is charged. Nobody can empty those of a thread that lives, where each has its own. */
        size_t in_arrays = getenv("GLIBC_TUNABLES") ? (size_t)2 * 32 * (THREADS - 1) : 0;
        CHECK(held <= MOST && held + in_arrays >= MOST, "%zu blocks within a limit of %d", held, MOST);
        uint64_t charged = stats_of(group).charged;
        CHECK(charged <= (uint64_t)MOST * OBJECT && charged >= held * OBJECT, "%llu bytes are charged",
              (unsigned long long)charged);
        for (int i = 0; i < THREADS; i++)
            while (takers[i].held > 0)
                free(takers[i].blocks[--takers[i].held]);
    }
    CHECK(stats_of(group).peak == (uint64_t)MOST * OBJECT, "a peak of %llu", (unsigned long long)stats_of(group).peak);
    destroy(group);
}

/* -- own -- */

/* Without a function that allocates. */
static unsigned long threads(void) {
    struct stat tasks;
    CHECK(stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 2, "it is not told how many threads there are");
    return tasks.st_nlink - 2;
}

static void *wait_for_end(void *lock) {
    pthread_mutex_lock(lock);
    return NULL;
}

static void check_own(void) {
    enum { LARGE = 1 << 20, AT_ONCE = 32, TRIES = 3000 };
    cm_group *group = create("served", NULL, 0);
    /* Who never had a second thread gets none of the library's; and where one has ended, another one gets what it had. */
    pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    CHECK(pthread_mutex_lock(&end) == 0 && pthread_create(&thread, NULL, wait_for_end, &end) == 0, "no thread");
    cm_group_entry entry;
    CHECK(cm_group_enter(group, &entry) == 0, "not entered");
    /* Large blocks only, so that nothing is left in arrays: freed, they are what somebody has to see to. */
    for (int i = 0; i < TRIES && threads() == 2; i++) {
        void *blocks[AT_ONCE];
        for (int j = 0; j < AT_ONCE; j++)
            blocks[j] = make(LARGE);
        for (int j = 0; j < AT_ONCE; j++)
            free(blocks[j]);
        usleep(1000);
    }
    CHECK(threads() == 3, "%lu threads", threads());
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
    CHECK(pthread_mutex_unlock(&end) == 0 && pthread_join(thread, NULL) == 0, "the thread does not end");
}

/* -- forks, busy -- */

static volatile int is_done;

static void *churn_inside(void *argument) {
    cm_group *group = argument;
    while (!is_done) {
        cm_group_entry entry;
        CHECK(cm_group_enter(group, &entry) == 0, "not entered");
        void *kept[50];
        for (int i = 0; i < 50; i++)
            kept[i] = make((size_t)(1 + i * 97 % 40000));
        for (int i = 0; i < 50; i++)
            free(kept[i]);
        CHECK(cm_group_leave(&entry) == 0, "not left");
    }
    return NULL;
}

static void *look_in_child(void *group) {
    CHECK(cm_group_current() == NULL && stats_of(group).inside == 1, "%u are inside", stats_of(group).inside);
    CHECK(cm_group_destroy(group) == -1 && errno == EBUSY, "destroyed with the thread inside that forked");
    return NULL;
}

static void in_child(cm_group *group, cm_group_entry *entry, void *block) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look_in_child, group) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(cm_group_current() == group, "the child is outside");
    CHECK(stats_of(group).inside == 1, "%u are inside", stats_of(group).inside);
    CHECK(cm_group_destroy(group) == -1 && errno == EBUSY, "destroyed with the child's thread inside");
    free(block);
    for (int i = 1; i < 2000; i++)
        make((size_t)i * 13);
    CHECK(cm_group_leave(entry) == 0 && cm_group_current() == NULL, "not left");
    /* Whoever else was inside is not in this process. */
    destroy(group);
    group = create("the/childs", NULL, 100000);
    CHECK(cm_group_alloc(group, 1000) != NULL, "no memory in a group of the child's");
    destroy(group);
}

static void check_forks(void) {
    cm_group *group = create("forked", NULL, 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, churn_inside, group) == 0, "no thread");
    for (int round = 0; round < 30; round++) {
        cm_group_entry entry;
        CHECK(cm_group_enter(group, &entry) == 0, "not entered");
        void *block = make(3000);
        pid_t child = fork();
        if (child == 0) {
            in_child(group, &entry, block);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "a child ended with status %#x", status);
        free(block);
        CHECK(cm_group_leave(&entry) == 0, "not left");
    }
    is_done = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    destroy(group);
}

static void *stay(void *argument) {
    cm_group_entry entry;
    CHECK(cm_group_enter(argument, &entry) == 0, "not entered");
    while (!is_done)
        free(make(1000));
    CHECK(cm_group_leave(&entry) == 0, "not left");
    return NULL;
}

static void check_busy(void) {
    cm_group *group = create("busy", NULL, 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stay, group) == 0, "no thread");
    while (stats_of(group).inside == 0)
        continue;
    for (int i = 0; i < 10000; i++)
        CHECK(cm_group_destroy(group) == -1 && errno == EBUSY, "destroyed while a thread allocates in it");
    is_done = 1;
    pthread_join(thread, NULL);
    destroy(group);
}

/* -- bulk, many -- */

static void check_bulk(void) {
    enum { MANY = 1000000 };
    malloc_trim(0);
    size_t before = mallinfo2().uordblks;
    for (int round = 0; round < 3; round++) {
        cm_group *group = create("bulk", NULL, 0);
        cm_group_entry entry;
        CHECK(cm_group_enter(group, &entry) == 0, "not entered");
        for (size_t i = 0; i < MANY; i++)
            make(1 + i % 150);
        for (size_t i = 0; i < 30; i++)
            make(i * 100000);
        CHECK(cm_group_leave(&entry) == 0, "not left");
        CHECK(stats_of(group).charged > (uint64_t)MANY * 75, "too little is charged");
        destroy(group);
    }
    size_t after = mallinfo2().uordblks;
    CHECK(after < before + 100000, "%zu bytes were in use, and %zu are", before, after);
}

static void check_many(void) {
    enum { MANY = 100000 };
    static cm_group *groups[MANY];
    cm_group *parent = create("parent", NULL, 0);
    for (int i = 0; i < MANY; i++)
        groups[i] = create("idle", parent, 1 << 30);
    for (int i = 0; i < MANY; i += 100)
        CHECK(cm_group_alloc(groups[i], 64) != NULL, "no memory");
    CHECK(stats_of(parent).children == MANY && stats_of(parent).charged >= MANY / 100 * 64, "charged otherwise");
    for (int i = 0; i < MANY; i++)
        destroy(groups[i]);
    CHECK(stats_of(parent).charged == 0, "%llu bytes are left", (unsigned long long)stats_of(parent).charged);
    destroy(parent);
}

/* -- faults -- */

static long resident_pages(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long all, resident;
    CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &resident) == 2, "statm is not readable");
    fclose(file);
    return resident;
}

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "no usage");
    return usage.ru_minflt;
}

static void check_faults(void) {
    enum { MANY = 2000, SIZES = 5 };
    static cm_group *groups[MANY];
    /* A thread that was there once, so that the process is upgraded. */
    pthread_t thread;
    cm_group *busy = create("busy", NULL, 0);
    is_done = 1;
    CHECK(pthread_create(&thread, NULL, stay, busy) == 0 && pthread_join(thread, NULL) == 0, "no thread");
    destroy(busy);
    long pages = resident_pages(), before = faults();
    for (int i = 0; i < MANY; i++) {
        groups[i] = create("fresh", NULL, 1 << 30);
        for (size_t size = 0; size < SIZES; size++)
            CHECK(cm_group_alloc(groups[i], 24 << size) != NULL, "no memory");
    }
    long took = faults() - before, grown = resident_pages() - pages;
    CHECK(grown > MANY, "%ld pages for %d groups", grown, MANY);
    /* The kernel counts resident pages in batches. */
    CHECK(took < grown + grown / 10 + 300, "%ld faults for %ld pages", took, grown);
    for (int i = 0; i < MANY; i++)
        destroy(groups[i]);
}

static const struct check checks[] = {{"basics", check_basics}, {"nesting", check_nesting}, {"limits", check_limits},
                                      {"own", check_own},       {"forks", check_forks},     {"busy", check_busy},
                                      {"bulk", check_bulk},     {"many", check_many},       {"faults", check_faults},
                                      {NULL, NULL}};

int main(int count, char **arguments) {
    return run_named(count, arguments, checks);
}
