/* The program that the fakes are found out with: large blocks, a millisecond of sleep between them, and a sum. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 20, BYTES = 60000 };

int main(void) {
    unsigned long sum = 0;
    for (int block = 0; block < BLOCKS; block++) {
        unsigned char *written = malloc(BYTES), *zeroed = calloc(1, BYTES);
        if (written == NULL || zeroed == NULL)
            return 1;
        memset(written, block, BYTES);
        for (int byte = 0; byte < BYTES; byte++)
            sum += written[byte] + zeroed[byte];
        free(zeroed);
        free(written);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    printf("sum %lu\n", sum);
    return 0;
}
