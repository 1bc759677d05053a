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

/* ---- Version ---- */

/* The version of this header. */
#define CM_VERSION_MAJOR 0
#define CM_VERSION_MINOR 1
#define CM_VERSION_PATCH 0

/* The same as one number, which is larger for a later version: 1002003 is 1.2.3. */
#define CM_VERSION (CM_VERSION_MAJOR * 1000000 + CM_VERSION_MINOR * 1000 + CM_VERSION_PATCH)

/// Returns CM_VERSION of the library that runs, which may be another than that of the header that the program was
/// compiled with.
uint32_t cm_version(void) CM_NOTHROW;

/* ---- Settings and statistics by name ---- */

/// Bytes of a name, with the zero byte at its end.
#define CM_NAME_BYTES 48

/// A setting or a statistic.
typedef struct cm_name {
    /// The name. Ends with a zero byte.
    char name[CM_NAME_BYTES];
    /// Whether it is a statistic. Otherwise it is a setting.
    bool is_statistic;
    /// Whether cm_set sets it.
    bool can_be_set;
} cm_name;

/// Reads a setting or a statistic into `value`. If the values of a setting are words, the value is the word's position
/// in `commensal conf`, from 0; of words that are joined by '+', each is a bit.
///
/// Returns 0, or -1 with `value` unchanged.
///
/// errno: ENOENT if there is no such name; EINVAL if it is a text, for cm_get_text; ENODATA if it has no value, because
/// it was not set and there is no default. Time: constant for a setting. For a statistic as long as malloc_stats, because
/// all are read: proportional to the memory and to the numbers of slots and caches.
int cm_get(const char *name,
           uint64_t *value) CM_NOTHROW CM_NONNULL CM_CHECKED;

/// Reads a setting or a statistic as a text: a setting as COMMENSAL_CONF has it, or the default in the words of
/// `commensal conf`; a statistic in decimal digits. Writes at most `capacity` bytes, of which the last is zero. `text`
/// may be NULL if `capacity` is 0.
///
/// Returns the length of the text, without the zero byte; from `capacity` on, the text was cut. Or -1, with nothing
/// written.
///
/// errno: ENOENT if there is no such name. Time: as for cm_get.
int cm_get_text(const char *name, char *text, size_t capacity) CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED;

/// Sets a setting that may change while the program runs, such as cm_set("upkeep.interval_ms", 250). `commensal conf`
/// prints names, units, ranges and when each may be set. For words, `value` is the word's position: 0 is "off" and 1 is
/// "on". For "rcu.policy" call cm_rcu_set_policy, for "limit" and "limit.soft" cm_limit_set.
///
/// Returns 0, or -1 with the setting unchanged.
///
/// errno: ENOENT if there is no such name; ERANGE if `value` is out of its range; EPERM if only COMMENSAL_CONF can set
/// it; EACCES if it is a statistic.
int cm_set(const char *name, uint64_t value) CM_NOTHROW CM_NONNULL;

/// Describes the name of this number in `name`: first all settings, then all statistics of the process. In
/// "cache.NAME.debug", NAME stands for the name of an object cache; cm_get then reads its value for caches that are
/// created now. Numbers stay the same while the program runs, and are others in another version of the library.
///
/// Returns 0, or -1 with `name` unchanged.
///
/// errno: ENOENT if there are not so many names.
int cm_name_at(size_t number, struct cm_name *name) CM_NOTHROW CM_NONNULL CM_CHECKED;

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

/// One lazy counter. Zeroed memory is a counter of value 0 without an owner. Do not copy or move it, and do not put it
/// into memory that processes share. Its members are private.
typedef struct cm_counter {
    uint64_t _words[4];
} cm_counter;

/// An approximate value.
typedef struct cm_reading {
    /// The value read.
    int64_t value;
    /// The largest difference from the true value, in either direction.
    uint64_t error;
} cm_reading;

/// Adds `amount` to the counter. The first thread that adds becomes the owner and adds by a plain addition. Other
/// threads add atomically. After the upgrade each thread adds to a line of its CPU.
void cm_counter_add(struct cm_counter *counter, int64_t amount) CM_NOTHROW CM_NONNULL;

/// Subtracts `amount` from the counter. Otherwise like cm_counter_add.
void cm_counter_sub(struct cm_counter *counter, int64_t amount) CM_NOTHROW CM_NONNULL;

/// Adds `amount` like cm_counter_add, but skips the owner check. A call from another thread may lose additions.
///
/// Threads, Signal handlers, After fork: only the owner, or any thread after the upgrade.
void cm_counter_add_local(struct cm_counter *counter, int64_t amount) CM_NOTHROW CM_NONNULL;

/// Adds `amount` like cm_counter_add, for a thread that is probably not the owner. It skips the owner check, and does
/// not make the thread the owner. The owner may call it too, but pays for an atomic operation.
void cm_counter_add_remote(struct cm_counter *counter, int64_t amount) CM_NOTHROW CM_NONNULL;

/// Upgrades the counter now, because several threads will add. Takes about a microsecond, and nothing if the counter is
/// upgraded already.
///
/// Returns 0, or -1 with the counter unchanged. Then later additions of other threads try again.
///
/// errno: ENOMEM if there is no memory.
int cm_counter_share(struct cm_counter *counter) CM_NOTHROW CM_NONNULL;

/// Returns whether the counter is upgraded.
bool cm_counter_is_shared(const struct cm_counter *counter) CM_NOTHROW CM_NONNULL;

/// Makes the calling thread the owner, of a new counter or of one that was handed over. An upgraded counter gives its
/// memory back and is lazy again. The value stays.
///
/// Time: that of cm_counter_sum. Threads, Signal handlers: while no other code uses the counter. After fork: yes, but
/// if another thread forks during the call, the child's counter has any value.
void cm_counter_bind(struct cm_counter *counter) CM_NOTHROW CM_NONNULL;

