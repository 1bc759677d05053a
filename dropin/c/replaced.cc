// A program that replaces four operators: plain new and delete, and those with an alignment. All other forms have to
// call these ([new.delete.single] and [new.delete.array] in the C++ standard), so that none of its blocks is without
// its head.
//
// forms     what each form of new made, each form of delete gives back
#include "forms.h"

#include <cstdlib>
#include <cstring>

// What GCC would have a program define besides is what has to call these.
#pragma GCC diagnostic ignored "-Wsized-deallocation"

namespace {

struct Head {
    std::size_t bytes, mark;
};

enum : std::size_t { MARK = 0x5afe };
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

bool is_aligned(const Form &form) { return std::strstr(form.name, "aligned") != nullptr; }

// Forms with an alignment are for one another, and so are those without.
void check_forms() {
    const std::vector<Form> all = forms();
    const long before = live_blocks;
    for (const Form &get : all) {
        for (const Form &drop : all) {
            if (is_aligned(get) != is_aligned(drop))
                continue;
            // With its head, a block of 520 bytes is in the same size class, and one of 20 bytes in one twice as large.
            for (std::size_t bytes : {20, 40, 520})
                drop.drop(get.get(bytes), bytes);
        }
    }
    CHECK(live_blocks == before, "%ld blocks did not come back to the program's operators", live_blocks - before);
}

} // namespace

CHECKS({"forms", check_forms})
