/* Lazy counters: one, a set of two, and one with a limit.
 *
 * Four threads serve requests. They count the requests, count the hits and misses of a cache that misses every fourth
 * lookup, and sell a thousand tickets, each of them once.
 *
 *     cargo xtask install --prefix ~/.local
 *     export PKG_CONFIG_PATH=~/.local/lib/pkgconfig LD_LIBRARY_PATH=~/.local/lib
 *     cc -Wall -Wextra -Werror examples/counter.c $(pkg-config --cflags --libs commensal) -o counter
 *     ./counter */
#include <commensal.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, REQUESTS = 100000, TICKETS = 1000 };

/* One counter. The first thread that adds becomes its owner. */
static cm_counter requests = CM_COUNTER_INIT;

/* A set: counters with one owner, in one cache line. */
enum { HITS, MISSES, LOOKUPS };
static CM_COUNTERS(LOOKUPS) lookups = CM_COUNTERS_INIT(LOOKUPS);

/* Zeroed memory is a counter too. */
static cm_counter sold;

static void *serve(void *sales) {
    for (int i = 0; i < REQUESTS; i++) {
        cm_counter_add(&requests, 1);
        cm_counters_add(&lookups.set, i % 4 == 0 ? MISSES : HITS, 1);
        /* Adds only while the sum stays within the limit, for any number of threads. */
        if (cm_counter_limited_add(&sold, 1, TICKETS))
            ++*(long *)sales;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    long sales[THREADS] = {0}, all_sales = 0;

    /* Several threads will add, so upgrade the counter now. Without this call it is upgraded after some additions. */
    if (cm_counter_share(&requests) != 0)
        perror("requests stays one word");

    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, serve, &sales[i]) != 0)
            return EXIT_FAILURE;
    }

    /* Reads three cache lines while other threads add. The result is off by at most 512 for each CPU that has added. */
    cm_reading now = cm_counter_read_positive(&requests);
    fprintf(stderr, "so far %" PRId64 " requests, off by at most %" PRIu64 "\n", now.value, now.error);

    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all_sales += sales[i];
    }

    /* Adds up what all CPUs counted: exact. */
    printf("%" PRId64 " requests\n", cm_counter_sum(&requests));
    printf("%" PRId64 " hits, %" PRId64 " misses\n", cm_counters_sum(&lookups.set, HITS),
           cm_counters_sum(&lookups.set, MISSES));
    printf("%" PRId64 " tickets sold, %ld by all threads\n", cm_counter_sum(&sold), all_sales);

    /* Frees what counters have besides their own memory. For static counters this is optional. */
    cm_counter_destroy(&requests);
    cm_counters_destroy(&lookups.set);
    cm_counter_destroy(&sold);
    return EXIT_SUCCESS;
}
