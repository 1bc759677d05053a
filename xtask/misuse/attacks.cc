/* Attacks on programs with errors in their use of the heap; xtask/src/misuse.rs runs them.
 *
 *     attacks              lists them: name, group, sizes, words, what the attacker does
 *     attacks NAME SIZE    tries once, with blocks of that size
 *     attacks sound SIZE   does what all do, without the error
 *
 * The attacker knows the program and the allocator, may make it allocate and free, and gets the error once. Where the
 * attack needs an address of the heap, he has learned it. A program in which he reaches his aim prints "owned", and
 * exits with OWNED; one in which he does not exits with 0. The allocator stops the attack if it ends the program
 * before the aim is used. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>

enum { OWNED = 43, SECONDS = 2, CHOSEN = 0x41, TRIES = 200 };

typedef bool attack(size_t size);

struct kind {
    const char *name;
    const size_t *sizes;
    const char *what;
    attack *program;
};

static const size_t NO_MORE = SIZE_MAX;
static const size_t BLOCKS[] = {40, 1000, 5000, NO_MORE};
static const size_t SMALL[] = {40, 200, NO_MORE};

static char *filled(size_t size, int byte = 0) {
    char *block = (char *)malloc(size);
    memset(block, byte, size);
    return block;
}

/* A heap in use: blocks of this size, some of which were freed. */
static void live_for_a_while(size_t size) {
    static char *blocks[TRIES];
    for (char *&block : blocks)
        block = filled(size);
    for (int i = 0; i < TRIES; i += 3)
        free(blocks[i]);
}

/* The same, and then so many blocks that no old hole is left: what comes next lies in fresh memory. */
static void prepare(size_t size) {
    live_for_a_while(size);
    for (int i = 0; i < TRIES; i++)
        filled(size);
}

/* An object in which one byte decides. */
struct victim {
    char *block;
    bool is_owned() const { return *block == CHOSEN; }
};

/* Writes so many bytes behind the end of a block. The program frees the block, as it does not know, and goes on. */
static void overflow(char *block, size_t size, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        block[size + i] = CHOSEN;
    free(block);
}

static bool overlap(char *one, size_t size, char *other, size_t other_size) {
    return one < other + other_size && other < one + size;
}

/* Whether two of these blocks share memory. */
static bool any_overlap(char **blocks, int count, size_t size) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (overlap(blocks[i], size, blocks[j], size))
                return true;
    return false;
}

static bool owns_two_alike(size_t size) {
    static char *blocks[TRIES];
    for (char *&block : blocks)
        block = (char *)malloc(size);
    return any_overlap(blocks, TRIES, size);
}

static bool next_block(size_t size) {
    prepare(size);
    char *block = filled(size);
    victim next = {filled(size)};
    overflow(block, size, size);
    return next.is_owned();
}

/* The attacker makes many objects of the kind, and any will do. */
static bool any_block(size_t size) {
    prepare(size);
    static victim victims[TRIES];
    char *block = nullptr;
    for (int i = 0; i < TRIES; i++) {
        victims[i] = {filled(size)};
        if (i == TRIES / 2)
            block = filled(size);
    }
    overflow(block, size, size);
    for (victim &one : victims)
        if (one.is_owned())
            return true;
    return false;
}

static bool reused_at_once(size_t size) {
    live_for_a_while(size);
    victim freed = {filled(size)};
    free(freed.block);
    filled(size, CHOSEN);
    return freed.is_owned();
}

static bool reused_later(size_t size) {
    live_for_a_while(size);
    victim freed = {filled(size)};
    free(freed.block);
    for (int i = 0; i < TRIES; i++)
        filled(size, CHOSEN);
    return freed.is_owned();
}

static char target[16384] __attribute__((aligned(64)));

/* Writes an address into freed memory, where allocators keep links. */
static bool link_in(size_t size, bool is_mangled) {
    live_for_a_while(size);
    char *blocks[4];
    for (char *&block : blocks)
        block = filled(size);
    for (char *block : blocks)
        free(block);
    uintptr_t last = (uintptr_t)blocks[3], address = (uintptr_t)(target + sizeof target / 2);
    *(uintptr_t *)last = is_mangled ? last >> 12 ^ address : address;
    for (int i = 0; i < TRIES; i++) {
        char *block = (char *)malloc(size);
        if (block >= target && block < target + sizeof target)
            return true;
    }
    return false;
}