/// Returns the sum of all additions, and how far it may be off: 0 before the upgrade, and after it at most 512 for each
/// slot, or 0.1 % of the sum, if that is more. Additions at the same time may be included.
///
/// Time: constant, three cache lines on any number of CPUs. In fallback mode, while a limited addition collects
/// what slots hold, and after the sum fell a lot, the result is exact and takes as long as cm_counter_sum.
struct cm_reading cm_counter_read(const struct cm_counter *counter) CM_NOTHROW CM_NONNULL;

/// Returns cm_counter_read, with values below 0 replaced by 0.
struct cm_reading cm_counter_read_positive(const struct cm_counter *counter) CM_NOTHROW CM_NONNULL;

/// Returns the exact sum of all additions. Additions at the same time may be included.
///
/// Time: proportional to the number of slots that have added.
int64_t cm_counter_sum(const struct cm_counter *counter) CM_NOTHROW CM_NONNULL;

/// Returns cm_counter_sum, with values below 0 replaced by 0.
int64_t cm_counter_sum_positive(const struct cm_counter *counter) CM_NOTHROW CM_NONNULL;

/// Compares the counter with `with`. Returns -1 if it is less, 0 if it is equal, and 1 if it is greater.
///
/// Time: that of cm_counter_read if its result decides, else that of cm_counter_sum.
int cm_counter_compare(const struct cm_counter *counter, int64_t with) CM_NOTHROW CM_NONNULL;

/// Adds `amount` if the counter stays at or below `limit`, and returns whether it did. Always adds an amount that is
/// not positive.
///
/// For any number of threads, limited additions with one limit never bring the counter above it, and none fails while
/// there is room. cm_counter_add ignores limits: while it has the counter above this limit, limited additions at the
/// same time may use room that it made. So does a limited addition with a larger limit. An owner that adds 2^28 or more
/// within limits, and subtracts it again, causes an upgrade.
///
/// It may return false too early, by up to 1024 for each slot,
///
/// - in a signal handler that interrupts another limited addition;
/// - where the kernel refuses membarrier, if there were unlimited additions before the first limited one;
/// - if each of 64 attempts to collect what slots hold meets a thread in the middle of an addition.
///
/// It also returns false if an upgrade is due and there is no memory.
///
/// Time: constant, but proportional to the number of slots on the way to the limit, when it collects what slots hold.
bool cm_counter_limited_add(struct cm_counter *counter, int64_t amount, int64_t limit) CM_NOTHROW CM_NONNULL CM_CHECKED;

/// Sets the counter to `value`, by adding the difference from cm_counter_sum. Additions at the same time are kept. If
/// several threads set at the same time, each adds its difference.
///
/// Time: that of cm_counter_sum.
void cm_counter_set(struct cm_counter *counter, int64_t value) CM_NOTHROW CM_NONNULL;

/// Subtracts cm_counter_sum from the counter and returns it. Additions at the same time are kept for the next call, so
/// none is lost between two calls.
///
/// Time: that of cm_counter_sum. Threads, Signal handlers: one call at a time.
int64_t cm_counter_reset(struct cm_counter *counter) CM_NOTHROW CM_NONNULL;

/// Frees the memory that the counter has besides its 32 bytes, and zeroes these: it is a new counter.
///
/// Time: that of cm_counter_sum. Threads, Signal handlers: while no other code uses the counter.
void cm_counter_destroy(struct cm_counter *counter) CM_NOTHROW CM_NONNULL;

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

/// The largest number of counters in a set.
#define CM_COUNTERS_MOST 260

/// The beginning of a set of lazy counters; the words of its counters follow. See CM_COUNTERS. Do not copy or move a
/// set, and do not put it into memory that processes share. Its members are private.
typedef struct cm_counters {
    uint64_t _state;
    uint32_t _additions;
    uint32_t _length;
} cm_counters;

/// Returns the bytes of a set of `n` counters, for cm_counters_begin: 16 + 12 n, rounded up to 8. Returns 0 on error.
///
/// errno: EINVAL if `n` is 0 or above CM_COUNTERS_MOST.
size_t cm_counters_bytes(size_t n) CM_NOTHROW CM_CHECKED;

/// Makes a set of `n` counters, all 0 and without an owner, in the memory at `place`: cm_counters_bytes(n) bytes,
/// aligned to 8, with any contents.
///
/// Returns the set, which begins at `place`, or NULL with the memory unchanged.
///
/// errno: EINVAL if `n` is 0 or above CM_COUNTERS_MOST. Time: proportional to `n`. Threads, Signal handlers: while no
/// other code uses the memory.
struct cm_counters *cm_counters_begin(void *place, size_t n) CM_NOTHROW CM_NONNULL CM_CHECKED;

/// Adds `amount` to a counter.
void cm_counters_add(struct cm_counters *set, size_t index, int64_t amount) CM_NOTHROW CM_NONNULL;

/// Subtracts `amount` from a counter.
void cm_counters_sub(struct cm_counters *set, size_t index, int64_t amount) CM_NOTHROW CM_NONNULL;

/// Adds `amount` to a counter without the owner check.
void cm_counters_add_local(struct cm_counters *set, size_t index, int64_t amount) CM_NOTHROW CM_NONNULL;

/// Adds `amount` to a counter, from a thread that is probably not the owner.
void cm_counters_add_remote(struct cm_counters *set, size_t index, int64_t amount) CM_NOTHROW CM_NONNULL;

/// Upgrades all counters of the set now. Returns 0, or -1 with the set unchanged.
int cm_counters_share(struct cm_counters *set) CM_NOTHROW CM_NONNULL;

/// Returns whether the set is upgraded.
bool cm_counters_is_shared(const struct cm_counters *set) CM_NOTHROW CM_NONNULL;

