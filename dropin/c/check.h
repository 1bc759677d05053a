/* What all test programs here share: CHECK, repeatable random numbers, block patterns, threads, children and the
 * table of named checks.
 *
 * Nothing in this header allocates, so it also works in signal handlers, in forked children and when the
 * address space is used up. It is both C11 and C++17. A failed check prints one line on standard error
 * and ends the process with status CHECK_FAILED. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHECK_FAILED = 3, CHECK_USAGE = 2 };

/* Far more than anything here takes on a busy machine. */
enum { HANGS_AFTER_SECONDS = 300 };

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* CHECK(condition, format, ...): the message says what the values were. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__);                                                 \
    } while (0)

__attribute__((noreturn, cold, format(printf, 4, 5))) static inline void
check_failed(const char *file, int line, const char *condition, const char *format, ...) {
    const char *slash = strrchr(file, '/');
    char text[600];
    int used = snprintf(text, sizeof text - 1, "%s:%d: CHECK(%s) failed: ", slash ? slash + 1 : file, line, condition);
    if (used < 0 || (size_t)used > sizeof text - 1)
        used = 0;
    va_list values;
    va_start(values, format);
    vsnprintf(text + used, sizeof text - 1 - (size_t)used, format, values);
    va_end(values);
    size_t length = strlen(text);
    text[length++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, text, length);
    (void)ignored;
    _exit(CHECK_FAILED);
}

/* One line on standard output without stdio, which may itself allocate. */
static inline void say(const char *text) {
    char line[200];
    int length = snprintf(line, sizeof line, "%s\n", text);
    CHECK(write(STDOUT_FILENO, line, (size_t)length) == length, "standard output is not writable");
}

/* -- Random numbers: xorshift64*, seeded by the caller, so a run repeats. -- */

static inline uint64_t random_next(uint64_t *state) {
    uint64_t x = *state ? *state : 0x2545F4914F6CDD1Du;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545F4914F6CDD1Du;
}

static inline size_t random_below(uint64_t *state, size_t bound) {
    return (size_t)((random_next(state) >> 11) % bound);
}

/* As in real programs most blocks are small; one in sixteen is spread evenly over the powers of two
 * from 1 KiB to `largest`. */
static inline size_t random_size(uint64_t *state, size_t largest) {
    if (random_below(state, 16) != 0)
        return random_below(state, largest < 1024 ? largest + 1 : 1024);
    size_t doublings = 0;
    while ((size_t)1024 << doublings < largest)
        doublings++;
    size_t bound = (size_t)1024 << random_below(state, doublings + 1);
    return random_below(state, (bound < largest ? bound : largest) + 1);
}

/* -- Patterns: what a block holds is a function of its seed, so a foreign write shows. -- */

#define DENSE_BYTES (8 * KIB)
#define SPARSE_STEP (4 * KIB)

static inline uint64_t pattern_word(uint64_t seed, size_t offset) { return (seed + offset + 1) * 0x9E3779B97F4A7C15u; }

/* Up to DENSE_BYTES every byte is written; beyond that one word a page and the block's two ends. */
static inline size_t pattern_step(size_t size, size_t offset) {
    int at_an_end = offset < SPARSE_STEP || offset + 2 * SPARSE_STEP > size;
    return size <= DENSE_BYTES || at_an_end ? sizeof(uint64_t) : SPARSE_STEP;
}

static inline void fill(void *block, size_t size, uint64_t seed) {
    for (size_t offset = 0; offset < size; offset += pattern_step(size, offset)) {
        uint64_t word = pattern_word(seed, offset);
        size_t bytes = size - offset < sizeof word ? size - offset : sizeof word;
        memcpy((unsigned char *)block + offset, &word, bytes);
    }
}

/* Is the first `size` bytes of a block that was filled with `filled` bytes still as written? */
static inline void check_filled(const void *block, size_t filled, size_t size, uint64_t seed, const char *when) {
    for (size_t offset = 0; offset < size; offset += pattern_step(filled, offset)) {
        uint64_t word = pattern_word(seed, offset);
        size_t bytes = size - offset < sizeof word ? size - offset : sizeof word;
        int same = memcmp((const unsigned char *)block + offset, &word, bytes) == 0;
        CHECK(same, "block overwritten: %s: block %p of %zu bytes changed at offset %zu", when, block, filled, offset);
    }
}

/* -- The process. -- */

