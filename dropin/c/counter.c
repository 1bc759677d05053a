/* The counters of commensal.h in one thread: each function, and each edge. Linked with the library, not
 * preloaded.
 *
 * layout                  sizes, and what the macros make
 * values                  every function before and after the upgrade, and that errno is kept
 * set_values              the same of sets
 * lives                   many counters, one after the other
 * memory                  an upgrade without memory
 * overflow                an addition for which there is no place: ends by SIGABRT
 * index FUNCTION [LENGTH [INDEX]]   an index out of range: ends by SIGABRT */
#include "counter.h"

#include <sys/resource.h>

_Static_assert(sizeof(cm_counter) == 32 && _Alignof(cm_counter) == 8, "a counter is four words");
_Static_assert(sizeof(CM_COUNTERS(1)) == 32, "16 + 12 rounded up");
_Static_assert(sizeof(CM_COUNTERS(3)) == 56, "16 + 36 rounded up");
_Static_assert(sizeof(CM_COUNTERS(4)) == 64, "four fit a cache line");
_Static_assert(sizeof(CM_COUNTERS(CM_COUNTERS_MOST)) == 16 + 12 * CM_COUNTERS_MOST, "the largest");

static cm_counters *new_set(size_t n) {
    size_t bytes = cm_counters_bytes(n);
    CHECK(bytes >= 16 + 12 * n && bytes < 16 + 12 * n + 8 && bytes % 8 == 0, "%zu bytes for %zu", bytes, n);
    void *place = malloc(bytes);
    memset(place, 0xff, bytes);
    cm_counters *set = cm_counters_begin(place, n);
    CHECK(set == place, "a set of %zu is not where it was begun", n);
    return set;
}

/* -- layout -- */

static void check_layout(void) {
    static const unsigned char zeroes[sizeof(CM_COUNTERS(COLOURS))];
    cm_counter initialised = CM_COUNTER_INIT;
    CHECK(memcmp(&initialised, zeroes, sizeof initialised) == 0, "CM_COUNTER_INIT is not zero");

    IS(cm_counters_bytes(COLOURS), sizeof colours);
    cm_counters *begun = new_set(COLOURS);
    CHECK(memcmp(begun, &colours, sizeof colours) == 0,
          "the macro and cm_counters_begin make different sets");
    free(begun);

    const size_t none[] = {0, CM_COUNTERS_MOST + 1, SIZE_MAX, SIZE_MAX / 12 + 2};
    unsigned char place[64], untouched[64];
    memset(place, 0x55, sizeof place);
    memset(untouched, 0x55, sizeof untouched);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        errno = 0;
        IS(cm_counters_bytes(none[i]), 0);
        IS(errno, EINVAL);
        errno = 0;
        CHECK(cm_counters_begin(place, none[i]) == NULL, "a set of %zu was begun", none[i]);
        IS(errno, EINVAL);
        CHECK(memcmp(place, untouched, sizeof place) == 0, "a set that cannot be was begun in part");
    }
}

/* -- values -- */

/* From a counter of value 0 to one of value 0. */
static void try_values(cm_counter *counter, bool shared) {
    KEEPING_ERRNO(cm_counter_add(counter, 1000));
    KEEPING_ERRNO(cm_counter_sub(counter, 1));
    KEEPING_ERRNO(cm_counter_add_local(counter, 20));
    KEEPING_ERRNO(cm_counter_add_remote(counter, -300));
    KEEPING_ERRNO(IS(cm_counter_sum(counter), 719));
    KEEPING_ERRNO(IS(cm_counter_sum_positive(counter), 719));
    KEEPING_ERRNO(is_read(cm_counter_read(counter), 719, shared));
    KEEPING_ERRNO(is_read(cm_counter_read_positive(counter), 719, shared));
    KEEPING_ERRNO(IS(cm_counter_compare(counter, 718), 1));
    KEEPING_ERRNO(IS(cm_counter_compare(counter, 719), 0));
    KEEPING_ERRNO(IS(cm_counter_compare(counter, 720), -1));
    IS(cm_counter_compare(counter, INT64_MIN), 1);
    IS(cm_counter_compare(counter, INT64_MAX), -1);

    KEEPING_ERRNO(cm_counter_set(counter, -5));
    IS(cm_counter_sum(counter), -5);
    IS(cm_counter_sum_positive(counter), 0);
    is_read(cm_counter_read(counter), -5, shared);
    CHECK(cm_counter_read_positive(counter).value >= 0, "a positive reading below zero");

    KEEPING_ERRNO(IS(cm_counter_limited_add(counter, 15, 9), false));
    KEEPING_ERRNO(IS(cm_counter_limited_add(counter, 15, 10), true));
    KEEPING_ERRNO(IS(cm_counter_limited_add(counter, 1, 10), false));
    IS(cm_counter_limited_add(counter, 0, 0), true);
    IS(cm_counter_limited_add(counter, -1, 0), true);
    IS(cm_counter_sum(counter), 9);
    KEEPING_ERRNO(IS(cm_counter_reset(counter), 9));

    cm_counter_add(counter, INT64_MAX);
    cm_counter_add(counter, 1);
    IS(cm_counter_sum(counter), INT64_MIN);
    cm_counter_sub(counter, INT64_MIN);
    IS(cm_counter_sum(counter), 0);
    KEEPING_ERRNO(IS(cm_counter_is_shared(counter), shared));
}

