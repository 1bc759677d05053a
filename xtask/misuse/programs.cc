/* Programs that misuse the heap, each in one way; xtask/src/misuse.rs runs them.
 *
 *     programs              lists the kinds: name, group, sizes, words of a message that names it, what it does
 *     programs KIND SIZE    misuses the heap in that way, with a block of that size
 *     programs sound SIZE   does what all kinds do, but the misuse: nothing may stop it
 *
 * A program that nothing stops prints "survived" and exits with 0. It exits with REFUSED if the allocator did the right
 * thing without ending it. It ends by SIGALRM if it takes too long. Compiled without optimisation and without
 * builtins: the compiler must not see what is done here. Blocks are written to before and after, as programs do. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <new>

enum { REFUSED = 42, SECONDS = 20, MIB = 1 << 20 };

/* An error has to be found within so many calls; where the allocator has only traces of it, within more. */
enum { SOON = 60, LATER = 400 };

typedef void run(size_t size);

/* Misuse of one sort: a row of the table. `words` are separated by bars. */
struct group {
    const char *name, *words;
};

struct kind {
    const char *name;
    const group *of;
    const size_t *sizes;
    const char *what;
    run *program;
};

static const size_t NO_MORE = SIZE_MAX;
/* Small, middle and large blocks. */
static const size_t BLOCKS[] = {40, 5000, 200000, NO_MORE};
/* Where the size of the block does not matter. */
static const size_t ONCE[] = {0, NO_MORE};
/* Of blocks without bytes: how many other calls there are in between, and how many bytes are written. */
static const size_t CALLS[] = {0, 20, 60, NO_MORE};
static const size_t WRITTEN[] = {1, 32, NO_MORE};

/* -- Valid use, around the misuse -- */

enum { BESIDE = 8, OLD = 0x5a, NEW = 0x41 };

static char *neighbours[2 * BESIDE];

static char *filled(size_t size) {
    char *block = (char *)malloc(size);
    memset(block, OLD, size);
    return block;
}

/* A block among others of its size. */
static char *among_others(size_t size) {
    for (int i = 0; i < BESIDE; i++)
        neighbours[i] = filled(size);
    char *block = filled(size);
    for (int i = BESIDE; i < 2 * BESIDE; i++)
        neighbours[i] = filled(size);
    return block;
}

static void free_neighbours() {
    for (char *&block : neighbours) {
        free(block);
        block = nullptr;
    }
}

/* So many calls of malloc and free, most of them for this size. A block at the address `not_this` is freed at once. */
static void go_on(size_t size, size_t calls, char *not_this = nullptr) {
    static const size_t others[] = {16, 100, 3000, 40000};
    enum { HELD = 40 };
    static char *held[HELD];
    for (size_t i = 0; i < calls; i++) {
        char *&block = held[i * 7 % HELD];
        if (block) {
            free(block);
            block = nullptr;
            continue;
        }
        size_t bytes = i % 3 == 2 ? others[i / 3 % 4] : size;
        block = (char *)malloc(bytes);
        if (block == not_this) {
            free(block);
            block = nullptr;
            i++;
        } else {
            memset(block, OLD, bytes);
        }
    }
}

/* As a program ends that has noticed nothing. */
static void free_all(char *block, size_t size) {
    free(block);
    free_neighbours();
    go_on(size, LATER);
}

/* -- What several kinds have in common -- */

static void free_off(size_t size, ptrdiff_t offset, size_t calls) {
    free(among_others(size) + offset);
    go_on(size, calls);
}

/* Frees an address close to a block, and then the block too. */
static void free_close(size_t size, char *block, char *address) {
    free(address);
    free_all(block, size);
}

static void overflow(size_t size, size_t bytes) {
    char *block = among_others(size);
    for (size_t i = 0; i < bytes; i++)
        block[size + i] = NEW;
    free_all(block, size);
}

static void underflow(size_t size, size_t bytes) {
    char *block = among_others(size);
    for (size_t i = 1; i <= bytes; i++)
        *(block - i) = NEW;
    free_all(block, size);
}

static void write_freed(size_t size, size_t offset, size_t bytes) {
    char *block = among_others(size);
    free(block);
    memset(block + offset, NEW, bytes);
    go_on(size, LATER);
}

