// The C++ interface: operators new and delete, what the standard library builds on them, and exceptions.
//
// operators      every form of new and delete, and that what they give is aligned and distinct
// bad_alloc      a request that cannot be had throws bad_alloc, or gives nullptr in the nothrow forms
// new_handler    the new-handler is called until it gives up, throws or has made room
// constructors   a constructor that throws gives the object's memory back
// thread_local   destructors of thread_local objects allocate and free, in threads and in main
#include "check.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace {

volatile std::size_t too_large = static_cast<std::size_t>(PTRDIFF_MAX) + 1;

// -- operators --

struct Form {
    const char *name;
    std::size_t alignment;
    std::function<void *(std::size_t)> get;
    std::function<void(void *, std::size_t)> drop;
};

using std::align_val_t;
using std::nothrow;

std::vector<Form> forms() {
    std::vector<Form> all = {
        {"new", 16, [](auto n) { return ::operator new(n); }, [](auto p, auto) { ::operator delete(p); }},
        {"new sized", 16, [](auto n) { return ::operator new(n); }, [](auto p, auto n) { ::operator delete(p, n); }},
        {"new[]", 16, [](auto n) { return ::operator new[](n); }, [](auto p, auto) { ::operator delete[](p); }},
        {"new[] sized", 16, [](auto n) { return ::operator new[](n); },
         [](auto p, auto n) { ::operator delete[](p, n); }},
        {"new nothrow", 16, [](auto n) { return ::operator new(n, nothrow); },
         [](auto p, auto) { ::operator delete(p, nothrow); }},
        {"new[] nothrow", 16, [](auto n) { return ::operator new[](n, nothrow); },
         [](auto p, auto) { ::operator delete[](p, nothrow); }},
    };
    for (std::size_t bytes = 16; bytes <= 65536; bytes *= 4) {
        auto a = static_cast<align_val_t>(bytes);
        std::vector<Form> aligned = {
            {"new aligned", bytes, [a](auto n) { return ::operator new(n, a); },
             [a](auto p, auto) { ::operator delete(p, a); }},
            {"new aligned, sized", bytes, [a](auto n) { return ::operator new(n, a); },
             [a](auto p, auto n) { ::operator delete(p, n, a); }},
            {"new[] aligned", bytes, [a](auto n) { return ::operator new[](n, a); },
             [a](auto p, auto) { ::operator delete[](p, a); }},
            {"new[] aligned, sized", bytes, [a](auto n) { return ::operator new[](n, a); },
             [a](auto p, auto n) { ::operator delete[](p, n, a); }},
            {"new aligned, nothrow", bytes, [a](auto n) { return ::operator new(n, a, nothrow); },
             [a](auto p, auto) { ::operator delete(p, a, nothrow); }},
            {"new[] aligned, nothrow", bytes, [a](auto n) { return ::operator new[](n, a, nothrow); },
             [a](auto p, auto) { ::operator delete[](p, a, nothrow); }},
        };
        std::move(aligned.begin(), aligned.end(), std::back_inserter(all));
    }
    return all;
}

void check_form(const Form &form, std::size_t size) {
    void *blocks[10];
    for (void *&block : blocks) {
        block = form.get(size);
        CHECK(block != nullptr, "%s of %zu bytes gave nullptr", form.name, size);
        CHECK(reinterpret_cast<std::uintptr_t>(block) % form.alignment == 0, "%s of %zu bytes gave %p", form.name, size,
              block);
        fill(block, size, reinterpret_cast<std::uintptr_t>(block));
    }
    for (void *block : blocks) {
        check_filled(block, size, size, reinterpret_cast<std::uintptr_t>(block), form.name);
        form.drop(block, size);
    }
    form.drop(nullptr, size);
}

struct alignas(64) Line {
    char bytes[64];
};

struct alignas(4096) Page {
    char bytes[4096];
};

template <typename T> void check_over_aligned() {
    auto one = std::make_unique<T>();
    auto many = std::unique_ptr<T[]>(new T[7]);
    CHECK(reinterpret_cast<std::uintptr_t>(one.get()) % alignof(T) == 0, "new T gave %p", (void *)one.get());
    CHECK(reinterpret_cast<std::uintptr_t>(many.get()) % alignof(T) == 0, "new T[] gave %p", (void *)many.get());
}

void check_operators() {
    for (const Form &form : forms()) {
        for (std::size_t size = 0; size < 600 * KIB; size += size / 3 + 1)
            check_form(form, size);
    }
    check_over_aligned<Line>();
    check_over_aligned<Page>();
    // Memory from new may be freed by free in all common libraries, and programs rely on it.
    std::free(::operator new(100));
    ::operator delete(std::malloc(100));
}

// -- bad_alloc --

// A compiler may leave out a new-expression whose result it sees deleted; it can't see through this.
char *kept(char *block) {
    char *volatile hidden = block;
    return hidden;
}

template <typename Call> void check_throws(const char *name, Call call) {
    bool thrown = false;
    try {
        call();
    } catch (const std::bad_alloc &error) {
        thrown = error.what() != nullptr;
    }
    CHECK(thrown, "%s of a huge size did not throw bad_alloc", name);
}