static bool link(size_t size) { return link_in(size, false); }

/* As glibc hides its links. */
static bool mangled_link(size_t size) { return link_in(size, true); }

static bool twice_in_a_row(size_t size) {
    live_for_a_while(size);
    char *block = filled(size);
    free(block);
    free(block);
    return owns_two_alike(size);
}

/* Eight blocks fill what some allocators look through, and another one comes between. */
static bool twice_with_others(size_t size) {
    live_for_a_while(size);
    char *others[8], *block = filled(size), *between = filled(size);
    for (char *&other : others)
        other = filled(size);
    for (char *other : others)
        free(other);
    free(block);
    free(between);
    free(block);
    return owns_two_alike(size);
}

/* Changes what a record in front of the next block would say of its size. */
static bool header(size_t size) {
    prepare(size);
    char *blocks[3];
    for (char *&block : blocks)
        block = filled(size);
    char *first = blocks[0], *second = blocks[1];
    size_t room = (size + 8 + 15) & ~(size_t)15, longer = 2 * room | 1;
    memcpy(first + room - 8, &longer, sizeof longer);
    free(second);
    char *block = filled(2 * room - 16);
    return overlap(block, 2 * room - 16, blocks[1], size) && overlap(block, 2 * room - 16, blocks[2], size);
}

/* The program believes that a block is longer, and says so when it frees it. */
static bool wrong_size(size_t size) {
    prepare(size);
    char *block = (char *)operator new(size), *next = (char *)operator new(size);
    memset(next, 0, size);
    operator delete(block, 4 * size);
    for (int i = 0; i < TRIES; i++)
        if (overlap((char *)operator new(4 * size), 4 * size, next, size))
            return true;
    return false;
}

/* Frees an address within a block where the attacker wrote what a record would say. */
static bool inside(size_t size) {
    live_for_a_while(size);
    char *block = filled(size);
    size_t says = size - 16;
    size_t record = (says & ~(size_t)15) | 1;
    memcpy(block + 8, &record, sizeof record);
    free(block + 16);
    for (int i = 0; i < TRIES; i++)
        if (overlap((char *)malloc(says - 16), says - 16, block, size))
            return true;
    return false;
}

static bool sound(size_t size) {
    live_for_a_while(size);
    char *block = filled(size);
    *(volatile char *)block = CHOSEN;
    free(block);
    return false;
}

static const kind KINDS[] = {
    {"overflow-next", BLOCKS, "overflows into the block that the program allocated next", next_block},
    {"overflow-any", BLOCKS, "overflows into any of 200 blocks", any_block},
    {"reuse-at-once", BLOCKS, "gets a freed block by one allocation, while the program still uses it", reused_at_once},
    {"reuse-later", BLOCKS, "the same by 200 allocations", reused_later},
    {"link", BLOCKS, "writes a link into a freed block, so that malloc returns a chosen address", link},
    {"link-mangled", BLOCKS, "the same as glibc hides its links", mangled_link},
    {"double-free", BLOCKS, "frees a block twice, so that it has two owners", twice_in_a_row},
    {"double-free-later", BLOCKS, "the same with other frees before and between", twice_with_others},
    {"header", SMALL, "changes the size in a record before a block, so that a longer one covers its neighbour", header},
    {"wrong-size", BLOCKS, "deletes with a size four times too large, so that a longer block covers its neighbour",
     wrong_size},
    {"interior", SMALL, "frees an address inside a block, after a record of the attacker's own", inside},
};

int main(int count, char **arguments) {
    if (count == 1) {
        for (const kind &kind : KINDS) {
            printf("%s\t%s\t", kind.name, kind.name);
            for (const size_t *size = kind.sizes; *size != NO_MORE; size++)
                printf("%zu ", *size);
            printf("\t\t%s\n", kind.what);
        }
        return 0;
    }
    if (count != 3)
        return 2;
    alarm(SECONDS);
    size_t size = strtoul(arguments[2], nullptr, 10);
    attack *program = strcmp(arguments[1], "sound") == 0 ? sound : nullptr;
    for (const kind &kind : KINDS)
        if (strcmp(arguments[1], kind.name) == 0)
            program = kind.program;
    if (!program)
        return 2;
    if (!program(size))
        return 0;
    puts("owned");
    return OWNED;
}
