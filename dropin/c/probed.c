/* Allocates, moves and frees blocks of known lengths, until a debugger ends it, or for a minute. Each block is full of
 * STAMP before it is freed.
 *
 * forever            in one thread
 * forever threads    in two */
#include "check.h"

enum { STAMP = 0x5a, FIRST = 1000, MOVED = 3000, BLOCKS = 100, SECONDS = 60 };

static void *work(void *unused) {
    for (time_t end = time(NULL) + SECONDS; time(NULL) < end;) {
        char *blocks[BLOCKS];
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = (char *)malloc(FIRST);
            CHECK(blocks[i] != NULL, "no block");
            memset(blocks[i], STAMP, FIRST);
        }
        for (int i = 0; i < BLOCKS; i++) {
            if (i % 2 == 0) {
                blocks[i] = (char *)realloc(blocks[i], MOVED);
                CHECK(blocks[i] != NULL, "no block");
            }
            free(blocks[i]);
        }
    }
    return unused;
}

static void forever(void) {
    if (argument(0) != NULL)
        thread_start(work, NULL);
    work(NULL);
    CHECK(0, "no debugger has ended it");
}

CHECKS({"forever", forever})
