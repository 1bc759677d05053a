/* ---- Lazy counters ----
 *
 * A counter starts with one word for its owner and one word for all other threads. It is upgraded to a per-CPU counter
 * by cm_counter_share, or when other threads have added often enough: 1024 times, 64 times once two threads of the
 * program ran at the same time, 16 times once eight did. If there is no memory for that, the counter works on as it is.
 * When the additions of other threads then exceed 2^30 in either direction, the program ends with a message.
 *
 * Arithmetic is modulo 2^64, and values are read as signed. An addition orders no other memory access. A sum includes
 * the additions of a thread that was joined, or that was ordered before the sum in another way.
 *
 * Signal handlers  If a handler interrupts an addition of its own thread, both additions count.
 * After fork       The child's counters have the values of the fork. The thread that forked still owns its counters.
 *                  A child of vfork shares memory with its parent: if the parent has threads, the child must not add to
 *                  upgraded counters.
 */

/* Initialises a counter: value 0, no owner. */
#define CM_COUNTER_INIT {{0}}
