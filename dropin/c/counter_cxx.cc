/* commensal.h as C++17 sees it: the types, the macros, C linkage, and counters as members, in threads, before
 * main and after it.
 *
 * functions    each has the type that it should have, and is there
 * objects      counters as members of objects that come and go
 * threads      additions from everywhere: none is lost
 * around_main  a counter that global objects use */
#include <commensal.h>

#include "check.h"

#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

static_assert(sizeof(cm_counter) == 32 && alignof(cm_counter) == 8, "a counter is four words");
static_assert(std::is_standard_layout<cm_counter>::value && std::is_trivial<cm_counter>::value, "as in C");
static_assert(std::is_standard_layout<cm_counters>::value && std::is_trivial<cm_counters>::value, "as in C");
static_assert(std::is_same<decltype(cm_reading::value), int64_t>::value, "signed");
static_assert(std::is_same<decltype(cm_reading::error), uint64_t>::value, "unsigned");

typedef CM_COUNTERS(1) set_of_one;
using set_of_four = CM_COUNTERS(size_t{4});
static_assert(sizeof(set_of_one) == 32 && sizeof(set_of_four) == 64, "four fit a cache line");
static_assert(std::is_standard_layout<set_of_four>::value && alignof(set_of_four) == 8, "as in C");

/* -- functions -- */

template <typename Expected, typename Found> static void has_type(Found *function) {
    static_assert(std::is_same<Expected, Found>::value, "a function has another type");
    CHECK(function != nullptr, "a function is not there");
}

static void check_functions() {
    has_type<void(cm_counter *, int64_t)>(cm_counter_add);
    has_type<void(cm_counter *, int64_t)>(cm_counter_sub);
    has_type<void(cm_counter *, int64_t)>(cm_counter_add_local);
    has_type<void(cm_counter *, int64_t)>(cm_counter_add_remote);
    has_type<int(cm_counter *)>(cm_counter_share);
    has_type<bool(const cm_counter *)>(cm_counter_is_shared);
    has_type<void(cm_counter *)>(cm_counter_bind);
    has_type<cm_reading(const cm_counter *)>(cm_counter_read);
    has_type<cm_reading(const cm_counter *)>(cm_counter_read_positive);
    has_type<int64_t(const cm_counter *)>(cm_counter_sum);
    has_type<int64_t(const cm_counter *)>(cm_counter_sum_positive);
    has_type<int(const cm_counter *, int64_t)>(cm_counter_compare);
    has_type<bool(cm_counter *, int64_t, int64_t)>(cm_counter_limited_add);
    has_type<void(cm_counter *, int64_t)>(cm_counter_set);
    has_type<int64_t(cm_counter *)>(cm_counter_reset);
    has_type<void(cm_counter *)>(cm_counter_destroy);

    has_type<size_t(size_t)>(cm_counters_bytes);
    has_type<cm_counters *(void *, size_t)>(cm_counters_begin);
    has_type<void(cm_counters *, size_t, int64_t)>(cm_counters_add);
    has_type<void(cm_counters *, size_t, int64_t)>(cm_counters_sub);
    has_type<void(cm_counters *, size_t, int64_t)>(cm_counters_add_local);
    has_type<void(cm_counters *, size_t, int64_t)>(cm_counters_add_remote);
    has_type<int(cm_counters *)>(cm_counters_share);
    has_type<bool(const cm_counters *)>(cm_counters_is_shared);
    has_type<void(cm_counters *)>(cm_counters_bind);
    has_type<cm_reading(const cm_counters *, size_t)>(cm_counters_read);
    has_type<cm_reading(const cm_counters *, size_t)>(cm_counters_read_positive);
    has_type<int64_t(const cm_counters *, size_t)>(cm_counters_sum);
    has_type<int64_t(const cm_counters *, size_t)>(cm_counters_sum_positive);
    has_type<int(const cm_counters *, size_t, int64_t)>(cm_counters_compare);
    has_type<bool(cm_counters *, size_t, int64_t, int64_t)>(cm_counters_limited_add);
    has_type<void(cm_counters *, size_t, int64_t)>(cm_counters_set);
    has_type<int64_t(cm_counters *, size_t)>(cm_counters_reset);
    has_type<void(cm_counters *)>(cm_counters_destroy);
}

/* -- objects -- */

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

    void use(kind of, int64_t many) {
        cm_counter_add(&uses, 1);
        cm_counters_add(&bytes.set, of, many);
    }
    int64_t all_uses() const {
        return cm_counter_sum(&uses);
    }
    int64_t all_bytes(kind of) const {
        return cm_counters_sum(&bytes.set, of);
    }
    void share() {
        CHECK(cm_counter_share(&uses) == 0 && cm_counters_share(&bytes.set) == 0, "cannot be shared");
    }

  private:
    cm_counter uses = CM_COUNTER_INIT;
    CM_COUNTERS(KINDS) bytes = CM_COUNTERS_INIT(KINDS);
};

static void check_objects() {
    for (int round = 0; round < 100; round++) {
        std::vector<std::unique_ptr<file>> files;
        for (int i = 0; i < 50; i++) {
            files.push_back(std::make_unique<file>());
            files.back()->use(READS, 10);
            if (i % 2)
                files.back()->share();
            files.back()->use(WRITES, i);
        }
        for (int i = 0; i < 50; i++) {
            const file &each = *files[static_cast<size_t>(i)];
            CHECK(each.all_uses() == 2, "%lld uses", static_cast<long long>(each.all_uses()));
            CHECK(each.all_bytes(READS) == 10 && each.all_bytes(WRITES) == i, "other bytes in file %d", i);
        }
    }
}

/* -- threads -- */

static void check_threads() {
    file log;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&log] {
            for (int use = 0; use < 100000; use++)
                log.use(use % 2 ? READS : WRITES, 3);
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    CHECK(log.all_uses() == 400000, "%lld uses", static_cast<long long>(log.all_uses()));
    CHECK(log.all_bytes(READS) == 600000 && log.all_bytes(WRITES) == 600000, "bytes are lost");
}

/* -- around_main -- */

static cm_counter global_uses;

struct global_user {
    global_user() {
        cm_counter_add(&global_uses, 1);
    }
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

static const struct check checks[] = {{"functions", check_functions},
                                      {"objects", check_objects},
                                      {"threads", check_threads},
                                      {"around_main", check_around_main},
                                      {nullptr, nullptr}};

int main(int count, char **arguments) {
    return run_named(count, arguments, checks);
}
