/* Counts and allocates with the library that CMake found. */
#include <commensal.h>
#include <stdio.h>
#include <stdlib.h>

static cm_counter counter;

int main(void) {
    void *block = malloc(100);
    cm_counter_add(&counter, block != NULL);
    free(block);
    printf("C counted %lld\n", (long long)cm_counter_sum(&counter));
    return 0;
}
