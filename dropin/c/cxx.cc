// The C++ interface: operators new and delete, what the standard library builds on them, and exceptions.
//
// operators      every form of new and delete, and that what they give is aligned and distinct
// sizes          what realloc, calloc and aligned requests left may be deleted with its size
// bad_alloc      a request that cannot be had throws bad_alloc, or gives nullptr in the nothrow forms
// new_handler    the new-handler is called until it gives up, throws or has made room
#include "forms.h"

#include <cstring>
#include <sys/resource.h>
#include <thread>

namespace {

volatile std::size_t too_large = static_cast<std::size_t>(PTRDIFF_MAX) + 1;

// -- operators --

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

void check_operators() {
    for (const Form &form : forms()) {
        for (std::size_t size = 0; size < 600 * KIB; size += size / 3 + 1)
            check_form(form, size);
    }
    // Memory from new may be freed by free in all common libraries, and programs rely on it.
    std::free(::operator new(100));
    ::operator delete(std::malloc(100));
}

// -- sizes --

// A class may be larger than the size asks for, but no larger than realloc leaves it.
void check_sizes() {
    std::uint64_t random = 7;
    for (int i = 0; i < 100000; i++) {
        std::size_t before = random_size(&random, 100 * KIB), bytes = random_size(&random, 100 * KIB) + 1;
        std::size_t alignment = std::size_t(16) << random_below(&random, 10);
        // A compiler may warn about what it sees come from another function.
        void *volatile moved = std::realloc(std::malloc(before), bytes);
        void *volatile zeroed = std::calloc(1, bytes);
        void *volatile aligned = ::operator new(bytes, std::align_val_t(alignment));
        CHECK(moved && zeroed && aligned, "no memory for %zu bytes", bytes);
        if (i % 2 == 0) {
            ::operator delete(moved, bytes);
            ::operator delete[](zeroed, bytes);
            ::operator delete(aligned, bytes, std::align_val_t(alignment));
        } else {
            ::operator delete[](moved, bytes);
            ::operator delete(zeroed, bytes);
            ::operator delete[](aligned, bytes, std::align_val_t(alignment));
        }
    }
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

} // namespace

CHECKS({"operators", check_operators}, {"sizes", check_sizes}, {"bad_alloc", check_bad_alloc}, {"new_handler", check_new_handler})