static void check_values(void) {
    cm_counter counter = CM_COUNTER_INIT;
    static const cm_counter zero = CM_COUNTER_INIT;
    IS(cm_counter_sum(&zero), 0);
    KEEPING_ERRNO(cm_counter_bind(&counter));
    try_values(&counter, false);
    KEEPING_ERRNO(IS(cm_counter_share(&counter), 0));
    KEEPING_ERRNO(IS(cm_counter_share(&counter), 0));
    try_values(&counter, true);
    cm_counter_add(&counter, 77);
    KEEPING_ERRNO(cm_counter_bind(&counter));
    IS(cm_counter_is_shared(&counter), false);
    IS(cm_counter_reset(&counter), 77);
    try_values(&counter, false);
    cm_counter_share(&counter);
    cm_counter_add(&counter, 5);
    for (int twice = 0; twice < 2; twice++) {
        KEEPING_ERRNO(cm_counter_destroy(&counter));
        CHECK(memcmp(&counter, &zero, sizeof zero) == 0, "a destroyed counter is not zero");
    }
    cm_counter_add(&counter, 3);
    IS(cm_counter_reset(&counter), 3);
    try_values(&counter, false);
}

/* One counter of a set from 0 to 0; the functions are the same but for the index. */
static void try_set_values(cm_counters *set, size_t i, bool shared) {
    KEEPING_ERRNO(cm_counters_add(set, i, 1000));
    KEEPING_ERRNO(cm_counters_sub(set, i, 1));
    KEEPING_ERRNO(cm_counters_add_local(set, i, 20));
    KEEPING_ERRNO(cm_counters_add_remote(set, i, -300));
    KEEPING_ERRNO(IS(cm_counters_sum(set, i), 719));
    KEEPING_ERRNO(IS(cm_counters_sum_positive(set, i), 719));
    KEEPING_ERRNO(is_read(cm_counters_read(set, i), 719, shared));
    KEEPING_ERRNO(is_read(cm_counters_read_positive(set, i), 719, shared));
    KEEPING_ERRNO(IS(cm_counters_compare(set, i, 718), 1));
    KEEPING_ERRNO(IS(cm_counters_compare(set, i, 719), 0));
    KEEPING_ERRNO(IS(cm_counters_compare(set, i, 720), -1));

    KEEPING_ERRNO(cm_counters_set(set, i, -5));
    IS(cm_counters_sum(set, i), -5);
    IS(cm_counters_sum_positive(set, i), 0);
    CHECK(cm_counters_read_positive(set, i).value >= 0, "a positive reading below zero");
    KEEPING_ERRNO(IS(cm_counters_limited_add(set, i, 15, 9), false));
    KEEPING_ERRNO(IS(cm_counters_limited_add(set, i, 15, 10), true));
    KEEPING_ERRNO(IS(cm_counters_reset(set, i), 10));
    KEEPING_ERRNO(IS(cm_counters_is_shared(set), shared));
}

/* All of a set, each with the others at values of their own, which stay. */
static void try_set(cm_counters *set, size_t n, bool shared) {
    for (size_t i = 0; i < n; i++)
        cm_counters_set(set, i, (int64_t)i * 1000003);
    for (size_t i = 0; i < n; i++) {
        IS(cm_counters_reset(set, i), i * 1000003);
        try_set_values(set, i, shared);
        cm_counters_set(set, i, (int64_t)i * 1000003);
    }
    for (size_t i = 0; i < n; i++)
        IS(cm_counters_reset(set, i), i * 1000003);
}

static void try_set_life(cm_counters *set, size_t n) {
    KEEPING_ERRNO(cm_counters_bind(set));
    try_set(set, n, false);
    KEEPING_ERRNO(IS(cm_counters_share(set), 0));
    try_set(set, n, true);
    cm_counters_add(set, n - 1, 77);
    KEEPING_ERRNO(cm_counters_bind(set));
    IS(cm_counters_is_shared(set), false);
    IS(cm_counters_reset(set, n - 1), 77);
    IS(cm_counters_share(set), 0);
    for (int twice = 0; twice < 2; twice++) {
        cm_counters_add(set, n - 1, 5);
        KEEPING_ERRNO(cm_counters_destroy(set));
        IS(cm_counters_sum(set, n - 1), 0);
        IS(cm_counters_is_shared(set), false);
    }
}

static void check_set_values(void) {
    const size_t lengths[] = {1, 2, 3, 4, 5, 64, CM_COUNTERS_MOST};
    try_set_life(&colours.set, COLOURS);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        cm_counters *set = new_set(lengths[i]);
        try_set_life(set, lengths[i]);
        free(set);
    }
}

/* -- lives -- */