/// Makes the calling thread the owner of the set.
void cm_counters_bind(struct cm_counters *set) CM_NOTHROW CM_NONNULL;

/// Returns the approximate sum of a counter.
cm_reading cm_counters_read(const struct cm_counters *set, size_t index) CM_NOTHROW CM_NONNULL;

/// Returns cm_counters_read, with values below 0 replaced by 0.
cm_reading cm_counters_read_positive(const struct cm_counters *set, size_t index) CM_NOTHROW CM_NONNULL;

/// Returns the exact sum of a counter.
int64_t cm_counters_sum(const struct cm_counters *set, size_t index) CM_NOTHROW CM_NONNULL;

/// Returns cm_counters_sum, with values below 0 replaced by 0.
int64_t cm_counters_sum_positive(const struct cm_counters *set, size_t index) CM_NOTHROW CM_NONNULL;

/// Returns -1, 0 or 1 if a counter is less than `value`, equal, or greater.
int cm_counters_compare(const struct cm_counters *set, size_t index, int64_t value) CM_NOTHROW CM_NONNULL;

/// Adds `amount` to a counter if it stays at or below `limit`, and returns whether it did.
bool cm_counters_limited_add(struct cm_counters *set,
                             size_t index,
                             int64_t amount,
                             int64_t limit) CM_NOTHROW CM_NONNULL CM_CHECKED;

/// Sets a counter to `value`.
void cm_counters_set(struct cm_counters *set, size_t index, int64_t value) CM_NOTHROW CM_NONNULL;

/// Subtracts the sum of a counter from it and returns it.
int64_t cm_counters_reset(struct cm_counters *set, size_t index) CM_NOTHROW CM_NONNULL;

/// Frees the memory that the set has besides its own bytes, and makes it a new set of the same length.
void cm_counters_destroy(struct cm_counters *set) CM_NOTHROW CM_NONNULL;

/* ---- Object caches ---- */

/* Declared early, because it frees what another function returns. (cm_cache_destroy is not declared so: it may refuse.) */
struct cm_cache;
void cm_cache_free(struct cm_cache *cache, void *object) CM_NOTHROW CM_NONNULL_AT(1);

/// A cache of objects of one size. See cm_cache_create.
typedef struct cm_cache cm_cache;

/// Constructs an object in raw memory, or destroys one. It may allocate and free, by malloc and from other caches. It
/// must not create or destroy caches, and must return.
typedef void (*cm_cache_hook)(void *object, void *argument);

/// Options for a new cache. Zeroes are the defaults.
typedef struct cm_cache_options {
    /// Constructs each object once, when its memory is first carved. Objects stay constructed between uses. NULL: none.
    cm_cache_hook constructor;
    /// Destroys each constructed object once, before its memory goes back. NULL: none. Any thread calls it, with all
    /// signals blocked if it is the library's background thread. So it must not take a lock that a thread may hold
    /// while it allocates, shrinks, tunes, trims or destroys.
    cm_cache_hook destructor;
    /// The second argument of both.
    void *argument;
    /// The largest number of objects that a slot keeps, as for cm_cache_tune. 0: as many as suit their size and use.
    size_t limit;
    /// The number of objects that move at once, as for cm_cache_tune. Not 0 if `limit` is not.
    size_t batch;
    /// Whether readers in read sections may look at freed objects. A freed object may be used again at once, but its
    /// memory stays a constructed object of this cache until all open sections have ended. So a reader that has found
    /// an object locks it, or counts a reference, in a field that the constructor made. Then it checks that the object
    /// is still the one that it looked for. See examples/rcu_typesafe.c.
    ///
    /// A background thread returns that memory. It starts when the cache is created in a program with a second thread,
    /// else when an object is freed. So if signal handlers free objects, create the cache when the program has a second
    /// thread, and not in a child that a signal handler forked, before that handler has returned.
    bool typesafe_by_rcu;
} cm_cache_options;

/// Creates a cache of objects of `size` bytes (1 to 131072), aligned to `alignment` (a power of two up to 65536; 0: as
/// malloc aligns). Reports show the name: letters, digits, '-', '_', '.' and '/', cut after 31. `options` may be NULL.
///
/// Returns the cache, or NULL. Takes a microsecond or two, and interrupts no other CPU.
///
/// errno: ENOMEM if there is no memory; EINVAL if an argument is out of its range. Signal handlers: yes, but ENOMEM is
/// more likely there; not with `typesafe_by_rcu`.
struct cm_cache *cm_cache_create(const char *name,
                                 size_t size,
                                 size_t alignment,
                                 const struct cm_cache_options *options) CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED;

/// Destroys a cache without live objects, and returns its memory at once. Interrupts no other CPU. For a typesafe cache
/// it waits for a grace period: in a read section, or with a registered reader online, it ends the program with a
/// message.
///
/// Returns 0, or -1 with the cache unchanged.
///
/// errno: EBUSY if objects are alive (see cm_cache_alive). Time: proportional to the cache's memory. Threads: while no
/// other thread uses the cache. Signal handlers: no.
int cm_cache_destroy(struct cm_cache *cache) CM_NOTHROW CM_NONNULL;

/// Allocates an object: as its last user left it, or as the constructor made it, or with any contents.
///
/// Returns the object, or NULL.
///
/// errno: ENOMEM if there is no memory.
void *cm_cache_alloc(struct cm_cache *cache)
    CM_NOTHROW CM_NONNULL CM_CHECKED CM_FREED_BY(cm_cache_free, 2) CM_FREED_BY(__builtin_free, 1);

/// Frees an object of this cache; it must be constructed if the cache has a constructor. NULL is ignored. free() frees
/// objects too, but takes longer.
void cm_cache_free(struct cm_cache *cache, void *object) CM_NOTHROW CM_NONNULL_AT(1);

