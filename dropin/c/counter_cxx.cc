/* commensal.h as C++17 sees it: the types, the macros, C linkage, and counters as members, before
 * main and after it.
 *
 * objects      counters as members of objects
 * around_main  a counter that global objects use */
#include <commensal.h>

#include "check.h"

#include <type_traits>

static_assert(sizeof(cm_counter) == 32 && alignof(cm_counter) == 8, "a counter is four words");
static_assert(std::is_standard_layout<cm_counter>::value && std::is_trivial<cm_counter>::value, "as in C");
static_assert(std::is_standard_layout<cm_counters>::value && std::is_trivial<cm_counters>::value, "as in C");
static_assert(std::is_same<decltype(cm_reading::value), int64_t>::value, "signed");
static_assert(std::is_same<decltype(cm_reading::error), uint64_t>::value, "unsigned");

typedef CM_COUNTERS(1) set_of_one;
using set_of_four = CM_COUNTERS(size_t{4});
static_assert(sizeof(set_of_one) == 32 && sizeof(set_of_four) == 64, "four fit a cache line");
static_assert(std::is_standard_layout<set_of_four>::value && alignof(set_of_four) == 8, "as in C");

enum kind { READS, WRITES, KINDS };

/* What a class with counters looks like: they are not copied, and are destroyed with it. */
class file {
  public:
    file() = default;
    file(const file &) = delete;
    file &operator=(const file &) = delete;
    ~file() {
        cm_counter_destroy(&uses);
        cm_counters_destroy(&bytes.set);
    }

    int64_t use(kind of, int64_t many) {
        cm_counter_add(&uses, 1);
        cm_counters_add(&bytes.set, of, many);
        return cm_counter_sum(&uses) * cm_counters_sum(&bytes.set, of);
    }

  private:
    cm_counter uses = CM_COUNTER_INIT;
    CM_COUNTERS(KINDS) bytes = CM_COUNTERS_INIT(KINDS);
};

static void check_objects() {
    file log;
    CHECK(log.use(READS, 3) == 3 && log.use(WRITES, 5) == 10 && log.use(READS, 4) == 21, "wrong counts");
}

static cm_counter global_uses;

struct global_user {
    global_user() { cm_counter_add(&global_uses, 1); }
    ~global_user() {
        cm_counter_add(&global_uses, 1);
        if (cm_counter_sum(&global_uses) == 4)
            say("both destructors were counted");
    }
};

static global_user first, second;

static void check_around_main() {
    CHECK(cm_counter_sum(&global_uses) == 2, "constructors were not counted");
    CHECK(cm_counter_share(&global_uses) == 0, "cannot be shared");
}

CHECKS({"objects", check_objects}, {"around_main", check_around_main})
