/* Counts and allocates with the library that CMake found. */
#include <commensal.h>
#include <stdio.h>
#include <stdlib.h>

static cm_counter counter;

int main(void) {
    void *block = malloc(100);
    cm_counter_add(&counter, block != NULL);
    free(block);
    /* ANCHOR: names */
    uint64_t bytes = 0;
    if (cm_get("in_use_bytes", &bytes) != 0 || cm_set("upkeep.interval_ms", 250) != 0)
        perror("commensal");
    /* ANCHOR_END: names */
    printf("C counted %lld\n", (long long)cm_counter_sum(&counter));
    return 0;
}
