/* The limits of the process of commensal.h: each function, errno, and the functions of malloc at the limit. Linked with
 * the library, not preloaded. What the limits promise is tested in runtime/tests.
 *
 * basics     every function, and each edge of its arguments, and errno
 * malloc     each function of malloc beyond the limit: NULL and ENOMEM, and the old block stays
 * told       the example of the book: a function that writes to an eventfd */
#include "check.h"
#include <commensal.h>
#include <sys/eventfd.h>

#define MEGABYTE ((size_t)1 << 20)

static unsigned soft_calls, hard_calls;

static void count(uint32_t limit, void *argument) {
    CHECK(argument == &soft_calls && limit <= CM_LIMIT_HARD, "limit %u, argument %p", limit, argument);
    ++*(limit == CM_LIMIT_SOFT ? &soft_calls : &hard_calls);
    free(malloc(100));
}

static cm_limit_figures figures(void) {
    cm_limit_figures read;
    errno = 123;
    cm_limit_report(&read);
    CHECK(errno == 123, "errno is %d", errno);
    return read;
}

static void *take(size_t bytes) {
    void *block = malloc(bytes);
    CHECK(block != NULL, "no block of %zu bytes", bytes);
    return block;
}

static void check_basics(void) {
    CHECK(figures().limit == UINT64_MAX && figures().soft_limit == UINT64_MAX, "there is a limit");
    errno = 0;
    CHECK(cm_limit_set(2, 1) == -1 && errno == EINVAL, "there is no third limit");
    CHECK(cm_limit_set(CM_LIMIT_HARD, 100 * MEGABYTE + 1) == 0 && cm_limit_set(CM_LIMIT_SOFT, 50 * MEGABYTE) == 0,
          "not set");
    CHECK(figures().limit == 100 * MEGABYTE && figures().soft_limit == 50 * MEGABYTE, "others than were set");
    CHECK(cm_limit_notify(count, &soft_calls) == 0, "no memory for the function");
    void *first = take(60 * MEGABYTE);
    free(take(5 * MEGABYTE));
    CHECK(soft_calls == 1 && hard_calls == 0, "%u and %u calls", soft_calls, hard_calls);
    errno = 0;
    CHECK(malloc(60 * MEGABYTE) == NULL && errno == ENOMEM, "beyond the limit");
    CHECK(malloc(60 * MEGABYTE) == NULL && soft_calls == 1 && hard_calls == 1, "%u and %u calls", soft_calls, hard_calls);
    CHECK(figures().refused == 2 && figures().reached == 1 && figures().soft_reached == 1, "not counted");
    CHECK(figures().held >= 60 * MEGABYTE && figures().held <= 100 * MEGABYTE, "%llu bytes are held",
          (unsigned long long)figures().held);
    CHECK(cm_limit_notify(NULL, NULL) == 0 && cm_limit_set(CM_LIMIT_HARD, 0) == 0, "not reset");
    free(take(200 * MEGABYTE));
    free(first);
    CHECK(figures().limit == UINT64_MAX && hard_calls == 1, "the limit is still there");
}

static void check_malloc(void) {
    CHECK(cm_limit_set(CM_LIMIT_HARD, 100 * MEGABYTE) == 0, "not set");
    char *block = take(60 * MEGABYTE);
    block[0] = 5;
    void *aligned = NULL;
    for (size_t bytes = 41 * MEGABYTE; bytes < 1000 * MEGABYTE; bytes *= 2) {
        errno = 0;
        CHECK(malloc(bytes) == NULL && errno == ENOMEM, "malloc of %zu bytes", bytes);
        errno = 0;
        CHECK(calloc(bytes / 8, 8) == NULL && errno == ENOMEM, "calloc of %zu bytes", bytes);
        errno = 0;
        CHECK(aligned_alloc(4096, bytes) == NULL && errno == ENOMEM, "aligned_alloc of %zu bytes", bytes);
        CHECK(posix_memalign(&aligned, 4096, bytes) == ENOMEM && aligned == NULL, "posix_memalign of %zu bytes", bytes);
        errno = 0;
        CHECK(realloc(block, 60 * MEGABYTE + bytes) == NULL && errno == ENOMEM && block[0] == 5,
              "realloc by %zu bytes", bytes);
    }
    block = realloc(block, 30 * MEGABYTE);
    CHECK(block != NULL && block[0] == 5, "realloc to less");
    free(block);
    free(take(99 * MEGABYTE));
}

/* ANCHOR: told */
static int events; /* an eventfd: another thread waits for it, and frees what it can */

static void reached(uint32_t limit, void *unused) {
    (void)limit, (void)unused;
    eventfd_write(events, 1);
}
/* ANCHOR_END: told */

static void check_told(void) {
    events = eventfd(0, EFD_NONBLOCK);
    CHECK(events >= 0 && cm_limit_notify(reached, NULL) == 0, "not made");
    CHECK(cm_limit_set(CM_LIMIT_HARD, 50 * MEGABYTE) == 0, "not set");
    eventfd_t times;
    CHECK(eventfd_read(events, &times) == -1, "told before the limit is reached");
    CHECK(malloc(51 * MEGABYTE) == NULL, "beyond the limit");
    CHECK(eventfd_read(events, &times) == 0 && times == 1, "not told once");
}

CHECKS({"basics", check_basics}, {"malloc", check_malloc}, {"told", check_told})
