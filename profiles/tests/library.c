// A function that is exported, and one that only a table of all symbols names.
static __attribute__((noinline)) void hidden(void (*call)(void)) {
    call(); // line 3
    __asm__ volatile("");
}

void through_library(void (*call)(void)) {
    hidden(call); // line 8
    __asm__ volatile("");
}