/// Allocates `count` objects into `objects`.
///
/// Returns how many it allocated: fewer than `count` if there is no memory for more. The other places stay unchanged.
///
/// errno: ENOMEM if there are fewer. Time: proportional to `count`.
size_t cm_cache_alloc_bulk(struct cm_cache *cache, void **objects, size_t count) CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED;

/// Frees the `count` objects in `objects`.
///
/// Time: proportional to `count`.
void cm_cache_free_bulk(struct cm_cache *cache, void *const *objects, size_t count) CM_NOTHROW CM_NONNULL_AT(1);

/// Fills a reserve up to `count` objects. An allocation that would fail takes an object from it, so the next `count`
/// allocations, on any thread, cannot fail.
///
/// Returns 0, or -1 with the reserve as far as it was filled.
///
/// errno: ENOMEM if there is no memory. Time: proportional to `count`. Signal handlers: yes, but ENOMEM is more likely
/// there.
int cm_cache_prefill(struct cm_cache *cache, size_t count) CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED;

/// Returns the cache's unused memory, except its reserve. Interrupts other CPUs that hold some.
///
/// Time: proportional to the number of slots and to the memory.
void cm_cache_shrink(struct cm_cache *cache) CM_NOTHROW CM_NONNULL;

/// Sets how many objects each slot keeps: at most `limit`, which move in batches of `batch` (1 to 125). The limit is at
/// least one batch, and at most 256 of them. The cache may be in use. Replaces magazines of slots, and interrupts other
/// CPUs that hold some.
///
/// Returns 0, or -1. After EINVAL nothing has changed. After EAGAIN magazines in use keep their size until the library
/// replaces them.
///
/// errno: EINVAL if a number is out of its range; EAGAIN if the kernel refuses membarrier, or in a signal handler that
/// interrupted such work. Time: proportional to the number of slots.
int cm_cache_tune(struct cm_cache *cache, size_t limit, size_t batch) CM_NOTHROW CM_NONNULL;

/// Returns the number of live objects: exact if no thread allocates or frees meanwhile.
///
/// Time: proportional to the number of slots.
size_t cm_cache_alive(struct cm_cache *cache) CM_NOTHROW CM_NONNULL;

/* ---- Memory groups ---- */

/// Memory that is charged, limited and freed together. See cm_group_create.
typedef struct cm_group cm_group;

/// A thread's stay in a group. The library uses it, where it is, from cm_group_enter until cm_group_leave. Usually it
/// is a local variable.
typedef struct cm_group_entry {
    /// Private.
    void *opaque[2];
} cm_group_entry;

/// Statistics of a group.
typedef struct cm_group_stats {
    /// Bytes charged: blocks in use, of the group and its children, and what magazines of slots hold for them.
    uint64_t charged;
    /// The most bytes charged at once, exact to one refill of a magazine.
    uint64_t peak;
    /// The limit in bytes. UINT64_MAX: none.
    uint64_t limit;
    /// Allocations refused by the limit of the group or of a parent.
    uint64_t refused;
    /// Entries that threads have not left.
    uint32_t inside;
    /// Groups that have this group as their parent.
    uint32_t children;
    /// Caches made, one for each size class used.
    uint32_t caches;
    /// Blocks above 32 KiB in use.
    uint32_t large_blocks;
} cm_group_stats;

/// Creates a group. All that is charged to the group is charged to `parent` too, whose limit also holds; NULL: no
/// parent. `limit` is in bytes; 0: no limit. Reports show the name: letters, digits, '-', '_', '.' and '/', cut after
/// 23.
///
/// Returns the group, or NULL. Takes less than a microsecond. Interrupts no CPU, nor do the group's first allocations.
///
/// errno: ENOMEM if there is no memory; EINVAL if the name is refused. Signal handlers: yes, but ENOMEM is more likely
/// there.
struct cm_group *cm_group_create(const char *name,
                                 struct cm_group *parent,
                                 uint64_t limit) CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED;

/// Destroys a group and frees all that was allocated in it at once. Interrupts no CPU.
///
/// Returns 0, or -1 with the group unchanged.
///
/// errno: EBUSY if threads are inside, or the group has children. Time: proportional to the memory, not to the number
/// of blocks. Threads: while no thread uses the group's memory, allocates in it by cm_group_alloc, or is about to enter
/// it. Signal handlers: no. After fork: yes; of the threads that were inside, the one that forked still is.
int cm_group_destroy(struct cm_group *group) CM_NOTHROW CM_NONNULL;

/// Enters a group: until it leaves or enters another group, the calling thread allocates there by malloc and its kin
/// and by C++'s new. A thread may enter a group several times. Any thread may free the blocks anywhere. realloc leaves
/// a block in its group. `entry` need not be initialised.
///
/// After the first entry, all threads of the process allocate some nanoseconds more slowly, because malloc looks up the
/// thread's group. cm_group_alloc does not.
///
/// Returns 0, or -1. A thread that ends inside leaves the group entered for ever.
///
/// errno: EBUSY if another thread is destroying the group. Signal handlers: yes, if they leave before they return.
int cm_group_enter(struct cm_group *group, struct cm_group_entry *entry) CM_NOTHROW CM_NONNULL CM_CHECKED;

/// Leaves the group that the thread entered with `entry`. If it has entered other groups since, it stays in those.
///
/// Returns 0, or -1.
///
/// errno: EINVAL if the thread did not enter with `entry`, or has left. Threads: the one that entered.
int cm_group_leave(struct cm_group_entry *entry) CM_NOTHROW CM_NONNULL;

