/* The counters of commensal.h: what its macros make, what each function does, and how errors show. Linked with the
 * library, not preloaded. What counters promise among threads, signal handlers and forks is tested in runtime/tests.
 *
 * layout                  sizes, and what the macros make
 * values                  each function of a counter and of a set, before and after the upgrade, and that errno is kept
 * memory                  an upgrade without memory
 * index FUNCTION [INDEX]  an index out of range: ends by SIGABRT */

/* First, and twice: it must need nothing before it, and mind no second time. */
#include <commensal.h>

#include <commensal.h>

#include "check.h"

#include <sys/resource.h>

_Static_assert(sizeof(cm_counter) == 32 && _Alignof(cm_counter) == 8, "a counter is four words");
_Static_assert(sizeof(CM_COUNTERS(1)) == 32, "16 + 12 rounded up");
_Static_assert(sizeof(CM_COUNTERS(3)) == 56, "16 + 36 rounded up");
_Static_assert(sizeof(CM_COUNTERS(4)) == 64, "four fit a cache line");
_Static_assert(sizeof(CM_COUNTERS(CM_COUNTERS_MOST)) == 16 + 12 * CM_COUNTERS_MOST, "the largest");

enum { RED, GREEN, BLUE, COLOURS };
static CM_COUNTERS(COLOURS) colours = CM_COUNTERS_INIT(COLOURS);

