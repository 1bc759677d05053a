/* The lock report of commensal.h. Linked with the library, not preloaded.
 *
 * none       a program without threads: no row
 * known      waits that are known: the destructor of a cache sleeps while its thread trims, and another thread wants
 *            to trim meanwhile
 * busy       threads that meet in the page heap, and readings while they do, also in signal handlers */
#include "check.h"
#include <commensal.h>
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST = 400 };

/* What must hold of any reading. Returns the number of rows. */
static size_t read_rows(cm_lock_row *rows, size_t capacity) {
    cm_lock_lost lost;
    errno = 123;
    size_t found = cm_lock_report(rows, capacity, &lost);
    CHECK(errno == 123, "errno is %d", errno);
    CHECK(lost.contended == 0 && lost.total_wait_ns == 0, "%llu waits are lost", (unsigned long long)lost.contended);
    for (size_t at = 0; at < found && at < capacity; at++) {
        const cm_lock_row *row = &rows[at];
        unsigned long long contended = row->contended, total = row->total_wait_ns, max = row->max_wait_ns,
                           avg = row->avg_wait_ns;
        CHECK(contended > 0 && max <= total && avg == total / contended, "%llu %llu %llu %llu", contended, total, max,
              avg);
        CHECK(at == 0 || total <= rows[at - 1].total_wait_ns, "row %zu is not in order", at);
        CHECK(row->type[0] != 0 && strlen(row->type) < sizeof row->type, "no type");
        CHECK(strstr(row->caller, "::") != NULL && strchr(row->caller, '<') == NULL, "a caller is %s", row->caller);
    }
    return found;
}

/* The row of a type and caller, zeroes if there is none. */
static cm_lock_row row_of(const char *type, const char *caller) {
    static cm_lock_row rows[MOST];
    cm_lock_row none = {0};
    size_t found = read_rows(rows, MOST);
    CHECK(found <= MOST, "%zu rows", found);
    for (size_t at = 0; at < found; at++)
        if (strcmp(rows[at].type, type) == 0 && strcmp(rows[at].caller, caller) == 0)
            return rows[at];
    return none;
}

static uint64_t now_ns(void) { return (uint64_t)(seconds_now() * 1e9); }

static void check_none(void) {
    cm_lock_row row;
    free(malloc(100000));
    CHECK(malloc_trim(0) >= 0, "not trimmed");
    CHECK(read_rows(NULL, 0) == 0 && read_rows(&row, 1) == 0, "a lock was contended without a second thread");
    CHECK(cm_lock_report(NULL, 0, NULL) == 0, "a row");
}

static atomic_long hold_ms;
static atomic_int is_held, waiter_number;
static uint64_t measured_ns;

/* Waits until a thread of this process sleeps in the kernel. Without a function that allocates. */
static void wait_until_asleep(int number) {
    char path[60], text[200];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", number);
    for (bool sleeps = false; !sleeps; sched_yield()) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(file >= 0, "%s: errno %d", path, errno);
        ssize_t length = read(file, text, sizeof text - 1);
        CHECK(length > 0 && close(file) == 0, "%s: errno %d", path, errno);
        text[length] = 0;
        sleeps = strstr(text, ") S ") != NULL;
    }
}

/* Holds the lock of those who trim. */
static void stay(void *object, void *argument) {
    (void)object, (void)argument;
    long ms = atomic_exchange(&hold_ms, 0);
    if (ms == 0)
        return;
    atomic_store(&is_held, 1);
    while (atomic_load(&waiter_number) == 0)
        sched_yield();
    wait_until_asleep(atomic_load(&waiter_number));
    sleep_us(ms * 1000);
}

static void *wait_for_it(void *none) {
    while (!atomic_load(&is_held))
        sched_yield();
    uint64_t start = now_ns();
    atomic_store(&waiter_number, gettid());
    malloc_trim(0);
    measured_ns = now_ns() - start;
    return none;
}

static void check_known(void) {
    static const long holds[] = {30, 10, 20};
    cm_cache_options options = {.destructor = stay};
    cm_cache *cache = cm_cache_create("held", 1000, 0, &options);
    CHECK(cache != NULL, "no cache");
    uint64_t most = 0, sum = 0, held = 0;
    for (int number = 0; number < 3; number++) {
        atomic_store(&is_held, 0);
        atomic_store(&waiter_number, 0);
        void *object = cm_cache_alloc(cache);
        CHECK(object != NULL, "no object");
        cm_cache_free(cache, object);
        pthread_t waiter = thread_start(wait_for_it, NULL);
        atomic_store(&hold_ms, holds[number]);
        malloc_trim(0);
        thread_join(waiter);
        CHECK(atomic_load(&is_held), "no destructor ran");
        most = measured_ns > most ? measured_ns : most;
        sum += measured_ns;
        cm_lock_row row = row_of("drain", "cpu_cache::tier::CpuCaches::drain_all");
        held += (uint64_t)holds[number] * 1000000;
        /* The waiter slept before the hold began, and trims by itself in the end. */
        CHECK(row.contended == (uint64_t)number + 1, "%llu waits", (unsigned long long)row.contended);
        CHECK(row.max_wait_ns <= most && row.max_wait_ns >= 30000000, "%llu ns at most, of a wait of %llu ns",
              (unsigned long long)row.max_wait_ns, (unsigned long long)most);
        CHECK(row.total_wait_ns <= sum && row.total_wait_ns >= held, "%llu ns, of %llu ns",
              (unsigned long long)row.total_wait_ns, (unsigned long long)sum);
    }
    cm_lock_row first;
    CHECK(read_rows(&first, 1) >= 1 && strcmp(first.type, "drain") == 0, "first comes %s", first.type);
    CHECK(cm_cache_destroy(cache) == 0, "not destroyed");
}

static atomic_int is_over, in_handlers;

static void *churn_pages(void *none) {
    while (!atomic_load(&is_over)) {
        void *blocks[8];
        for (int at = 0; at < 8; at++)
            CHECK((blocks[at] = malloc(40000 + 8000 * at)) != NULL, "no memory");
        for (int at = 0; at < 8; at++)
            free(blocks[at]);
    }
    return none;
}

static void read_here(int signal) {
    (void)signal;
    cm_lock_row rows[4];
    int error = errno;
    read_rows(rows, 4);
    errno = error;
    atomic_fetch_add(&in_handlers, 1);
}

static void check_busy(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    signal(SIGUSR1, read_here);
    uint64_t start = now_ns(), contended = 0;
    threads_start(threads, THREADS, churn_pages);
    for (int i = 0; now_ns() - start < 300000000 || contended == 0 || atomic_load(&in_handlers) == 0; i++) {
        CHECK(now_ns() - start < HANGS_AFTER_SECONDS * 1000000000ull, "nobody waited for the page heap");
        contended = row_of("page heap", "page_heap::runs::PageHeap::allocate").contended;
        pthread_kill(threads[i % THREADS], SIGUSR1);
        sched_yield();
    }
    atomic_store(&is_over, 1);
    threads_join(threads, THREADS);
    cm_lock_row row = row_of("page heap", "page_heap::runs::PageHeap::allocate");
    CHECK(row.total_wait_ns < THREADS * (now_ns() - start), "more was waited than there was time");
}

CHECKS({"none", check_none}, {"known", check_known}, {"busy", check_busy})
