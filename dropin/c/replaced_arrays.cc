// A program that replaces operator delete[] and nothing else: its sized form calls the program's.
//
// forms     delete[] with a size and without
#include "check.h"

#include <initializer_list>
#include <new>

#pragma GCC diagnostic ignored "-Wsized-deallocation"

namespace {

int calls;

} // namespace

void operator delete[](void *block) noexcept {
    calls++;
    std::free(block);
}

namespace {

void check_forms() {
    for (std::size_t bytes : {20, 520, 100000}) {
        calls = 0;
        ::operator delete[](::operator new[](bytes));
        ::operator delete[](::operator new[](bytes), bytes);
        CHECK(calls == 2, "the program's operator was called %d times, not twice, for %zu bytes", calls, bytes);
    }
}

} // namespace

CHECKS({"forms", check_forms})