/* What a counter has beside its own memory serves the next one, whether it was destroyed or bound. */
static void live(size_t times) {
    cm_counters *set = new_set(COLOURS);
    for (size_t i = 0; i < times; i++) {
        cm_counter counter = CM_COUNTER_INIT;
        CHECK(cm_counter_share(&counter) == 0 && cm_counters_share(set) == 0, "no memory at life %zu", i);
        cm_counter_add(&counter, 1);
        cm_counters_add(set, i % COLOURS, 1);
        if (i % 2 == 0) {
            cm_counter_bind(&counter);
            cm_counters_bind(set);
        }
        cm_counter_destroy(&counter);
        cm_counters_destroy(set);
    }
    free(set);
}

static void check_lives(void) {
    live(2);
    size_t before = address_space_bytes();
    live(20000);
    size_t after = address_space_bytes();
    CHECK(after <= before + MIB, "the address space grew from %zu to %zu bytes", before, after);
}

/* -- memory and overflow -- */

/* From here on no counter can be upgraded: no more address space than there is now, and what the library
 * still had of it is in use. The limit that was. */
static struct rlimit no_more_memory(void) {
    enum { MANY = 1000 };
    static cm_counter many[MANY];
    size_t taken = 0;
    struct rlimit before, now;
    CHECK(getrlimit(RLIMIT_AS, &before) == 0, "getrlimit failed with errno %d", errno);
    now = before;
    now.rlim_cur = address_space_bytes();
    CHECK(setrlimit(RLIMIT_AS, &now) == 0, "setrlimit failed with errno %d", errno);
    while (taken < MANY && cm_counter_share(&many[taken]) == 0)
        taken++;
    CHECK(taken < MANY, "%d counters were upgraded without memory", MANY);
    return before;
}

static void check_memory(void) {
    static cm_counter counter;
    cm_counter_add(&counter, 1);
    cm_counters_add(&colours.set, RED, 1);
    struct rlimit before = no_more_memory();
    for (int twice = 0; twice < 2; twice++) {
        errno = 0;
        IS(cm_counter_share(&counter), -1);
        IS(errno, ENOMEM);
        errno = 0;
        IS(cm_counters_share(&colours.set), -1);
        IS(errno, ENOMEM);
    }
    IS(cm_counter_is_shared(&counter), false);
    /* Often enough for an upgrade, which is not to be had. */
    for (int i = 0; i < 1000; i++)
        KEEPING_ERRNO(cm_counter_add_remote(&counter, 1));
    IS(cm_counter_limited_add(&counter, 1, 1001), false);
    IS(cm_counter_limited_add(&counter, 1, 1002), true);
    IS(cm_counter_sum(&counter), 1002);
    IS(cm_counters_sum(&colours.set, RED), 1);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0, "setrlimit failed with errno %d", errno);
    IS(cm_counter_share(&counter), 0);
    IS(cm_counters_share(&colours.set), 0);
    IS(cm_counter_sum(&counter), 1002);
    IS(cm_counters_sum(&colours.set, RED), 1);
}

static void check_overflow(void) {
    static cm_counter counter;
    no_more_memory();
    cm_counter_add_remote(&counter, (INT64_C(1) << 30) - 1);
    IS(cm_counter_sum(&counter), (INT64_C(1) << 30) - 1);
    cm_counter_add_remote(&counter, 1);
    say("nothing was noticed");
}

/* -- index -- */

static cm_counters *indexed;
static size_t wrong_index;

/* The functions that take an index, with what they take behind it. */
#define INDEXED                                                                                              \
    X(add, , 1)                                                                                              \
    X(sub, , 1)                                                                                              \
    X(add_local, , 1)                                                                                        \
    X(add_remote, , 1)                                                                                       \
    X(read, )                                                                                                \
    X(read_positive, )                                                                                       \
    X(sum, )                                                                                                 \
    X(sum_positive, )                                                                                        \
    X(compare, , 1)                                                                                          \
    X(limited_add, , 1, 1)                                                                                   \
    X(set, , 1)                                                                                              \
    X(reset, )

#define X(name, ...)                                                                                         \
    static void index_##name(void) {                                                                         \
        (void)cm_counters_##name(indexed, wrong_index __VA_ARGS__);                                       \
    }
INDEXED
#undef X

static void check_index(void) {
#define X(name, ...) {#name, index_##name},
    const struct check functions[] = {INDEXED{NULL, NULL}};
#undef X
    const char *name = argument(0);
    size_t length = number_argument(1, COLOURS);
    wrong_index = number_argument(2, length);
    indexed = new_set(length);
    for (const struct check *function = functions; function->name; function++) {
        if (name && strcmp(name, function->name) == 0)
            function->run();
    }
    say("nothing was noticed");
}

static const struct check checks[] = {{"layout", check_layout},         {"values", check_values},
                                      {"set_values", check_set_values}, {"lives", check_lives},
                                      {"memory", check_memory},         {"overflow", check_overflow},
                                      {"index", check_index},           {NULL, NULL}};

int main(int count, char **arguments) {
    return run_named(count, arguments, checks);
}