/* Whether old data can be read, or most of it. */
static void read_freed(volatile char *block, size_t size) {
    size_t old = 0;
    for (size_t i = 0; i < size; i++)
        old += block[i] == OLD;
    if (old <= size / 2)
        _exit(REFUSED);
}

static void write_to_nothing(char *block, size_t bytes) {
    char *beside = (char *)malloc(0);
    memset(block, NEW, bytes);
    free(block);
    free(beside);
    go_on(0, LATER);
}

/* Is the request refused, and does the block that was to be moved still have its bytes? Some allocators set another
 * errno than ENOMEM, which does no harm. */
static void must_be_refused(void *got, char *block = nullptr) {
    for (size_t i = 0; block && i < BLOCKS[0]; i++)
        if (block[i] != OLD)
            return;
    if (!got)
        _exit(REFUSED);
}

static char global_bytes[MIB] __attribute__((aligned(64)));

/* -- The catalogue -- */

static const group DOUBLE_FREE = {"double free", "double free|freed twice"};
static const group UNALIGNED = {"unaligned free", "pointer into|aligned|bytes off"};
static const group INTERIOR = {"interior free", "pointer into|bytes off"};
static const group CLOSE = {"free close to a block", "pointer into|bytes off|foreign|double free|freed twice"};
static const group FOREIGN = {"foreign free", "foreign"};
static const group OVERFLOW = {"overflow", "overflow|behind its end|record overwritten"};
static const group UNDERFLOW = {"underflow", "underflow|before its beginning|record overwritten"};
static const group WRITE_FREED = {"write after free", "after it was freed|after free"};
static const group READ_FREED = {"read after free", "after it was freed|after free"};
static const group NOTHING = {"use of a zero-sized block", "overflow|behind its end|record overwritten"};
static const group DELETE = {"delete that does not fit", "size|new|delete"};
static const group EXECUTE = {"executable heap", ""};
static const group IMPOSSIBLE = {"impossible size", ""};