/// Allocates at least `size` bytes in a group, even if the thread is inside another one. free and realloc take the
/// block.
///
/// Returns the block, aligned as malloc's, or NULL.
///
/// errno: ENOMEM if there is no memory, or no room within the limits.
void *cm_group_alloc(struct cm_group *group, size_t size) CM_NOTHROW CM_NONNULL CM_CHECKED CM_MALLOC CM_ALLOC_SIZE(2);

/// Allocates like cm_group_alloc, at a multiple of `alignment`, a power of two.
///
/// errno: ENOMEM as for cm_group_alloc; EINVAL if `alignment` is not a power of two.
void *cm_group_aligned_alloc(struct cm_group *group,
                             size_t alignment,
                             size_t size) CM_NOTHROW CM_NONNULL CM_CHECKED CM_MALLOC CM_ALLOC_ALIGN(2) CM_ALLOC_SIZE(3);

/// Sets the limit to `limit` bytes; 0: no limit. Earlier charges stay, even beyond it. Then allocations fail until
/// enough has been freed.
void cm_group_set_limit(struct cm_group *group, uint64_t limit) CM_NOTHROW CM_NONNULL;

/// Reads the statistics of a group into `stats`: exact at rest.
///
/// Time: proportional to the number of slots.
void cm_group_stats_read(struct cm_group *group, struct cm_group_stats *stats) CM_NOTHROW CM_NONNULL;

/// Returns the group that the thread entered last and has not left, or NULL.
struct cm_group *cm_group_current(void) CM_NOTHROW;

/* ---- Limits of the process ----
 *
 * The process as one group. *Held* memory is that of spans and large blocks in use, and dirty memory that is kept for
 * reuse. It never exceeds the hard limit. The settings `limit` and `limit.soft` set both limits at the start.
 */

/// The soft limit: above it, the library returns memory that is not in use to the kernel.
#define CM_LIMIT_SOFT 0

/// The hard limit: an allocation that would pass it fails with ENOMEM.
#define CM_LIMIT_HARD 1

/// A function to call when a limit is reached, with CM_LIMIT_SOFT or CM_LIMIT_HARD, and the argument of
/// cm_limit_notify.
typedef void (*cm_limit_notifier)(uint32_t limit, void *argument);

/// The limits of the process, and what happened at them.
typedef struct cm_limit_figures {
    /// Bytes held.
    uint64_t held;
    /// The hard limit in bytes. UINT64_MAX: none.
    uint64_t limit;
    /// The soft limit in bytes. UINT64_MAX: none.
    uint64_t soft_limit;
    /// Times that the hard limit was reached.
    uint64_t reached;
    /// Times that the soft limit was reached.
    uint64_t soft_reached;
    /// Allocations that the hard limit refused.
    uint64_t refused;
    /// Times that memory went back to the kernel because of the soft limit.
    uint64_t reliefs;
} cm_limit_figures;

/// Sets a limit of the process to `bytes`, rounded down to pages of 4096, at least one; 0: no limit. `limit` is
/// CM_LIMIT_SOFT or CM_LIMIT_HARD. If more is held already, the process keeps it, and allocations that need pages fail
/// until enough was freed. Above a new soft limit, memory that is not in use goes back at the next slow path of a
/// thread.
///
/// Returns 0, or -1.
///
/// errno: EINVAL if `limit` is another number; ENOMEM if the process has no heap yet, and there is no memory for one.
/// Time: some nanoseconds. After fork: the child has the same limits, for itself.
int cm_limit_set(uint32_t limit, uint64_t bytes) CM_NOTHROW;

/// Has `function` called with `argument` when a limit is reached; NULL: no function. It replaces the function before,
/// of which a call may still be running.
///
/// The soft limit is reached if more is held after all memory that is not in use went back, the hard limit if it
/// refuses an allocation. Each counts as reached again only after the memory in use has fallen below it by a sixteenth,
/// at most 32 MiB; or if a refusal comes so much above the one before. After a call for the hard limit, the refused
/// allocation is tried once more.
///
/// A thread calls the function in an allocation, outside of all groups and of the library's locks, or the library's
/// background thread does. All signals are blocked. No two calls run at once, and each finds what the one before has
/// written.
///
/// The function may allocate and free. It must return, and must not take a lock that a thread may hold while it
/// allocates. A thread in a signal handler does not call it: another thread does so later.
///
/// Returns 0, or -1. Each call takes 64 bytes that are never freed.
///
/// errno: ENOMEM if there is no memory.
int cm_limit_notify(cm_limit_notifier function, void *argument) CM_NOTHROW;

/// Reads the limits into `report`. Each figure is exact; together they are consistent only at rest.
void cm_limit_report(struct cm_limit_figures *report) CM_NOTHROW CM_NONNULL;

/* ---- RCU: read sections, grace periods, deferred frees ---- */

/* Stores `value` into `pointer`, so that readers find the object, with all that was written to it before. */
#define CM_RCU_PUBLISH(pointer, value) __atomic_store_n(&(pointer), (value), __ATOMIC_RELEASE)

/* Loads `pointer`, which an updater may replace. Call it in a read section or under the updaters' lock. */
#define CM_RCU_DEREFERENCE(pointer) __atomic_load_n(&(pointer), __ATOMIC_ACQUIRE)

/* A list that readers walk while an updater changes it: the list's head, and a part of each of its members. Updaters
 * exclude each other. They free a removed member after a grace period. A reader sees each member that is in the list
 * during the whole walk, and may see others. */
typedef struct cm_rcu_list {
    /* Private. */
    struct cm_rcu_list *next;
    /* Private. */
    struct cm_rcu_list *previous;
} cm_rcu_list;

/* Initialises an empty list. */
#define CM_RCU_LIST_INIT(list) {&(list), &(list)}

/* Makes `list` empty. No reader may know it yet. */
static inline void cm_rcu_list_init(cm_rcu_list *list) {
    list->next = list->previous = list;
}

