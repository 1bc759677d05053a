/* What the programs that test commensal.h share: exact comparisons, calls that keep errno, and a static set.
 * C11. */
#ifndef COUNTER_H
#define COUNTER_H

/* First, and twice: it must need nothing before it, and mind no second time. */
#include <commensal.h>

#include <commensal.h>

#include "check.h"

#include <stdbool.h>

enum { RED, GREEN, BLUE, COLOURS };
static CM_COUNTERS(COLOURS) colours = CM_COUNTERS_INIT(COLOURS);

/* Calls that must leave errno alone. */
#define KEEPING_ERRNO(...)                                                                                   \
    do {                                                                                                     \
        errno = EXDEV;                                                                                       \
        __VA_ARGS__;                                                                                         \
        CHECK(errno == EXDEV, #__VA_ARGS__ " set errno to %d", errno);                                       \
    } while (0)

#define IS(found, expected) is(#found, __LINE__, (int64_t)(found), (int64_t)(expected))

static inline void is(const char *what, int line, int64_t found, int64_t expected) {
    CHECK(found == expected, "line %d: %s is %lld, expected %lld", line, what, (long long)found,
          (long long)expected);
}

/* What a reading says: exact before the upgrade, and near enough after it. */
static inline void is_read(cm_reading reading, int64_t expected, bool shared) {
    int64_t off = reading.value > expected ? reading.value - expected : expected - reading.value;
    CHECK((uint64_t)off <= reading.error, "read %lld give or take %llu, expected %lld",
          (long long)reading.value, (unsigned long long)reading.error, (long long)expected);
    CHECK(shared || reading.error == 0, "before the upgrade a reading is off by %llu",
          (unsigned long long)reading.error);
}

#endif