void check_bad_alloc() {
    for (const Form &form : forms()) {
        // Closer to SIZE_MAX the aligned forms of libstdc++ 12 round the size up to 0.
        for (std::size_t size : {static_cast<std::size_t>(too_large), SIZE_MAX - MIB}) {
            if (std::strstr(form.name, "nothrow"))
                CHECK(form.get(size) == nullptr, "%s of a huge size gave memory", form.name);
            else
                check_throws(form.name, [&] { form.get(size); });
        }
    }
    check_throws("vector::resize", [] { std::vector<char>().reserve(too_large - 2); });
    check_throws("new char[]", [] { delete[] kept(new char[too_large - 1]); });
    // The exception passes threads' own handlers and leaves the allocator usable.
    std::thread([] { check_throws("new in a thread", [] { ::operator delete(::operator new(too_large)); }); }).join();
    delete[] kept(new char[100000]);
}

// -- new_handler --

int handler_calls;
rlimit unlimited;

struct OwnError : std::bad_alloc {};

void give_up_at_third_call() {
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

void throw_own_error() {
    handler_calls++;
    throw OwnError();
}

void make_room() {
    handler_calls++;
    CHECK(setrlimit(RLIMIT_AS, &unlimited) == 0, "setrlimit failed with errno %d", errno);
}

void handler_gives_up(const Form &form) {
    handler_calls = 0;
    std::set_new_handler(give_up_at_third_call);
    try {
        CHECK(form.get(too_large) == nullptr, "%s of a huge size gave memory", form.name);
        CHECK(std::strstr(form.name, "nothrow") != nullptr, "%s gave nullptr", form.name);
    } catch (const std::bad_alloc &) {
        CHECK(std::strstr(form.name, "nothrow") == nullptr, "%s threw", form.name);
    }
    CHECK(handler_calls == 3, "%s called the new-handler %d times", form.name, handler_calls);
}

void handler_throws(const Form &form) {
    handler_calls = 0;
    std::set_new_handler(throw_own_error);
    bool nothing_thrown = std::strstr(form.name, "nothrow") != nullptr, own = false;
    try {
        CHECK(form.get(too_large) == nullptr && nothing_thrown, "%s gave memory", form.name);
    } catch (const OwnError &) {
        own = true;
    }
    CHECK(own != nothing_thrown, "%s: the handler's exception %s", form.name, own ? "came out" : "was lost");
    CHECK(handler_calls == 1, "%s called the new-handler %d times", form.name, handler_calls);
    std::set_new_handler(nullptr);
}

// Address space is short until the handler lifts the limit; then the same request succeeds.
void handler_makes_room() {
    handler_calls = 0;
    CHECK(getrlimit(RLIMIT_AS, &unlimited) == 0, "getrlimit failed with errno %d", errno);
    rlimit tight = unlimited;
    tight.rlim_cur = address_space_bytes() + 4 * MIB;
    std::set_new_handler(make_room);
    CHECK(setrlimit(RLIMIT_AS, &tight) == 0, "setrlimit failed with errno %d", errno);
    char *block = new char[300 * MIB];
    CHECK(handler_calls == 1, "the new-handler was called %d times", handler_calls);
    block[300 * MIB - 1] = 1;
    delete[] block;
    std::set_new_handler(nullptr);
}

void check_new_handler() {
    for (const Form &form : forms()) {
        handler_gives_up(form);
        handler_throws(form);
    }
    handler_makes_room();
}

// -- constructors --

struct Refuses {
    char bytes[5000];
    explicit Refuses(int number) {
        bytes[0] = static_cast<char>(number);
        throw std::runtime_error("refused " + std::to_string(number) + std::string(100, '!'));
    }
};

void check_constructors() {
    std::size_t before = 0;
    for (int i = 0; i < 40000; i++) {
        try {
            new Refuses(i);
            CHECK(false, "the constructor did not throw");
        } catch (const std::runtime_error &error) {
            CHECK(std::strncmp(error.what(), "refused ", 8) == 0, "what() is %s", error.what());
        }
        if (i == 1000)
            before = resident_bytes();
    }
    std::size_t after = resident_bytes();
    CHECK(after < before + 10 * MIB, "resident memory grew from %zu to %zu", before, after);
}

// -- thread_local --

std::atomic<int> destroyed;

struct Keeper {
    std::vector<std::string> words;
    void keep(std::size_t count) {
        for (std::size_t i = 0; i < count; i++)
            words.push_back(std::string(i % 300, 'k'));
    }
    ~Keeper() {
        std::size_t total = 0;
        std::vector<std::string> copy(words);
        for (const std::string &word : copy)
            total += word.size();
        if (total > 0)
            destroyed++;
    }
};

thread_local Keeper keeper;
Keeper of_the_program;

void check_thread_local() {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 300; i++) {
        threads.emplace_back([i] { keeper.keep(i + 2); });
        if (i % 10 == 9) {
            for (std::thread &thread : threads)
                thread.join();
            threads.clear();
        }
    }
    CHECK(destroyed == 300, "%d of 300 thread_local objects were destroyed", destroyed.load());
    keeper.keep(100);
    of_the_program.keep(100);
    std::atexit([] { say(destroyed == 301 ? "main's object destroyed" : "main's object not destroyed"); });
}

} // namespace

CHECKS({"operators", check_operators}, {"bad_alloc", check_bad_alloc}, {"new_handler", check_new_handler},
       {"constructors", check_constructors}, {"thread_local", check_thread_local})
