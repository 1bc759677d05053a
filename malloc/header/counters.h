/* ---- Sets of lazy counters ----
 *
 * A set has one owner, and its counters are upgraded together. Otherwise each function does to the counter `index` what
 * the function of the same name does to a cm_counter: same errno, threads, signal handlers and time. An index that is
 * not below the length of the set ends the program with a message.
 */

/* The type of a set of `n` counters. `n` is a constant from 1 to CM_COUNTERS_MOST. It takes 16 + 12 n bytes, rounded up
 * to 8. Its member `set` is the argument for the functions. */
#define CM_COUNTERS(n)                                                                                    \
    struct {                                                                                              \
        cm_counters set;                                                                                  \
        uint64_t words[((n) * 12 + 7) / 8 * sizeof(char[(n) > 0 && (n) <= CM_COUNTERS_MOST ? 1 : -1])];   \
    }

/* Initialises a set of `n` counters: all 0, no owner. */
#define CM_COUNTERS_INIT(n) {{0, 0, (n)}, {0}}