/* Inserts `member` after `before`, which is another member, or the list for its front. */
static inline void cm_rcu_list_add(cm_rcu_list *member, cm_rcu_list *before) {
    member->next = before->next;
    member->previous = before;
    before->next->previous = member;
    CM_RCU_PUBLISH(before->next, member);
}

/* Appends `member` to the end of `list`. */
static inline void cm_rcu_list_add_last(cm_rcu_list *member, cm_rcu_list *list) {
    cm_rcu_list_add(member, list->previous);
}

/* Removes `member` from its list. Readers that have reached it can still walk on. */
static inline void cm_rcu_list_remove(cm_rcu_list *member) {
    member->next->previous = member->previous;
    CM_RCU_PUBLISH(member->previous->next, member->next);
}

/* Replaces `old` by `member`. A reader finds one or the other. */
static inline void cm_rcu_list_replace(cm_rcu_list *old, cm_rcu_list *member) {
    member->next = old->next;
    member->previous = old->previous;
    member->next->previous = member;
    CM_RCU_PUBLISH(member->previous->next, member);
}

/* Returns the object of `type` whose field `part` is `member`. */
#define CM_RCU_LIST_ITEM(type, part, member) ((type *)((char *)(member) - offsetof(type, part)))

/* Loops over a list, in a read section or under the updaters' lock. `item` points to one object of `type` after the
 * other, whose field `part` is a member of `list`. */
#define CM_RCU_LIST_FOR_EACH(type, item, part, list)                                                          \
    for (type *item = CM_RCU_LIST_ITEM(type, part, CM_RCU_DEREFERENCE((list)->next)); &item->part != (list);  \
         item = CM_RCU_LIST_ITEM(type, part, CM_RCU_DEREFERENCE(item->part.next)))

/// An open read section, for cm_rcu_read_unlock.
typedef struct cm_rcu_section {
    /// Private.
    void *at;
    /// Private.
    uint32_t slot;
} cm_rcu_section;

/// The memory of a deferred call: a field of the object to free, or memory beside it. 16 bytes, with any contents.
typedef struct cm_rcu_head {
    /// Private.
    struct cm_rcu_head *next;
    /// Private.
    void (*function)(struct cm_rcu_head*);
} cm_rcu_head;

/// Objects that wait to be freed or called.
typedef struct cm_rcu_waiting {
    /// Blocks and calls.
    uint64_t objects;
    /// Bytes of the blocks.
    uint64_t bytes;
    /// The most bytes that waited in each slot, added up.
    uint64_t most_bytes;
    /// How often cm_rcu_defer_free delayed its caller.
    uint64_t held_up;
    /// Blocks that were not freed, because there was no memory for them to wait in.
    uint64_t lost;
} cm_rcu_waiting;

/// Opens a read section. Objects found in it by CM_RCU_DEREFERENCE stay until it ends, if the updaters wait for a grace
/// period before they free them. Sections may nest and overlap. Threads need not register.
///
/// Returns the section. Grace periods wait for ever for a section that is not ended.
///
/// After fork: yes; the child waits for the sections that the forking thread had open, and for no others.
struct cm_rcu_section cm_rcu_read_lock(void) CM_NOTHROW CM_CHECKED;

/// Ends a read section, once.
///
/// Threads: the one that opened it. After fork: the child ends the sections that the forking thread had open.
void cm_rcu_read_unlock(struct cm_rcu_section section) CM_NOTHROW;

/// Waits for a grace period: until all read sections that are open now have ended. Callers at the same time share one.
/// In a read section, or with a registered reader online, it would wait for itself: it ends the program with a message.
///
/// Time: as long as readers take. Signal handlers: no, because they may have interrupted a section.
void cm_rcu_synchronize(void) CM_NOTHROW;

/// Waits like cm_rcu_synchronize, but stays awake for some hundred microseconds instead of some ten, and does not wait
/// for rcu.minimum_interval_us.
///
/// Time, Signal handlers: as for cm_rcu_synchronize.
void cm_rcu_synchronize_expedited(void) CM_NOTHROW;

/// Requests a grace period without waiting for it. Returns its number, for cm_rcu_is_over.
///
/// Signal handlers: no. After fork: yes; the child may also ask for numbers from before the fork.
uint64_t cm_rcu_start(void) CM_NOTHROW CM_CHECKED;

/// Returns whether the grace period `number` is over. If it is not, takes the next steps towards its end, without
/// waiting. A caller that repeats the call gets true in the end.
///
/// Time: proportional to the number of slots. Signal handlers: yes, but a section that they interrupt keeps it from
/// being over.
bool cm_rcu_is_over(uint64_t number) CM_NOTHROW;

/// Returns the number of grace periods that have ended in this process and its ancestors.
uint64_t cm_rcu_grace_periods(void) CM_NOTHROW;

/// Calls `function(head)` after a grace period, on a thread of the library, one call at a time. Calls deferred in the
/// same slot keep their order. It never fails, and allocates nothing. The head belongs to the function from then on.
/// The function may do anything except call cm_rcu_barrier.
///
/// Signal handlers: yes, except for the first deferral of a process, by any function. After fork: yes; the child also
/// makes the calls that waited, except for those that the library was making. A child that a signal handler forked must
/// not call this before the handler has returned.
void cm_rcu_call(struct cm_rcu_head *head, void (*function)(struct cm_rcu_head *head)) CM_NOTHROW CM_NONNULL;

/// Frees `block` after a grace period: a block that free() takes, or an object of a cache. NULL is ignored. Costs
/// little more than free(). The block needs no head, and the program need not do anything else.
///
/// While a slot holds more deferred objects than a mark (rcu.high_mark, rcu.high_kib), each call outside of read
/// sections may be delayed by rcu.hold_up_ms (milliseconds, default 10).
///
/// Signal handlers, After fork: as for cm_rcu_call.
void cm_rcu_defer_free(void *block) CM_NOTHROW;

