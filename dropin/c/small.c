/* Page faults of small processes, which count a few blocks. Not the loader's.
 *
 * process   the first blocks of a process
 * child     the blocks of a fork child, beyond a child that has none */
#include "check.h"
#include <stdbool.h>
#include <sys/resource.h>

enum { BLOCKS = 60, MOST = 20, MOST_IN_CHILD = 20 };

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "no usage");
    return usage.ru_minflt;
}

/* As a shell does: many small ones, some that grow, and half of them go. */
static void use_blocks(void) {
    static char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = 8 + i * 37 % 300;
        blocks[i] = malloc(bytes);
        CHECK(blocks[i] != NULL, "no block of %zu bytes", bytes);
        memset(blocks[i], (int)i, bytes);
        if (i % 7 == 0)
            blocks[i] = realloc(blocks[i], bytes + 300);
        if (i % 2)
            free(blocks[i - 1]);
    }
}

static void check_process(void) {
    long before = faults();
    use_blocks();
    long took = faults() - before;
    CHECK(took <= MOST, "%ld faults, at most %d", took, MOST);
}

static long faults_of_child(bool uses_blocks) {
    int ends[2];
    CHECK(pipe(ends) == 0, "no pipe: errno %d", errno);
    pid_t child = fork();
    CHECK(child >= 0, "no child: errno %d", errno);
    if (child == 0) {
        long before = faults();
        if (uses_blocks)
            use_blocks();
        long took = faults() - before;
        _exit(write(ends[1], &took, sizeof took) != sizeof took);
    }
    long took = 0;
    int status = 0;
    CHECK(read(ends[0], &took, sizeof took) == sizeof took, "the child told nothing");
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with status %d", status);
    return took;
}

static void check_child(void) {
    use_blocks();
    long without = faults_of_child(false), with = faults_of_child(true);
    CHECK(with - without <= MOST_IN_CHILD, "%ld faults and %ld, at most %d more", with, without, MOST_IN_CHILD);
}

CHECKS({"process", check_process}, {"child", check_child})
