/* Counters that cost one thread a plain addition, and many threads a line of their CPU each.
 *
 * Four threads serve requests: they count them, look things up in a cache that misses one in four times, and
 * sell a thousand tickets, of which none may be sold twice.
 *
 *     cargo xtask install --prefix ~/.local
 *     export PKG_CONFIG_PATH=~/.local/lib/pkgconfig LD_LIBRARY_PATH=~/.local/lib
 *     cc -Wall -Wextra -Werror examples/counter.c $(pkg-config --cflags --libs commensal) -o counter &&
 * ./counter */
#include <commensal.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, REQUESTS = 100000, TICKETS = 1000 };

/* One counter. It is nobody's yet: the first thread that adds owns it, until others add often enough. */
static cm_counter requests = CM_COUNTER_INIT;

/* Several with one owner, in one cache line. */
enum { HITS, MISSES, LOOKUPS };
static CM_COUNTERS(LOOKUPS) lookups = CM_COUNTERS_INIT(LOOKUPS);

/* Zeroed memory is a counter, too. */
static cm_counter sold;

static void *serve(void *sales) {
    for (int i = 0; i < REQUESTS; i++) {
        cm_counter_add(&requests, 1);
        cm_counters_add(&lookups.set, i % 4 == 0 ? MISSES : HITS, 1);
        /* Adds only while the sum stays within the limit, however many threads try. */
        if (cm_counter_limited_add(&sold, 1, TICKETS))
            ++*(long *)sales;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    long sales[THREADS] = {0}, all_sales = 0;

    /* Who knows that many will add says so. Without it the counter would find out by itself. */
    if (cm_counter_share(&requests) != 0)
        perror("requests stays one word");

    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, serve, &sales[i]) != 0)
            return EXIT_FAILURE;
    }

    /* A look at a few lines of memory, while others add: near the truth. */
    cm_reading now = cm_counter_read_positive(&requests);
    fprintf(stderr, "so far about %" PRId64 " requests, give or take %" PRIu64 "\n", now.value, now.error);

    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all_sales += sales[i];
    }

    /* A look at all CPUs: exact. */
    printf("%" PRId64 " requests\n", cm_counter_sum(&requests));
    printf("%" PRId64 " hits, %" PRId64 " misses\n", cm_counters_sum(&lookups.set, HITS),
           cm_counters_sum(&lookups.set, MISSES));
    printf("%" PRId64 " tickets sold, %ld by all threads\n", cm_counter_sum(&sold), all_sales);

    /* Static counters need not be destroyed; others give back what they have beside their own memory. */
    cm_counter_destroy(&requests);
    cm_counters_destroy(&lookups.set);
    cm_counter_destroy(&sold);
    return EXIT_SUCCESS;
}