/// Waits until everything that any thread deferred before is freed or called. In a read section or in a deferred call
/// it would wait for itself: it ends the program with a message.
///
/// Time: as long as readers and deferred calls take. Signal handlers: no.
void cm_rcu_barrier(void) CM_NOTHROW;

/// Counts what waits, into `waiting`: exact while no thread defers, frees or calls.
///
/// Time: proportional to the number of slots.
void cm_rcu_count_waiting(struct cm_rcu_waiting *waiting) CM_NOTHROW CM_NONNULL;

/* ---- RCU: registered readers ----
 *
 * A registered reader is online or offline. While it is online, objects that it finds by CM_RCU_DEREFERENCE stay until
 * its next checkpoint, and grace periods wait for that checkpoint. A thread may have several readers.
 *
 * Threads          Only the thread that registered a reader may pass it to a function.
 * Signal handlers  They must not call these functions.
 * After fork       The child has the readers of the thread that forked, and no others.
 */

/* A registered reader. */
typedef struct cm_rcu_reader {
    /* Private. */
    uint32_t due;
    /* Private. */
    uint32_t depth;
} cm_rcu_reader;

void cm_rcu_checkpoint_due(cm_rcu_reader *reader) CM_NOTHROW CM_NONNULL;

/* Declares that the thread has left all sections of `reader`, and reports it if the policy demands that. Otherwise it
 * costs one load. */
static inline void cm_rcu_checkpoint(cm_rcu_reader *reader) {
    if (__atomic_load_n(&reader->due, __ATOMIC_RELAXED) != 0)
        cm_rcu_checkpoint_due(reader);
}

/* Opens a section of a kickable reader. Sections may nest. A cooperative reader needs no sections: it is in one
 * whenever it is online and not at a checkpoint. */
