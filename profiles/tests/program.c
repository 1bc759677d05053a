// Prints the return addresses of a stack that goes through an inlined function and a library, and what is mapped.
#include <execinfo.h>
#include <stdio.h>

void through_library(void (*call)(void));

static void capture(void) {
    void *addresses[64];
    int count = backtrace(addresses, 64);
    for (int i = 1; i < count; i++)
        printf("%p ", addresses[i]);
    printf("\n");
}

static inline __attribute__((always_inline)) void inlined(void) {
    through_library(capture); // line 16
    __asm__ volatile("");
}

__attribute__((noinline)) void outer(void) {
    inlined(); // line 21
    __asm__ volatile("");
}

int main(void) {
    outer(); // line 26
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (maps && fgets(line, sizeof line, maps))
        fputs(line, stdout);
    return 0;
}