/* Calls that must leave errno alone. */
#define KEEPING_ERRNO(...)                                                                                             \
    do {                                                                                                               \
        errno = EXDEV;                                                                                                 \
        __VA_ARGS__;                                                                                                   \
        CHECK(errno == EXDEV, #__VA_ARGS__ " set errno to %d", errno);                                                 \
    } while (0)

#define IS(found, expected) is(#found, __LINE__, (int64_t)(found), (int64_t)(expected))

static void is(const char *what, int line, int64_t found, int64_t expected) {
    CHECK(found == expected, "line %d: %s is %lld, expected %lld", line, what, (long long)found, (long long)expected);
}

/* What a reading says: exact before the upgrade, and near enough after it. */
static void is_read(cm_reading reading, int64_t expected, bool shared) {
    int64_t off = reading.value > expected ? reading.value - expected : expected - reading.value;
    CHECK((uint64_t)off <= reading.error, "read %lld give or take %llu, expected %lld", (long long)reading.value,
          (unsigned long long)reading.error, (long long)expected);
    CHECK(shared || reading.error == 0, "before the upgrade a reading is off by %llu",
          (unsigned long long)reading.error);
}

static void check_layout(void) {
    static const unsigned char zeroes[sizeof(CM_COUNTERS(COLOURS))];
    cm_counter initialised = CM_COUNTER_INIT;
    CHECK(memcmp(&initialised, zeroes, sizeof initialised) == 0, "CM_COUNTER_INIT is not zero");

    uint64_t begun[sizeof colours / 8];
    memset(begun, 0xff, sizeof begun);
    IS(cm_counters_bytes(COLOURS), sizeof colours);
    CHECK(cm_counters_begin(begun, COLOURS) == (cm_counters *)begun, "a set is not where it was begun");
    CHECK(memcmp(begun, &colours, sizeof colours) == 0, "the macro and cm_counters_begin make different sets");

    const size_t none[] = {0, CM_COUNTERS_MOST + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        errno = 0;
        IS(cm_counters_bytes(none[i]), 0);
        IS(errno, EINVAL);
        errno = 0;
        CHECK(cm_counters_begin(begun, none[i]) == NULL, "a set of %zu was begun", none[i]);
        IS(errno, EINVAL);
        CHECK(memcmp(begun, &colours, sizeof colours) == 0, "a set that cannot be was begun in part");
    }
}

/* The functions of counters and of sets differ in their names and in what they take first. From 0 to 0. */
#define TRY_VALUES(shared, name, ...)                                                                                  \
    do {                                                                                                               \
        KEEPING_ERRNO(name##_add(__VA_ARGS__, 1000));                                                                  \
        KEEPING_ERRNO(name##_sub(__VA_ARGS__, 1));                                                                     \
        KEEPING_ERRNO(name##_add_local(__VA_ARGS__, 20));                                                              \
        KEEPING_ERRNO(name##_add_remote(__VA_ARGS__, -300));                                                           \
        KEEPING_ERRNO(IS(name##_sum(__VA_ARGS__), 719));                                                               \
        KEEPING_ERRNO(IS(name##_sum_positive(__VA_ARGS__), 719));                                                      \
        KEEPING_ERRNO(is_read(name##_read(__VA_ARGS__), 719, shared));                                                 \
        KEEPING_ERRNO(is_read(name##_read_positive(__VA_ARGS__), 719, shared));                                        \
        KEEPING_ERRNO(IS(name##_compare(__VA_ARGS__, 718), 1));                                                        \
        KEEPING_ERRNO(IS(name##_compare(__VA_ARGS__, 719), 0));                                                        \
        KEEPING_ERRNO(IS(name##_compare(__VA_ARGS__, 720), -1));                                                       \
        KEEPING_ERRNO(name##_set(__VA_ARGS__, -5));                                                                    \
        IS(name##_sum(__VA_ARGS__), -5);                                                                               \
        IS(name##_sum_positive(__VA_ARGS__), 0);                                                                       \
        is_read(name##_read(__VA_ARGS__), -5, shared);                                                                 \
        CHECK(name##_read_positive(__VA_ARGS__).value >= 0, "a positive reading below zero");                          \
        KEEPING_ERRNO(IS(name##_limited_add(__VA_ARGS__, 15, 9), false));                                              \
        KEEPING_ERRNO(IS(name##_limited_add(__VA_ARGS__, 15, 10), true));                                              \
        KEEPING_ERRNO(IS(name##_reset(__VA_ARGS__), 10));                                                              \
    } while (0)

static void check_values_of_counter(void) {
    cm_counter counter = CM_COUNTER_INIT;
    KEEPING_ERRNO(cm_counter_bind(&counter));
    TRY_VALUES(false, cm_counter, &counter);
    KEEPING_ERRNO(IS(cm_counter_is_shared(&counter), false));
    KEEPING_ERRNO(IS(cm_counter_share(&counter), 0));
    KEEPING_ERRNO(IS(cm_counter_is_shared(&counter), true));
    TRY_VALUES(true, cm_counter, &counter);
    cm_counter_add(&counter, 77);
    KEEPING_ERRNO(cm_counter_bind(&counter));
    IS(cm_counter_is_shared(&counter), false);
    IS(cm_counter_sum(&counter), 77);
    KEEPING_ERRNO(cm_counter_destroy(&counter));
    static const cm_counter zero;
    CHECK(memcmp(&counter, &zero, sizeof zero) == 0, "a destroyed counter is not zero");
}

/* Each counter with the others at values of their own, which stay. */
static void try_set(bool shared) {
    cm_counters *set = &colours.set;
    for (size_t i = 0; i < COLOURS; i++) {
        cm_counters_reset(set, i);
        TRY_VALUES(shared, cm_counters, set, i);
        cm_counters_set(set, i, (int64_t)i * 1000003);
    }
    for (size_t i = 0; i < COLOURS; i++)
        IS(cm_counters_sum(set, i), i * 1000003);
}

static void check_values(void) {
    check_values_of_counter();
    KEEPING_ERRNO(cm_counters_bind(&colours.set));
    try_set(false);
    KEEPING_ERRNO(IS(cm_counters_is_shared(&colours.set), false));
    KEEPING_ERRNO(IS(cm_counters_share(&colours.set), 0));
    KEEPING_ERRNO(IS(cm_counters_is_shared(&colours.set), true));
    try_set(true);
    KEEPING_ERRNO(cm_counters_bind(&colours.set));
    IS(cm_counters_is_shared(&colours.set), false);
    IS(cm_counters_sum(&colours.set, BLUE), BLUE * 1000003);
    KEEPING_ERRNO(cm_counters_destroy(&colours.set));
    IS(cm_counters_sum(&colours.set, BLUE), 0);
}

/* No more address space than there is now; and what the library still has of it is used up. */
static void check_memory(void) {
    enum { MANY = 1000 };
    static cm_counter many[MANY];
    struct rlimit limit = {address_space_bytes(), RLIM_INFINITY};
    size_t taken = 0;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit failed with errno %d", errno);
    while (taken < MANY && cm_counter_share(&many[taken]) == 0)
        taken++;
    CHECK(taken < MANY && errno == ENOMEM, "%zu counters were upgraded, errno is %d", taken, errno);
    errno = 0;
    IS(cm_counters_share(&colours.set), -1);
    IS(errno, ENOMEM);
}

static void check_index(void) {
    const char *name = argument(0);
    cm_counters *set = &colours.set;
    size_t index = number_argument(1, COLOURS);
#define TRY(function, arguments)                                                                                       \
    if (name && strcmp(name, #function) == 0)                                                                          \
    (void)cm_counters_##function arguments
    TRY(add, (set, index, 1));
    TRY(sub, (set, index, 1));
    TRY(add_local, (set, index, 1));
    TRY(add_remote, (set, index, 1));
    TRY(read, (set, index));
    TRY(read_positive, (set, index));
    TRY(sum, (set, index));
    TRY(sum_positive, (set, index));
    TRY(compare, (set, index, 1));
    if (name && strcmp(name, "limited_add") == 0 && cm_counters_limited_add(set, index, 1, 1))
        say("it was added");
    TRY(set, (set, index, 1));
    TRY(reset, (set, index));
    say("nothing was noticed");
}

CHECKS({"layout", check_layout}, {"values", check_values}, {"memory", check_memory}, {"index", check_index})