static inline double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void sleep_us(long microseconds) {
    struct timespec pause = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* Field `index` of /proc/self/statm in bytes: 0 is the address space, 1 what is resident. */
static inline size_t statm_bytes(int index) {
    char text[200] = {0};
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, "cannot open /proc/self/statm: errno %d", errno);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    CHECK(length > 0, "cannot read /proc/self/statm: errno %d", errno);
    char *at = text;
    size_t pages = strtoul(at, &at, 10);
    for (int i = 0; i < index; i++)
        pages = strtoul(at, &at, 10);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static inline size_t address_space_bytes(void) { return statm_bytes(0); }

static inline size_t resident_bytes(void) { return statm_bytes(1); }

/* -- Threads. -- */

static inline pthread_t thread_start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, argument);
    CHECK(error == 0, "pthread_create returned %d", error);
    return thread;
}

static inline void thread_join(pthread_t thread) {
    int error = pthread_join(thread, NULL);
    CHECK(error == 0, "pthread_join returned %d", error);
}

/* The argument of each is its number, from 1 on. */
static inline void threads_start(pthread_t *threads, size_t count, void *(*body)(void *)) {
    for (size_t i = 0; i < count; i++)
        threads[i] = thread_start(body, (void *)(i + 1));
}

static inline void threads_join(const pthread_t *threads, size_t count) {
    for (size_t i = 0; i < count; i++)
        thread_join(threads[i]);
}

/* How many this process has, the library's among them. */
static inline unsigned thread_count(void) {
    struct stat tasks;
    CHECK(stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 2, "it is not told how many threads there are");
    return (unsigned)tasks.st_nlink - 2;
}

/* Of the threads that are made from here on. */
static inline void set_stack_bytes(size_t bytes) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, bytes);
    CHECK(pthread_setattr_default_np(&attributes) == 0, "no stacks of %zu bytes", bytes);
}

/* -- Children. -- */

static unsigned patience_seconds = HANGS_AFTER_SECONDS;

/* Waits for a child, whose status is the expected one; the text says what it is a child of. A child that hangs is
 * killed. */
__attribute__((format(printf, 3, 4))) static inline void child_ends(pid_t child, int expected, const char *format,
                                                                    ...) {
    char what[100];
    va_list values;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    CHECK(child > 0, "%s failed with errno %d", what, errno);
    int status = 0;
    for (double end = seconds_now() + patience_seconds; waitpid(child, &status, WNOHANG) != child; sleep_us(200)) {
        if (seconds_now() > end) {
            kill(child, SIGKILL);
            CHECK(0, "a child of %s hangs", what);
        }
    }
    CHECK(!WIFSIGNALED(status), "a child of %s was ended by signal %d", what, WTERMSIG(status));
    CHECK(WEXITSTATUS(status) == expected, "a child of %s ended with status %d", what, WEXITSTATUS(status));
}

/* -- Named checks: `program NAME [NUMBER | WORD ...]`. -- */

struct check {
    const char *name;
    void (*run)(void);
};

static int check_argument_count;
static char **check_arguments;

/* The word after the check's name at `index`, or NULL. */
static inline const char *argument(int index) {
    return index + 2 < check_argument_count ? check_arguments[index + 2] : NULL;
}

static inline size_t number_argument(int index, size_t otherwise) {
    const char *word = argument(index);
    return word ? strtoul(word, NULL, 10) : otherwise;
}

static inline double seconds_argument(int index) {
    const char *word = argument(index);
    CHECK(word != NULL, "the check needs its seconds");
    return strtod(word, NULL);
}

/* Runs the check that the command line names; the last entry of `checks` has no name. */
static inline int run_named(int count, char **arguments, const struct check *checks) {
    check_argument_count = count;
    check_arguments = arguments;
    for (const struct check *check = checks; count > 1 && check->name; check++) {
        if (strcmp(check->name, arguments[1]) == 0) {
            check->run();
            return 0;
        }
    }
    dprintf(STDERR_FILENO, "usage: %s CHECK [ARGUMENT ...], where CHECK is one of:", arguments[0]);
    for (const struct check *check = checks; check->name; check++)
        dprintf(STDERR_FILENO, " %s", check->name);
    dprintf(STDERR_FILENO, "\n");
    return CHECK_USAGE;
}

/* CHECK_TABLE({"name", function}, ...) is the table of a program's checks, for run_named. */
#define CHECK_TABLE(...) static const struct check checks[] = {__VA_ARGS__, {NULL, NULL}}

/* CHECKS({"name", function}, ...) is a program that runs the check that its command line names. */
#define CHECKS(...)                                                                                                    \
    CHECK_TABLE(__VA_ARGS__);                                                                                          \
    int main(int count, char **arguments) { return run_named(count, arguments, checks); }

#endif
