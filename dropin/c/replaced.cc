// A program that replaces four operators: plain new and delete, and those with an alignment. All other forms have to
// call these
// ([new.delete.single] and [new.delete.array] in the C++ standard), so that none of its blocks is without its head.
//
// forms     what each form of new made, each form of delete gives back
#include "check.h"

#include <cstdlib>
#include <new>

// What GCC would have a program define besides is what has to call these.
#pragma GCC diagnostic ignored "-Wsized-deallocation"

namespace {

struct Head {
    std::size_t bytes, mark;
};

enum : std::size_t { MARK = 0x5afe };
constexpr auto ALIGNMENT = std::align_val_t(64);
long live_blocks;

void *made(void *start, std::size_t room, std::size_t bytes) {
    char *block = static_cast<char *>(start) + room;
    reinterpret_cast<Head *>(block)[-1] = {bytes, MARK};
    live_blocks++;
    return block;
}

void dropped(void *block, std::size_t room) {
    Head &head = static_cast<Head *>(block)[-1];
    CHECK(head.mark == MARK, "operator delete was given a block that operator new did not make");
    head.mark = 0;
    live_blocks--;
    std::free(static_cast<char *>(block) - room);
}

} // namespace

void *operator new(std::size_t bytes) { return made(std::malloc(bytes + sizeof(Head)), sizeof(Head), bytes); }

void *operator new(std::size_t bytes, std::align_val_t) {
    return made(aligned_alloc(64, (bytes + 127) / 64 * 64), 64, bytes);
}

void operator delete(void *block) noexcept {
    if (block)
        dropped(block, sizeof(Head));
}

void operator delete(void *block, std::align_val_t) noexcept {
    if (block)
        dropped(block, 64);
}

namespace {

void check_forms() {
    using std::nothrow;
    void *(*plain[])() = {
        [] { return ::operator new(40); },
        [] { return ::operator new[](40); },
        [] { return ::operator new(40, nothrow); },
        [] { return ::operator new[](40, nothrow); },
    };
    void (*drop_plain[])(void *) = {
        [](void *block) { ::operator delete(block); },
        [](void *block) { ::operator delete[](block); },
        [](void *block) { ::operator delete(block, std::size_t(40)); },
        [](void *block) { ::operator delete[](block, std::size_t(40)); },
        [](void *block) { ::operator delete(block, nothrow); },
        [](void *block) { ::operator delete[](block, nothrow); },
    };
    void *(*aligned[])() = {
        [] { return ::operator new(40, ALIGNMENT); },
        [] { return ::operator new[](40, ALIGNMENT); },
        [] { return ::operator new(40, ALIGNMENT, nothrow); },
        [] { return ::operator new[](40, ALIGNMENT, nothrow); },
    };
    void (*drop_aligned[])(void *) = {
        [](void *block) { ::operator delete(block, ALIGNMENT); },
        [](void *block) { ::operator delete[](block, ALIGNMENT); },
        [](void *block) { ::operator delete(block, std::size_t(40), ALIGNMENT); },
        [](void *block) { ::operator delete[](block, std::size_t(40), ALIGNMENT); },
        [](void *block) { ::operator delete(block, ALIGNMENT, nothrow); },
        [](void *block) { ::operator delete[](block, ALIGNMENT, nothrow); },
    };
    for (auto get : plain)
        for (auto drop : drop_plain)
            drop(get());
    for (auto get : aligned)
        for (auto drop : drop_aligned)
            drop(get());
    CHECK(live_blocks == 0, "%ld blocks did not come back to the program's operators", live_blocks);
}

} // namespace

CHECKS({"forms", check_forms})