static const kind KINDS[] = {
    {"double-free-at-once", &DOUBLE_FREE, BLOCKS, "frees a block twice",
     [](size_t size) {
         char *block = among_others(size);
         free(block);
         free(block);
         go_on(size, SOON);
     }},
    {"double-free-later", &DOUBLE_FREE, BLOCKS, "the same, with 60 other calls between that do not get the block",
     [](size_t size) {
         char *block = among_others(size);
         free(block);
         free_neighbours();
         go_on(size, 60, block);
         free(block);
         go_on(size, SOON);
     }},
    {"double-free-reused", &DOUBLE_FREE, BLOCKS, "frees a block that was handed out again; then its new owner frees it",
     [](size_t size) {
         char *block = among_others(size), *again = nullptr;
         free(block);
         for (int tries = 0; tries < 100 && again != block; tries++)
             again = filled(size);
         free(block);
         free(again);
         go_on(size, SOON);
     }},
    {"double-free-thread", &DOUBLE_FREE, BLOCKS, "frees a block; another thread frees it again",
     [](size_t size) {
         /* The thread is there before: what a new one needs could get the block. */
         static char *block;
         static sem_t freed;
         block = among_others(size);
         auto again = [](void *) -> void * {
             sem_wait(&freed);
             free(block);
             return nullptr;
         };
         pthread_t thread;
         pthread_create(&thread, nullptr, again, nullptr);
         free(block);
         sem_post(&freed);
         pthread_join(thread, nullptr);
         go_on(size, SOON);
     }},
    {"double-free-empty", &DOUBLE_FREE, CALLS, "frees a block of zero bytes twice, with SIZE other calls between",
     [](size_t calls) {
         char *block = among_others(0);
         free(block);
         go_on(0, calls, block);
         free(block);
         go_on(0, SOON);
     }},

    {"unaligned-1", &UNALIGNED, BLOCKS, "frees p + 1", [](size_t size) { free_off(size, 1, SOON); }},
    {"unaligned-8", &UNALIGNED, BLOCKS, "frees p + 8", [](size_t size) { free_off(size, 8, SOON); }},

    {"interior-16", &INTERIOR, BLOCKS, "frees p + 16", [](size_t size) { free_off(size, 16, LATER); }},
    {"interior-middle", &INTERIOR, BLOCKS, "frees the middle of a block",
     [](size_t size) { free_off(size, (size / 2 + 15) / 16 * 16, LATER); }},

    {"close-16-before", &CLOSE, BLOCKS, "frees p - 16, later p",
     [](size_t size) {
         char *block = among_others(size);
         free_close(size, block, block - 16);
     }},
    {"close-8-before", &CLOSE, BLOCKS, "frees p - 8, later p",
     [](size_t size) {
         char *block = among_others(size);
         free_close(size, block, block - 8);
     }},
    {"close-end", &CLOSE, BLOCKS, "frees the end of a block, later the block and its neighbours",
     [](size_t size) {
         char *block = among_others(size);
         free_close(size, block, block + malloc_usable_size(block));
     }},

    {"foreign-stack", &FOREIGN, BLOCKS, "frees an array on the stack",
     [](size_t size) {
         char *array = (char *)__builtin_alloca(size + 64);
         memset(array, 0, size + 64);
         free(array + 32);
         go_on(size, SOON);
     }},
    {"foreign-global", &FOREIGN, BLOCKS, "frees a place in a global variable, SIZE bytes from its start",
     [](size_t size) {
         free(global_bytes + size / 16 * 16);
         go_on(size, SOON);
     }},
    {"foreign-mapping", &FOREIGN, BLOCKS, "frees a mapping that the program made",
     [](size_t size) {
         free(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
         go_on(size, SOON);
     }},
    {"foreign-function", &FOREIGN, ONCE, "frees the address of a function",
     [](size_t) {
         free((void *)free_neighbours);
         go_on(BLOCKS[0], SOON);
     }},
    {"foreign-integer", &FOREIGN, ONCE, "frees the address 48",
     [](size_t) {
         free((void *)48);
         go_on(BLOCKS[0], SOON);
     }},

    {"overflow-1", &OVERFLOW, BLOCKS, "writes 1 byte behind a block", [](size_t size) { overflow(size, 1); }},
    {"overflow-32", &OVERFLOW, BLOCKS, "writes 32 bytes behind a block", [](size_t size) { overflow(size, 32); }},
    {"overflow-MiB", &OVERFLOW, BLOCKS, "writes 1 MiB behind a block", [](size_t size) { overflow(size, MIB); }},
    {"underflow-1", &UNDERFLOW, BLOCKS, "writes 1 byte before a block", [](size_t size) { underflow(size, 1); }},
    {"underflow-32", &UNDERFLOW, BLOCKS, "writes 32 bytes before a block", [](size_t size) { underflow(size, 32); }},
    {"underflow-MiB", &UNDERFLOW, BLOCKS, "writes 1 MiB before a block, downwards",
     [](size_t size) { underflow(size, MIB); }},

    {"write-freed-first", &WRITE_FREED, BLOCKS, "writes the first word of a freed block",
     [](size_t size) { write_freed(size, 0, 8); }},
    {"write-freed-middle", &WRITE_FREED, BLOCKS, "writes a word in the middle of a freed block",
     [](size_t size) { write_freed(size, size / 16 * 8, 8); }},
    {"write-freed-last", &WRITE_FREED, BLOCKS, "writes the last byte of a freed block",
     [](size_t size) { write_freed(size, size - 1, 1); }},

    {"read-freed", &READ_FREED, BLOCKS, "reads a freed block, and finds most of its old bytes",
     [](size_t size) {
         char *block = among_others(size);
         free(block);
         read_freed(block, size);
     }},
    {"read-moved", &READ_FREED, BLOCKS, "reads a block where it was before realloc moved it",
     [](size_t size) {
         char *block = among_others(size), *now = block;
         /* A block that has room behind it grows where it is: then it is another block's turn. */
         for (int other = 0; now == block && other < 2 * BESIDE; other++) {
             block = now = neighbours[other];
             for (size_t bytes = 2 * size; now == block && bytes < 1 << 30; bytes *= 2)
                 now = (char *)realloc(block, bytes);
         }
         read_freed(block, size);
     }},

    {"empty-malloc", &NOTHING, WRITTEN, "writes SIZE bytes to malloc(0)",
     [](size_t bytes) { write_to_nothing((char *)malloc(0), bytes); }},
    {"empty-calloc", &NOTHING, WRITTEN, "writes SIZE bytes to calloc(0, 8)",
     [](size_t bytes) { write_to_nothing((char *)calloc(0, 8), bytes); }},
    {"empty-realloc", &NOTHING, WRITTEN, "writes SIZE bytes to realloc(NULL, 0)",
     [](size_t bytes) { write_to_nothing((char *)realloc(nullptr, 0), bytes); }},

    {"delete-of-array", &DELETE, BLOCKS, "delete of what new[] made",
     [](size_t size) {
         among_others(size);
         delete new char[size];
         go_on(size, SOON);
     }},
    {"delete-array-of-one", &DELETE, BLOCKS, "delete[] of what new made",
     [](size_t size) {
         among_others(size);
         delete[] (char *)operator new(size);
         go_on(size, SOON);
     }},
    {"delete-by-free", &DELETE, BLOCKS, "free of what new made",
     [](size_t size) {
         among_others(size);
         free(operator new(size));
         go_on(size, SOON);
     }},
    {"delete-of-malloc", &DELETE, BLOCKS, "delete of what malloc made",
     [](size_t size) {
         operator delete(among_others(size));
         go_on(size, SOON);
     }},
    {"delete-half", &DELETE, BLOCKS, "delete with half of the size",
     [](size_t size) {
         among_others(size);
         operator delete(operator new(size), size / 2);
         go_on(size, SOON);
     }},
    {"delete-double", &DELETE, BLOCKS, "delete with twice the size",
     [](size_t size) {
         among_others(size);
         operator delete(operator new(size), size * 2);
         go_on(size, SOON);
     }},
    {"free-sized-half", &DELETE, BLOCKS, "free_sized with half of the size, if the library has it",
     [](size_t size) {
         auto free_sized = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
         char *block = among_others(size);
         if (free_sized)
             free_sized(block, size / 2);
         go_on(size, SOON);
     }},

    {"execute", &EXECUTE, BLOCKS, "calls a block with the instruction ret in it",
     [](size_t size) {
         char *block = among_others(size);
         memset(block, 0xc3, size);
         ((void (*)())block)();
     }},

    {"impossible-malloc", &IMPOSSIBLE, ONCE, "malloc(SIZE_MAX)",
     [](size_t) { must_be_refused(malloc(SIZE_MAX)); }},
    {"impossible-half", &IMPOSSIBLE, ONCE, "malloc(PTRDIFF_MAX + 1)",
     [](size_t) { must_be_refused(malloc((size_t)PTRDIFF_MAX + 1)); }},
    {"impossible-calloc", &IMPOSSIBLE, ONCE, "calloc of two sizes whose product is 2, as size_t has no more bits",
     [](size_t) { must_be_refused(calloc(SIZE_MAX / 2 + 2, 2)); }},
    {"impossible-realloc", &IMPOSSIBLE, ONCE, "realloc to SIZE_MAX - 100 bytes",
     [](size_t) {
         char *block = among_others(BLOCKS[0]);
         must_be_refused(realloc(block, SIZE_MAX - 100), block);
     }},
    {"impossible-aligned", &IMPOSSIBLE, ONCE, "aligned_alloc of the last multiple of a page",
     [](size_t) { must_be_refused(aligned_alloc(4096, SIZE_MAX - 4095)); }},
    {"impossible-reallocarray", &IMPOSSIBLE, ONCE, "reallocarray of two sizes, like calloc",
     [](size_t) {
         char *block = among_others(BLOCKS[0]);
         must_be_refused(reallocarray(block, SIZE_MAX / 2 + 2, 2), block);
     }},
};

static void list() {
    for (const kind &kind : KINDS) {
        printf("%s\t%s\t", kind.name, kind.of->name);
        for (const size_t *size = kind.sizes; *size != NO_MORE; size++)
            printf(size == kind.sizes ? "%zu" : " %zu", *size);
        printf("\t%s\t%s\n", kind.of->words, kind.what);
    }
}

static run *find(const char *name) {
    if (strcmp(name, "sound") == 0)
        return [](size_t size) { free_all(among_others(size), size); };
    for (const kind &kind : KINDS)
        if (strcmp(kind.name, name) == 0)
            return kind.program;
    return nullptr;
}

int main(int count, char **arguments) {
    if (count < 3) {
        list();
        return 0;
    }
    static const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(SECONDS);
    run *program = find(arguments[1]);
    if (!program) {
        fprintf(stderr, "there is no kind %s\n", arguments[1]);
        return 2;
    }
    program(strtoul(arguments[2], nullptr, 10));
    /* Without the heap, which is broken. */
    write(STDOUT_FILENO, "survived\n", 9);
    return 0;
}
