/* commensal.hpp: owners that end what they own, also when an exception passes, and containers in groups, from which all
 * bytes come back. */
#include "check.h"
#include <commensal.hpp>
#include <atomic>
#include <malloc.h>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

using commensal::group;
using commensal::group_resource;
using commensal::group_scope;

static constexpr std::uint64_t LIMIT = 1 << 20;

/* Bytes that the group is charged, without those that magazines hold. */
static std::uint64_t charged(const group &of) {
    malloc_trim(0);
    return of.stats().charged;
}

/* Fills a container until the group is full. Returns how many elements it took. */
template <typename Add> static std::size_t fill(group &tenant, Add add) {
    std::size_t added = 0;
    const std::uint64_t refused = tenant.stats().refused;
    try {
        for (;; added++)
            add(added);
    } catch (const std::bad_alloc &) {
        CHECK(tenant.stats().refused > refused, "bad_alloc, and the group is not full");
    }
    return added;
}

static void check_containers() {
    group tenant("tenant", LIMIT);
    group_resource memory(tenant);
    std::size_t first = 0;
    for (int round = 0; round < 3; round++) {
        std::pmr::unordered_map<std::size_t, std::pmr::string> texts(&memory);
        std::size_t added = fill(tenant, [&](std::size_t number) { texts.emplace(number, std::string(100, 'x')); });
        CHECK(added > 2000 && texts.size() == added && texts.at(added / 2).size() == 100, "%zu texts", added);
        CHECK(round == 0 || added == first, "%zu texts, and %zu in the first round", added, first);
        first = added;
        texts.clear();
        texts = std::pmr::unordered_map<std::size_t, std::pmr::string>(&memory);
        std::pmr::vector<int> numbers(&memory);
        fill(tenant, [&](std::size_t number) { numbers.push_back(static_cast<int>(number)); });
        CHECK(numbers.size() >= LIMIT / 16 && numbers.back() == static_cast<int>(numbers.size()) - 1, "lost some");
    }
    CHECK(charged(tenant) == 0, "%llu bytes did not come back", (unsigned long long)charged(tenant));
}

struct alignas(256) wide {
    char bytes[256];
};

static void check_resources() {
    group one("one", LIMIT), other("other", LIMIT);
    group_resource of_one(one), same(one), of_other(other);
    commensal::heap_resource heap, second;
    CHECK(of_one == same && of_one != of_other && of_one != heap && heap != of_one && heap == second, "equality");
    CHECK(heap != *std::pmr::new_delete_resource(), "equal to another's");
    for (std::pmr::memory_resource *memory : {(std::pmr::memory_resource *)&of_one, (std::pmr::memory_resource *)&heap}) {
        std::pmr::vector<wide> wides(100, memory);
        CHECK(reinterpret_cast<std::uintptr_t>(wides.data()) % 256 == 0, "%p is not aligned", (void *)wides.data());
        void *empty = memory->allocate(0, 1);
        memory->deallocate(empty, 0, 1);
    }
    /* What moves from one group to another is copied. */
    std::pmr::vector<char> from(100000, 'x', &of_one), to(&of_other);
    to = std::move(from);
    CHECK(other.stats().charged >= 100000 && to.size() == 100000, "it stayed in the other group");
    from = std::pmr::vector<char>(&of_one), to = std::pmr::vector<char>(&of_other);
    from.shrink_to_fit();
    CHECK(charged(one) == 0 && charged(other) == 0, "%llu and %llu bytes did not come back",
          (unsigned long long)charged(one), (unsigned long long)charged(other));
    bool is_thrown = false;
    try {
        void *block = heap.allocate(SIZE_MAX / 2, 16);
        heap.deallocate(block, 1, 16);
    } catch (const std::bad_alloc &) {
        is_thrown = true;
    }
    CHECK(is_thrown, "half of all memory was there");
}

static void check_scopes() {
    group parent("parent", 2 * LIMIT);
    {
        group child("child", LIMIT, &parent);
        std::string text;
        bool is_thrown = false;
        try {
            group_scope outer(parent);
            group_scope inner(child);
            CHECK(cm_group_current() == child.get(), "it is not inside");
            text.assign(LIMIT * 2, 'x');
        } catch (const std::bad_alloc &) {
            is_thrown = true;
        }
        CHECK(is_thrown && cm_group_current() == nullptr, "it is still inside");
        {
            group_scope inside(child);
            text.assign(1000, 'x');
        }
        CHECK(child.stats().charged >= 1000 && parent.stats().charged >= 1000 && child.stats().inside == 0, "charge");
        std::string().swap(text);
        group moved(std::move(child));
        CHECK(child.get() == nullptr && parent.stats().children == 1, "two owners");
        child = std::move(moved);
        child.set_limit(0);
        CHECK(child.stats().limit == UINT64_MAX, "a limit");
    }
    CHECK(parent.stats().children == 0 && charged(parent) == 0, "the child left something");
    int error = 0;
    try {
        group unnamed("a name with blanks");
    } catch (const std::system_error &why) {
        error = why.code().value();
    }
    CHECK(error == EINVAL, "error %d", error);
}

struct thrower {
    static int alive;
    int number;
    explicit thrower(int number) : number(number) {
        if (number < 0)
            throw std::runtime_error("a negative number");
        alive++;
    }
    ~thrower() { alive--; }
};
int thrower::alive = 0;

static void check_caches() {
    commensal::object_cache<thrower> cache("throwers");
    {
        auto one = cache.make(1), other = cache.make(2);
        CHECK(one->number == 1 && other->number == 2 && thrower::alive == 2, "other objects");
        bool is_thrown = false;
        try {
            auto none = cache.make(-1);
        } catch (const std::runtime_error &) {
            is_thrown = true;
        }
        CHECK(is_thrown && cm_cache_alive(cache.get()) == 2, "%zu objects", cm_cache_alive(cache.get()));
        other = std::move(one);
        CHECK(thrower::alive == 1 && cm_cache_alive(cache.get()) == 1, "%d objects", thrower::alive);
    }
    CHECK(thrower::alive == 0 && cm_cache_alive(cache.get()) == 0, "%d objects", thrower::alive);
}


/* A grace period does not end while a section is open, and does when an exception has left it. */
static void check_sections() {
    static std::atomic<int> stage{0};
    std::thread reader([] {
        try {
            commensal::rcu_section section;
            stage = 1;
            while (stage < 2)
                std::this_thread::yield();
            throw std::runtime_error("out of the section");
        } catch (const std::runtime_error &) {
            stage = 3;
        }
    });
    while (stage < 1)
        std::this_thread::yield();
    const std::uint64_t number = cm_rcu_start();
    for (int tries = 0; tries < 1000; tries++)
        CHECK(!cm_rcu_is_over(number), "it is over while a reader reads");
    stage = 2;
    reader.join();
    cm_rcu_synchronize();
    CHECK(stage == 3 && cm_rcu_is_over(number), "it is not over");
}

static void check_early() {
    group tenant("tenant");
    cm_group_entry entry;
    CHECK(cm_group_enter(tenant.get(), &entry) == 0, "not entered");
    std::set_terminate([] { _exit(7); });
}

CHECKS({"containers", check_containers}, {"resources", check_resources}, {"scopes", check_scopes},
       {"caches", check_caches}, {"sections", check_sections}, {"early", check_early})
