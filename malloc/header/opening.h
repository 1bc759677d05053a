/* Commensal: counters, object caches, memory groups and RCU, besides the memory functions of the C library.
 *
 * Link with -lcommensal; pkg-config knows it as `commensal`. The header is for C99 and C++11 or later; the
 * macros and inline functions of RCU need GCC or Clang.
 *
 * Lazy counters (cm_counter). One thread owns a counter and adds to it by a plain addition. When other threads add too,
 * it becomes a per-CPU counter, and no addition is lost. A counter of one thread takes 32 bytes on any machine.
 *
 *     static cm_counter requests = CM_COUNTER_INIT;
 *     cm_counter_add(&requests, 1);
 *     printf("%lld requests\n", (long long)cm_counter_sum(&requests));
 *
 * Sets of counters (cm_counters). A set is several counters with one owner, which are upgraded and destroyed together.
 * Four of them fit into a cache line.
 *
 *     enum { HITS, MISSES, KINDS };
 *     static CM_COUNTERS(KINDS) lookups = CM_COUNTERS_INIT(KINDS);
 *     cm_counters_add(&lookups.set, HITS, 1);
 *
 * Object caches (cm_cache). A cache hands out objects of one size from a per-CPU magazine, without a lock. With a
 * constructor, objects stay constructed between uses: it runs once for each object, not for each use.
 *
 *     struct context { int depth; };
 *     cm_cache *contexts = cm_cache_create("context", sizeof(struct context), 0, NULL);
 *     struct context *context = cm_cache_alloc(contexts);
 *     cm_cache_free(contexts, context);
 *
 * Memory groups (cm_group). A thread enters a group, and what it allocates is charged to the group and to the group's
 * parents, up to their limits. Destroying the group frees all of it at once.
 *
 *     cm_group *request = cm_group_create("request", NULL, 1 << 20);
 *     cm_group_entry entry;
 *     if (cm_group_enter(request, &entry) == 0) {
 *         puts(strdup("charged to the request"));
 *         cm_group_leave(&entry);
 *     }
 *     cm_group_destroy(request);                              // frees the text
 *
 * RCU (cm_rcu). Readers look up objects without a lock. An updater makes an object unreachable, and frees it after a
 * grace period: when all read sections have ended that may have found it.
 *
 *     struct route { int cost; };
 *     static struct route *best_route;
 *
 *     struct route *old = best_route;                         // the only updater, or under the updaters' lock
 *     struct route *better = malloc(sizeof *better);
 *     better->cost = 3;
 *     CM_RCU_PUBLISH(best_route, better);
 *     cm_rcu_defer_free(old);                                 // or cm_rcu_synchronize(); free(old);
 *
 *     cm_rcu_section section = cm_rcu_read_lock();            // any reader
 *     struct route *route = CM_RCU_DEREFERENCE(best_route);
 *     printf("the cost is %d\n", route->cost);
 *     cm_rcu_read_unlock(section);
 *
 * Registered readers (cm_rcu_reader). A thread that reads in a loop can register a reader. Its sections then cost
 * nothing, and it reports at a checkpoint in each iteration that it has left them.
 *
 *     cm_rcu_reader *reader = cm_rcu_register(CM_RCU_COOPERATIVE);
 *     long costs = 0;
 *     for (int i = 0; i < 1000; i++) {
 *         struct route *best = CM_RCU_DEREFERENCE(best_route);
 *         costs += best->cost;
 *         cm_rcu_checkpoint(reader);                          // do not use `best` after this
 *     }
 *     cm_rcu_unregister(reader);
 *     printf("the costs are %ld\n", costs);
 *
 * Settings and statistics. Each has a name, by which it is read and, if it may change, set.
 *
 *     uint64_t bytes = 0;
 *     if (cm_get("in_use_bytes", &bytes) == 0)
 *         printf("%llu bytes in use\n", (unsigned long long)bytes);
 *
 * Lock report. The library records which of its functions waited for its own locks, and how long.
 *
 *     cm_lock_row rows[5];
 *     size_t found = cm_lock_report(rows, 5, NULL);
 *     for (size_t i = 0; i < found && i < 5; i++)
 *         printf("%s waited %llu ns\n", rows[i].caller, (unsigned long long)rows[i].total_wait_ns);
 *
 * Upkeep. The library returns idle memory to the kernel in the background, each slot in its turn, once in an interval.
 * A program can change the interval, or do upkeep in a thread of its own.
 *
 *     cm_set("upkeep.interval_ms", 250);
 *     cm_set("upkeep.shepherd", 0);                           // no background thread of the library
 *     int64_t ns = cm_upkeep_tick();
 *     printf("call it again in %lld ns\n", (long long)ns);
 *
 * Sandboxes. A program that installs a filter of system calls may enter plain mode first. There the library makes only
 * system calls that the C library's malloc and threads make too.
 *
 *     cm_sandbox_enter();                                     // then install the filter
 *
 * Unless its comment says otherwise, this holds for each function:
 *
 * errno            It stays unchanged. A function that sets it says so.
 * Threads          Any thread may call the function, while other threads call this or any other function.
 * Signal handlers  They may call the function, and may have interrupted any function of this library.
 * After fork       The child may call the function.
 * Time             It takes constant time.
 * Pointers         They lead to valid objects. NULL is allowed only where the comment says so.
 * Callbacks        A function of the program that the library calls must return: by no exception, and by no longjmp.
 *
 * A slot is the kernel's concurrency id (mm_cid) of a running thread. A process uses as many slots as threads have run
 * at the same time. Before Linux 6.3 or glibc 2.35, and with GLIBC_TUNABLES=glibc.pthread.rseq=0, the library works in
 * fallback mode: each thread has a slot of its own.
 */

#ifndef COMMENSAL_H
#define COMMENSAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Facts about functions for compilers: an argument must not be NULL, a result must not be ignored, the size of a block
 * and the functions that free it. These macros are for this header alone. */
#if defined(__cplusplus)
#define CM_NOTHROW noexcept
#elif defined(__GNUC__)
#define CM_NOTHROW __attribute__((__nothrow__))
#else
#define CM_NOTHROW
#endif
#if defined(__GNUC__)
#define CM_NONNULL __attribute__((__nonnull__))
#define CM_NONNULL_AT(place) __attribute__((__nonnull__(place)))
#define CM_CHECKED __attribute__((__warn_unused_result__))
#define CM_MALLOC __attribute__((__malloc__))
#define CM_ALLOC_SIZE(place) __attribute__((__alloc_size__(place)))
#define CM_ALLOC_ALIGN(place) __attribute__((__alloc_align__(place)))
#else
#define CM_NONNULL
#define CM_NONNULL_AT(place)
#define CM_CHECKED
#define CM_MALLOC
#define CM_ALLOC_SIZE(place)
#define CM_ALLOC_ALIGN(place)
#endif
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define CM_FREED_BY(function, place) __attribute__((__malloc__(function, place)))
#else
#define CM_FREED_BY(function, place)
#endif

#ifdef __cplusplus
extern "C" {
#endif