static inline void cm_rcu_reader_lock(cm_rcu_reader *reader) {
    __atomic_store_n(&reader->depth, __atomic_load_n(&reader->depth, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Ends the innermost section of a kickable reader. */
static inline void cm_rcu_reader_unlock(cm_rcu_reader *reader) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint32_t depth = __atomic_load_n(&reader->depth, __ATOMIC_RELAXED) - 1;
    __atomic_store_n(&reader->depth, depth, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (depth == 0 && (__atomic_load_n(&reader->due, __ATOMIC_RELAXED) & 1) != 0)
        cm_rcu_checkpoint_due(reader);
}

/// A kind of reader: it only reports at checkpoints, and its sections cost nothing.
#define CM_RCU_COOPERATIVE 0

/// A kind of reader: under the policy "kicked" a signal may interrupt it. Objects that it finds stay only between
/// cm_rcu_reader_lock and cm_rcu_reader_unlock, which cost an addition each.
#define CM_RCU_KICKABLE 1

/// Registers a reader of the calling thread, online. `kind` is CM_RCU_COOPERATIVE or CM_RCU_KICKABLE. The thread calls
/// cm_rcu_checkpoint now and then, goes offline around work that blocks for long, and unregisters the reader before it
/// ends. Grace periods wait for ever for a reader that does none of that.
///
/// Returns the reader, or NULL.
///
/// errno: ENOMEM if there is no memory; EINVAL if there is no such kind. Time: proportional to the number of readers.
cm_rcu_reader *cm_rcu_register(uint32_t kind) CM_NOTHROW CM_CHECKED;

/// Ends a reader. Grace periods no longer wait for it.
void cm_rcu_unregister(cm_rcu_reader *reader) CM_NOTHROW CM_NONNULL;

/// The slow path of cm_rcu_checkpoint.
void cm_rcu_checkpoint_due(cm_rcu_reader *reader) CM_NOTHROW CM_NONNULL;

/// Declares that the thread has left all sections of `reader`, and reports it under any policy.
void cm_rcu_checkpoint_always(cm_rcu_reader *reader) CM_NOTHROW CM_NONNULL;

/// Takes a reader offline: grace periods do not wait for it until cm_rcu_online. The thread must not use objects that
/// it found before, nor look up new ones.
void cm_rcu_offline(cm_rcu_reader *reader) CM_NOTHROW CM_NONNULL;

/// Takes a reader online again.
void cm_rcu_online(cm_rcu_reader *reader) CM_NOTHROW CM_NONNULL;

/// Waits for a grace period with `reader` offline. The thread's other readers must be offline. (cm_rcu_synchronize
/// would also wait for `reader`, and ends the program with a message.)
///
/// Time: as long as other readers take.
void cm_rcu_reader_synchronize(cm_rcu_reader *reader) CM_NOTHROW CM_NONNULL;

/// Sets when registered readers report, for all readers of the process, even while they read:
///
/// - "flagged" (default): at a checkpoint, after they have held up a grace period for rcu.till_qs_ms (see cm_set).
/// - "counted": at each `n`-th checkpoint, and after they have held one up for twice as long.
/// - "kicked": like "flagged", but the signal SIGURG interrupts kickable readers after three times as long.
/// - "none": only by cm_rcu_checkpoint_always and cm_rcu_offline.
///
/// `n` is at least 1; only "counted" uses it. Short grace periods free memory early and in small batches, long ones
/// late and in large batches. The setting rcu.policy has the initial policy.
///
/// Returns 0, or -1 with the policy unchanged.
///
/// errno: EINVAL if there is no such policy; EBUSY if the program handles SIGURG. Threads: any thread.
int cm_rcu_set_policy(const char *policy, uint32_t n) CM_NOTHROW CM_NONNULL;

/* ---- Lock report ---- */

/// The waits of one function of the library for its locks of one type.
typedef struct cm_lock_row {
    /// Acquisitions that had to wait.
    uint64_t contended;
    /// The sum of all waits in nanoseconds.
    uint64_t total_wait_ns;
    /// The longest wait in nanoseconds, at most total_wait_ns.
    uint64_t max_wait_ns;
    /// The average wait in nanoseconds: total_wait_ns / contended.
    uint64_t avg_wait_ns;
    /// The structure that the locks protect, such as "page heap" or "page list". Ends with a zero byte.
    char type[16];
    /// The function that waited, such as "page_heap::runs::PageHeap::free". Ends with a zero byte.
    char caller[96];
} cm_lock_row;

/// Waits that are in no row: the library has room for 32 callers of each type of lock.
typedef struct cm_lock_lost {
    /// Acquisitions that had to wait.
    uint64_t contended;
    /// The sum of all waits in nanoseconds.
    uint64_t total_wait_ns;
} cm_lock_lost;

/// Writes up to `capacity` rows into `rows`: one for each function that has waited for a lock of the library since the
/// program started, the longest total wait first. `lost` receives the waits that are in no row, or is NULL. `rows` may
/// be NULL if `capacity` is 0.
///
/// Returns the number of rows that there are, which may exceed `capacity`. If other threads wait meanwhile, their
/// latest waits may be missing.
///
/// Time: proportional to the rows that there are and to `capacity`. After fork: yes; the child's rows start as copies
/// of its parent's.
size_t cm_lock_report(struct cm_lock_row *rows, size_t capacity, struct cm_lock_lost *lost) CM_NOTHROW;

/* ---- Heap profile ----
 *
 * It tells the call sites that allocate and hold memory, from samples. `commensal profile` and pprof read it. Programs
 * that do nothing of this can be profiled as well: by `commensal run --profile`, by the settings `profile` and
 * `profile.file`, and, while they run, by `commensal profile PID`.
 */

/// Begins to sample allocations, with a mean of `mean_bytes` bytes between two samples, or changes the mean. 0: that of
/// the setting `profile.gap_kib`, usually 524,288. Earlier samples stay in the profile.
///
/// Returns 0, or -1 with nothing changed.
///
/// errno: ENOMEM if there is no memory. Time: microseconds, and as long as cm_cache_shrink for each cache. Signal
/// handlers: no. After fork: yes; a child goes on with its parent's samples.
int cm_profile_start(size_t mean_bytes) CM_NOTHROW;

/// Stops sampling. Blocks that were sampled stay in the profile as live until they are freed.
///
/// Time, signal handlers, after fork: as cm_profile_start.
void cm_profile_stop(void) CM_NOTHROW;

/// Writes the profile to a descriptor, in the format of pprof: Protocol Buffers in gzip. It has no names of functions;
/// readers find them in the program's files.
///
/// Returns 0, or -1; then a part may have been written.
///
/// errno: ENOMEM if there is no memory; otherwise that of write(2). Time: some milliseconds for a thousand call sites.
/// Other threads go on meanwhile. Signal handlers: no. After fork: yes.
int cm_profile_write(int descriptor) CM_NOTHROW;

/// A number for a region of code, for cm_profile_enter: the same for the same name, of which 24 bytes count. 0 if there
/// are 255 names already, if the name is empty, or if there is no memory: it tags nothing.
///
/// Time: a comparison with each known name; keep the number. Signal handlers: no. After fork: yes.
uint32_t cm_profile_region(const char *name) CM_NOTHROW CM_NONNULL;

/// Tags what the calling thread allocates from now on with a region; 0: with none. Returns the region that it was in,
/// to be entered again at the end.
///
/// Time: two instructions. Signal handlers: yes. After fork: yes.
uint32_t cm_profile_enter(uint32_t region) CM_NOTHROW;

/* ---- Sandboxes ---- */

/// Enters plain mode, in which the library makes only system calls that the C library's malloc and threads make too.
/// Call it before you install a filter by other means than prctl; prctl calls it. Plain mode lasts, also in fork
/// children. `docs/how/sandbox.md` says what it costs.
///
/// Time: some microseconds. Signal handlers: no.
void cm_sandbox_enter(void) CM_NOTHROW;

/* ---- Upkeep: returning idle memory to the kernel ---- */

/// Statistics of upkeep since the program started.
typedef struct cm_upkeep_figures {
    /// Bytes that went back to the kernel.
    uint64_t bytes;
    /// System calls that returned them.
    uint64_t calls;
    /// System calls that the kernel refused, or that returned nothing.
    uint64_t refused;
    /// Turns that threads took in their own slots.
    uint64_t own_turns;
    /// Turns that the background thread, or cm_upkeep_tick, took for slots that no thread uses.
    uint64_t deserted_turns;
    /// Magazines that were emptied.
    uint64_t arrays;
    /// Spans that went from the page lists of slots to the page heap.
    uint64_t spans;
    /// The longest step in nanoseconds.
    uint64_t longest_ns;
    /// Intervals for which pages must be idle before they go back. 0: unknown at the moment.
    uint32_t patience;
    /// Whether upkeep is on.
    bool is_on;
    /// Whether a background thread of the library does it.
    bool has_shepherd;
} cm_upkeep_figures;

/// Reads the statistics of upkeep into `report`. Each figure is exact; together they are consistent only at rest.
void cm_upkeep_report(struct cm_upkeep_figures *report) CM_NOTHROW CM_NONNULL;

/// Does the upkeep that is due now. It is for programs that run upkeep in a thread of their own, with
/// "upkeep.shepherd:off".
///
/// Returns the nanoseconds until the next call is due, or -1: none is before another thread allocates or frees.
///
/// Time: some microseconds for each magazine that it empties, and up to a millisecond for each MiB that it returns to
/// the kernel. Threads: any thread; calls at the same time share the work. Signal handlers: no.
int64_t cm_upkeep_tick(void) CM_NOTHROW;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* COMMENSAL_H */
