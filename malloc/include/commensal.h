/* Commensal: what libcommensal has besides the C library's memory functions.
 *
 * Lazy counters. A counter costs its owner a plain addition, and becomes a per-CPU counter when others come. It begins as one word for its
 * owner, the first thread that adds or the one that bound it, and one for all others. When a second sharer is announced
 * (cm_counter_share), or when others than the owner have added often enough (1024 times; 64 times once two threads of the program ran
 * at the same time, 16 times once eight did), it is upgraded: from then on every thread adds to a line of its CPU. One that was not
 * upgraded is nothing but its 32 bytes, on machines with any number of CPUs.
 *
 *     static cm_counter requests = CM_COUNTER_INIT;
 *     cm_counter_add(&requests, 1);
 *     printf("%lld requests\n", (long long)cm_counter_sum(&requests));
 *
 * A set is several counters with one owner that are upgraded and destroyed as one: four fit a cache line.
 *
 *     enum { HITS, MISSES, KINDS };
 *     static CM_COUNTERS(KINDS) lookups = CM_COUNTERS_INIT(KINDS);
 *     cm_counters_add(&lookups.set, HITS, 1);
 *
 * An index that is not below the length of its set ends the program with a message.
 *
 * Arithmetic is modulo 2^64, and values are read as signed. Additions order nothing else: who reads a sum after a thread was joined, or after
 * another such order, finds its additions in it.
 *
 * Object caches. A cache gives objects of one size: from arrays of the CPU that asks, without a lock, and constructed if it has a
 * constructor, which runs once for each object and not once for each use.
 *
 *     cm_cache *contexts = cm_cache_create("context", sizeof(struct context), 0, NULL);
 *     struct context *context = cm_cache_alloc(contexts);
 *     cm_cache_free(contexts, context);
 *
 * Memory groups. What is allocated in a group is charged to it and to its parents, up to their limits, and released together.
 *
 *     cm_group *request = cm_group_create("request", NULL, 1 << 20);
 *     cm_group_entry entry;
 *     cm_group_enter(request, &entry);
 *     char *text = malloc(1000);
 *     cm_group_leave(&entry);
 *     cm_group_destroy(request);
 *
 * RCU. Readers find things without a lock; whoever takes one away waits, before it is freed, for all readers that may still have it.
 *
 *     cm_rcu_section section = cm_rcu_read_lock();
 *     struct route *route = CM_RCU_DEREFERENCE(best_route);
 *     ...
 *     cm_rcu_read_unlock(section);
 *
 *     struct route *old = best_route;                         // the one updater, or whoever has the updaters' lock
 *     CM_RCU_PUBLISH(best_route, better);
 *     cm_rcu_defer_free(old);                                 // or cm_rcu_synchronize(); free(old);
 *
 * Threads that come to a point outside of all sections again and again can register: then their sections cost nothing.
 *
 *     cm_rcu_reader *reader = cm_rcu_register(CM_RCU_COOPERATIVE);
 *     for (;;) {
 *         struct route *route = CM_RCU_DEREFERENCE(best_route);
 *         ...
 *         cm_rcu_checkpoint(reader);                          // nothing that was found before is used after it
 *     }
 *
 * The lock report. The library knows who waited for its own locks, and how long; here are the five callers that waited most.
 *
 *     cm_lock_row rows[5];
 *     size_t found = cm_lock_report(rows, 5, NULL);
 *     for (size_t at = 0; at < found && at < 5; at++)
 *         printf("%s waited %llu ns for %s\n", rows[at].caller, (unsigned long long)rows[at].total_wait_ns, rows[at].type);
 *
 * Upkeep. Memory that nobody uses goes back to the system in the background, slot by slot, once an interval of a second; a program may change that while it
 * runs, or do it in a thread of its own.
 *
 *     cm_upkeep_set("interval_ms", 250);
 *     cm_upkeep_set("shepherd", 0);
 *     int64_t ns = cm_upkeep_tick();                          // in a thread that sleeps for so long, then
 *
 * What the comments of the functions end with:
 *
 * errno            what it is set to; "kept": it is as before.
 * Threads          who may call the function, at the same time as any other one unless it says otherwise.
 * Signal handlers  whether they may call it, in the middle of any function here too. What a handler adds that interrupts an addition of its
 *                  own thread is counted, and so is what it interrupted.
 * After fork       whether the child may call it. There counters have the values that they had at the fork, and the thread that forked owns
 *                  what it owned. A child of vfork shares its parent's memory, and must not add to upgraded counters if the parent has
 *                  threads.
 *
 * Fallback mode is what the library works in before Linux 6.3 or glibc 2.35, and with GLIBC_TUNABLES=glibc.pthread.rseq=0.
 */

#ifndef COMMENSAL_H
#define COMMENSAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A counter of value 0 that nobody owns. */
#define CM_COUNTER_INIT {{0}}

/* The type of a set of n counters, a constant from 1 to CM_COUNTERS_MOST: 16 + 12 n bytes, rounded up to 8. Its member `set` is what
 * the functions take. */
#define CM_COUNTERS(n)                                                                                    \
    struct {                                                                                                 \
        cm_counters set;                                                                                     \
        uint64_t words[((n) * 12 + 7) / 8 * sizeof(char[(n) > 0 && (n) <= CM_COUNTERS_MOST ? 1 : -1])];   \
    }

/* A set of n counters, all 0 and nobody's. */
#define CM_COUNTERS_INIT(n) {{0, 0, (n)}, {0}}

/* Lets readers find what `value` leads to, and all that was written there before. */
#define CM_RCU_PUBLISH(pointer, value) __atomic_store_n(&(pointer), (value), __ATOMIC_RELEASE)

/* What a pointer leads to that updaters change: in a read section, or with the updaters' lock. */
#define CM_RCU_DEREFERENCE(pointer) __atomic_load_n(&(pointer), __ATOMIC_ACQUIRE)

/* A list that readers go through while others change it: where it begins, and what each of its members has. Updaters exclude each other, and
 * free what they have removed after a grace period. Readers see each member that was there all the while, and others perhaps. */
typedef struct cm_rcu_list {
    struct cm_rcu_list *next, *previous;
} cm_rcu_list;

/* An empty list. */
#define CM_RCU_LIST_INIT(list) {&(list), &(list)}

/* Makes a list empty that no reader knows yet. */
static inline void cm_rcu_list_init(cm_rcu_list *list) {
    list->next = list->previous = list;
}

/* Puts a member behind another one, or at the front of a list. Readers find it as it is now. */
static inline void cm_rcu_list_add(cm_rcu_list *member, cm_rcu_list *before) {
    member->next = before->next;
    member->previous = before;
    before->next->previous = member;
    CM_RCU_PUBLISH(before->next, member);
}

/* Puts a member at the end of a list. */
static inline void cm_rcu_list_add_last(cm_rcu_list *member, cm_rcu_list *list) {
    cm_rcu_list_add(member, list->previous);
}

/* Takes a member out of its list. Readers that have come to it find their way on. */
static inline void cm_rcu_list_remove(cm_rcu_list *member) {
    member->next->previous = member->previous;
    CM_RCU_PUBLISH(member->previous->next, member->next);
}

/* Puts another member in the place of one: readers find the one or the other. */
static inline void cm_rcu_list_replace(cm_rcu_list *old, cm_rcu_list *member) {
    member->next = old->next;
    member->previous = old->previous;
    member->next->previous = member;
    CM_RCU_PUBLISH(member->previous->next, member);
}

/* What has a member of a list for its part `part`. */
#define CM_RCU_LIST_ITEM(type, part, member) ((type *)((char *)(member) - offsetof(type, part)))

/* Goes through a list, in a read section or with the updaters' lock: `item`, a pointer to `type`, is each of those whose part `part` is a member,
 * in turn. */
#define CM_RCU_LIST_FOR_EACH(type, item, part, list)                                                          \
    for (type *item = CM_RCU_LIST_ITEM(type, part, CM_RCU_DEREFERENCE((list)->next)); &item->part != (list);  \
         item = CM_RCU_LIST_ITEM(type, part, CM_RCU_DEREFERENCE(item->part.next)))

/* A reader that registered, see cm_rcu_register. Its members are not to be touched. */
typedef struct cm_rcu_reader {
    uint32_t due, depth;
} cm_rcu_reader;

#ifdef __cplusplus
extern "C"
#endif
void cm_rcu_checkpoint_due(struct cm_rcu_reader *reader);

/* A point outside of all of the reader's sections: it reports if the policy wants it to. Else that costs a load. */
static inline void cm_rcu_checkpoint(cm_rcu_reader *reader) {
    if (__atomic_load_n(&reader->due, __ATOMIC_RELAXED) != 0)
        cm_rcu_checkpoint_due(reader);
}

/* Opens a section of a kickable reader, or one more inside of it. Readers that are not kickable are in one all the time, but for their
 * checkpoints and while they are offline. */
static inline void cm_rcu_reader_lock(cm_rcu_reader *reader) {
    __atomic_store_n(&reader->depth, __atomic_load_n(&reader->depth, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Ends it. */
static inline void cm_rcu_reader_unlock(cm_rcu_reader *reader) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint32_t depth = __atomic_load_n(&reader->depth, __ATOMIC_RELAXED) - 1;
    __atomic_store_n(&reader->depth, depth, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (depth == 0 && (__atomic_load_n(&reader->due, __ATOMIC_RELAXED) & 1) != 0)
        cm_rcu_checkpoint_due(reader);
}

/**
 * The most counters that a set can have.
 */
#define CM_COUNTERS_MOST 260

/**
 * A kind of reader: it only reports at checkpoints, and its sections cost nothing.
 */
#define CM_RCU_COOPERATIVE 0

/**
 * A kind of reader: under the policy "kicked" a signal may interrupt it. Objects that it finds stay only between
 * cm_rcu_reader_lock and cm_rcu_reader_unlock, which cost an addition each.
 */
#define CM_RCU_KICKABLE 1

/**
 * A cache of objects of one size. See cm_cache_create.
 */
typedef struct cm_cache cm_cache;

/**
 * Memory that is charged, limited and released together. See cm_group_create.
 */
typedef struct cm_group cm_group;

/**
 * One lazy counter. Zeroed memory is a counter of value 0 that nobody owns, so a static one needs no initialisation. It must not be
 * copied or moved, and not lie in memory that processes share. Its words are the library's own.
 */
typedef struct cm_counter {
    uint64_t _words[4];
} cm_counter;

/**
 * An approximate value: the truth is off by no more than `error`, in either direction.
 */
typedef struct cm_reading {
    /**
     * What was read.
     */
    int64_t value;
    /**
     * How far the truth may be from it.
     */
    uint64_t error;
} cm_reading;

/**
 * What a set of lazy counters begins with; the words of its counters lie behind. See CM_COUNTERS. It must not be copied or moved, and not
 * lie in memory that processes share. Its words are the library's own.
 */
typedef struct cm_counters {
    uint64_t _state;
    uint32_t _additions;
    uint32_t _length;
} cm_counters;

/**
 * Makes an object of raw memory, or the reverse. It may allocate and free, from other caches and by malloc, but not create or destroy
 * caches, and must return.
 */
typedef void (*cm_cache_hook)(void *object, void *argument);

/**
 * What may be asked for when a cache is created. Zeroes ask for nothing.
 */
typedef struct cm_cache_options {
    /**
     * Runs once for each object, when its memory is first cut; objects stay constructed between uses. NULL: none.
     */
    cm_cache_hook constructor;
    /**
     * Runs once for each constructed object, before its memory goes back. NULL: none. In any thread: also in one of the library's own, which gives back what idle
     * CPUs keep, with all signals blocked; so it must not take a lock that a thread may hold while it allocates, shrinks, tunes, trims or destroys.
     */
    cm_cache_hook destructor;
    /**
     * What both are given.
     */
    void *argument;
    /**
     * The most objects that each slot keeps, as for cm_cache_tune. 0: as many as suit their size, and how often they are used.
     */
    size_t limit;
    /**
     * How many of them move at once. Not 0 if limit is not.
     */
    size_t batch;
    /**
     * Whether sections (see cm_rcu_read_lock) may look at objects that were given back: each may be used again at once, but its memory stays an object of
     * the cache, constructed, until the sections that are open have ended. So a reader that found an object gets hold of it, by a lock or a count in
     * the object that its constructor made, and then looks again whether it is the one that was looked for. examples/rcu_typesafe.c does. If signal handlers
     * give objects back to it, create it when the program has a second thread: the library's own, which sees to that memory, is made then, else when an object
     * is given back. Not in a child that a signal handler forked, before that handler has returned.
     */
    bool typesafe_by_rcu;
} cm_cache_options;

/**
 * A thread's stay in a group. It belongs to the library from cm_group_enter until cm_group_leave, and stays where it is; as a rule that is on
 * the stack.
 */
typedef struct cm_group_entry {
    /**
     * Not to be touched.
     */
    void *opaque[2];
} cm_group_entry;

/**
 * What is known of a group.
 */
typedef struct cm_group_stats {
    /**
     * Bytes that are charged: what the program holds of the group and of its children, and what arrays of slots hold of it.
     */
    uint64_t charged;
    /**
     * The most that they were, exact to one refill of an array.
     */
    uint64_t peak;
    /**
     * The limit; UINT64_MAX: none.
     */
    uint64_t limit;
    /**
     * Allocations that a limit refused, the group's own or one above.
     */
    uint64_t refused;
    /**
     * Times that threads are inside.
     */
    uint32_t inside;
    /**
     * Groups that have it for a parent.
     */
    uint32_t children;
    /**
     * Caches that were made, one for each size class that was needed.
     */
    uint32_t caches;
    /**
     * Blocks above 32 KiB that are in use.
     */
    uint32_t large_blocks;
} cm_group_stats;

/**
 * A read section that is open: what cm_rcu_read_unlock has to know.
 */
typedef struct cm_rcu_section {
    /**
     * Not to be touched.
     */
    void *at;
    /**
     * Not to be touched.
     */
    uint32_t slot;
} cm_rcu_section;

/**
 * What a deferred call needs: a member of the object that the call is about, or memory beside it. 16 bytes, of any content.
 */
typedef struct cm_rcu_head {
    /**
     * Not to be touched.
     */
    struct cm_rcu_head *next;
    /**
     * Not to be touched.
     */
    void (*function)(struct cm_rcu_head*);
} cm_rcu_head;

/**
 * What waits to be freed or called.
 */
typedef struct cm_rcu_waiting {
    /**
     * Blocks and calls.
     */
    uint64_t objects;
    /**
     * Bytes of the blocks.
     */
    uint64_t bytes;
    /**
     * The most that these have been in each slot, added up.
     */
    uint64_t most_bytes;
    /**
     * How often a caller of cm_rcu_defer_free was held up.
     */
    uint64_t held_up;
    /**
     * Blocks that were not freed, as there was no memory for them to wait in.
     */
    uint64_t lost;
} cm_rcu_waiting;

/**
 * What one call site of the library waited for its locks of one type.
 */
typedef struct cm_lock_row {
    /**
     * Acquisitions that did not succeed at once.
     */
    uint64_t contended;
    /**
     * Nanoseconds waited, all together.
     */
    uint64_t total_wait_ns;
    /**
     * The longest single wait in nanoseconds: no more than total_wait_ns.
     */
    uint64_t max_wait_ns;
    /**
     * Nanoseconds of a wait on average: total_wait_ns / contended.
     */
    uint64_t avg_wait_ns;
    /**
     * What the locks protect, such as "page heap" or "page list", and a zero byte.
     */
    char type[16];
    /**
     * The library's function that waited, such as "page_heap::runs::PageHeap::free", and a zero byte.
     */
    char caller[96];
} cm_lock_row;

/**
 * Waits that are in no row: the library has room for 32 callers of each type of lock.
 */
typedef struct cm_lock_lost {
    /**
     * Acquisitions that did not succeed at once.
     */
    uint64_t contended;
    /**
     * Nanoseconds waited, all together.
     */
    uint64_t total_wait_ns;
} cm_lock_lost;

/**
 * What upkeep did so far.
 */
typedef struct cm_upkeep_figures {
    /**
     * Bytes that went back to the system, and the calls for that.
     */
    uint64_t bytes;
    uint64_t calls;
    /**
     * Calls that the system refused, or that found nothing.
     */
    uint64_t refused;
    /**
     * Turns that threads took in their own slots, and that were taken for slots where nobody came along.
     */
    uint64_t own_turns;
    uint64_t deserted_turns;
    /**
     * Arrays of objects that were emptied, and spans that went from per-CPU lists to the zone.
     */
    uint64_t arrays;
    uint64_t spans;
    /**
     * The longest that anything of this took at a stretch.
     */
    uint64_t longest_ns;
    /**
     * Intervals that pages have to be idle for before they go back; 0: could not be told now.
     */
    uint32_t patience;
    /**
     * Whether there is upkeep, and whether a thread of the library's sees to it.
     */
    bool is_on;
    bool has_shepherd;
} cm_upkeep_figures;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Adds `amount`, modulo 2^64. The first thread that adds to a counter becomes its owner, and adds by one plain addition; others add
 * atomically, and when they have done so often enough, the counter is upgraded: from then on all add to a line of the CPU that
 * they run on.
 *
 * Without memory for the upgrade the counter works on as it is; but once what others than the owner added goes beyond 2^30 in either
 * direction, the program ends with a message.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_counter_add(struct cm_counter *counter, int64_t amount);

/**
 * Subtracts `amount`. As cm_counter_add.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_counter_sub(struct cm_counter *counter, int64_t amount);

/**
 * cm_counter_add for who knows to be the counter's owner, or that it is upgraded: spares a look at who is running. From another thread it
 * may lose additions.
 *
 * errno: kept. Threads: the owner; any after the upgrade. Signal handlers: yes, on those threads. After fork: yes, on those threads.
 */
void cm_counter_add_local(struct cm_counter *counter, int64_t amount);

/**
 * cm_counter_add for who thinks not to be the counter's owner: spares a look at who is running, and makes nobody the owner. The owner may
 * call it too; it costs an atomic operation.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_counter_add_remote(struct cm_counter *counter, int64_t amount);

/**
 * Announces that several threads will add: upgrades the counter now. About a microsecond; next to nothing if it is upgraded already.
 *
 * Returns 0; or -1, and the counter is as it was, and the additions of others than the owner try again.
 *
 * errno: ENOMEM if there is no memory. Threads: any.
 * Signal handlers: yes. After fork: yes.
 */
int cm_counter_share(struct cm_counter *counter);

/**
 * Whether the counter is upgraded.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
bool cm_counter_is_shared(const struct cm_counter *counter);

/**
 * Makes the counter the calling thread's: a fresh one, or one that was handed over. An upgraded one gives its memory back and is as lazy
 * as a new one; the value stays.
 *
 * errno: kept. Threads: nobody else may use the counter meanwhile. Signal handlers: under the same condition. After fork: yes; a child
 * that another thread forks in the middle of it has a counter of some other value.
 */
void cm_counter_bind(struct cm_counter *counter);

/**
 * What was added, and how far that may be off: exact before the upgrade, and after it off by no more than 512 for each slot. There are as
 * many slots as threads of the program ran at the same time. Looks at three lines of memory whatever the number of CPUs; in fallback mode,
 * and while a limited addition collects what slots hold, it is as exact, and takes as long, as cm_counter_sum. Additions at the same time
 * may be in it or not.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
struct cm_reading cm_counter_read(const struct cm_counter *counter);

/**
 * cm_counter_read, but values below zero are zero.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
struct cm_reading cm_counter_read_positive(const struct cm_counter *counter);

/**
 * What was added: exact, but that additions at the same time may be in it or not. Takes time in proportion to the number of CPUs on which
 * something was added.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
int64_t cm_counter_sum(const struct cm_counter *counter);

/**
 * cm_counter_sum, but values below zero are zero.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
int64_t cm_counter_sum_positive(const struct cm_counter *counter);

/**
 * -1, 0 or 1: the counter is less than `with`, equal, or greater. By cm_counter_read where that decides, else by cm_counter_sum.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
int cm_counter_compare(const struct cm_counter *counter, int64_t with);

/**
 * Adds `amount` if the counter stays at or below `limit`, and says whether it did. What is not positive is always added.
 *
 * However many threads try, what limited additions with one limit make of the counter is never above it, and none is refused while there
 * is room. cm_counter_add knows no limit; while it, or a larger limit, has amounts added beyond this one's, limited additions at the same
 * time may find room that those made. Limited additions, the owner's too, go where those of others go: an owner who adds 2^28 and
 * more within limits and subtracts it again has the counter upgraded.
 *
 * It may refuse too early where there is no memory, and by up to 1024 for each slot (see cm_counter_read) in a signal handler that
 * interrupts another limited addition; where the kernel refuses membarrier and unlimited additions came before the first limited one;
 * and if each of 64 attempts to collect what slots hold met some thread in the middle of an addition.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
bool cm_counter_limited_add(struct cm_counter *counter, int64_t amount, int64_t limit);

/**
 * Adds the difference between cm_counter_sum and `value`. So the counter is `value` if nobody adds meanwhile; what others add is kept.
 *
 * errno: kept. Threads: any; of several at the same time each adds its difference. Signal handlers: yes. After fork: yes.
 */
void cm_counter_set(struct cm_counter *counter, int64_t value);

/**
 * Subtracts cm_counter_sum, and returns it: what others add meanwhile is kept for the next time, so that nothing is lost between two
 * calls.
 *
 * errno: kept. Threads: any, but one at a time. Signal handlers: yes, under the same condition. After fork: yes.
 */
int64_t cm_counter_reset(struct cm_counter *counter);

/**
 * Gives back what memory the counter has beside its 32 bytes, and zeroes these: it is as new, and may also be forgotten.
 *
 * errno: kept. Threads: nobody else may use the counter meanwhile. Signal handlers: under the same condition. After fork: yes.
 */
void cm_counter_destroy(struct cm_counter *counter);

/**
 * Bytes of a set of `n` counters, for cm_counters_begin: 16 + 12 n, rounded up to 8. 0 if there is no such set.
 *
 * errno: EINVAL if `n` is 0 or above CM_COUNTERS_MOST. Threads: any. Signal handlers: yes. After fork: yes.
 */
size_t cm_counters_bytes(size_t n);

/**
 * Makes a set of `n` counters, all zero and nobody's, of the memory at `place`: cm_counters_bytes(n) of them, aligned to 8, whatever they
 * hold. Returns the set, which begins at `place`; or NULL, and nothing was done.
 *
 * errno: EINVAL if `n` is 0 or above CM_COUNTERS_MOST. Threads: nobody else may use the memory meanwhile. Signal handlers: under the
 * same condition. After fork: yes.
 */
struct cm_counters *cm_counters_begin(void *place, size_t n);

/**
 * Adds to a counter. See cm_counter_add; owner and upgrade are the set's.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_counters_add(struct cm_counters *set, size_t index, int64_t amount);

/**
 * Subtracts from a counter. See cm_counter_sub.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_counters_sub(struct cm_counters *set, size_t index, int64_t amount);

/**
 * Adds to a counter of a set that the caller owns, or that is upgraded. See cm_counter_add_local.
 *
 * errno: kept. Threads: the owner; any after the upgrade. Signal handlers: yes, on those threads. After fork: yes, on those threads.
 */
void cm_counters_add_local(struct cm_counters *set, size_t index, int64_t amount);

/**
 * Adds to a counter of a set that the caller thinks not to own. See cm_counter_add_remote.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_counters_add_remote(struct cm_counters *set, size_t index, int64_t amount);

/**
 * Announces that several threads will add: upgrades all counters of the set now. See cm_counter_share. Returns 0; or -1, and the set is
 * as it was.
 *
 * errno: ENOMEM as for cm_counter_share. Threads: any. Signal handlers: yes. After fork: yes.
 */
int cm_counters_share(struct cm_counters *set);

/**
 * Whether the set is upgraded.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
bool cm_counters_is_shared(const struct cm_counters *set);

/**
 * Makes the set the calling thread's. See cm_counter_bind.
 *
 * errno: kept. Threads: nobody else may use the set meanwhile. Signal handlers: under the same condition. After fork: yes.
 */
void cm_counters_bind(struct cm_counters *set);

/**
 * What was added to a counter, and how far that may be off. See cm_counter_read.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
struct cm_reading cm_counters_read(const struct cm_counters *set, size_t index);

/**
 * cm_counters_read, but values below zero are zero.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
struct cm_reading cm_counters_read_positive(const struct cm_counters *set, size_t index);

/**
 * What was added to a counter. See cm_counter_sum.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
int64_t cm_counters_sum(const struct cm_counters *set, size_t index);

/**
 * cm_counters_sum, but values below zero are zero.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
int64_t cm_counters_sum_positive(const struct cm_counters *set, size_t index);

/**
 * -1, 0 or 1: the counter is less than `value`, equal, or greater. See cm_counter_compare.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
int cm_counters_compare(const struct cm_counters *set, size_t index, int64_t value);

/**
 * Adds to a counter if it stays at or below `limit`, and says whether it did. See cm_counter_limited_add.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
bool cm_counters_limited_add(struct cm_counters *set, size_t index, int64_t amount, int64_t limit);

/**
 * Makes a counter a value, if nobody adds meanwhile. See cm_counter_set.
 *
 * errno: kept. Threads: any; of several at the same time each adds its difference. Signal handlers: yes. After fork: yes.
 */
void cm_counters_set(struct cm_counters *set, size_t index, int64_t value);

/**
 * Makes a counter zero, and returns what it was. See cm_counter_reset.
 *
 * errno: kept. Threads: any, but one at a time. Signal handlers: yes, under the same condition. After fork: yes.
 */
int64_t cm_counters_reset(struct cm_counters *set, size_t index);

/**
 * Gives back what memory the set has beside its own, and makes it as cm_counters_begin did, with as many counters; it may also be
 * forgotten.
 *
 * errno: kept. Threads: nobody else may use the set meanwhile. Signal handlers: under the same condition. After fork: yes.
 */
void cm_counters_destroy(struct cm_counters *set);

/**
 * Creates a cache of objects of `size` bytes, 1 to 131072, that are aligned to `alignment`, a power of two up to 65536, or 0 for what
 * malloc gives. The name, of letters, digits, and '-', '_', '.' and '/', is for people; it is cut after 31. `options` may be NULL.
 *
 * Interrupts no other CPU, and takes a microsecond or two. The cache's first object costs a page fault.
 *
 * Returns the cache; or NULL.
 *
 * errno: ENOMEM if there is no memory; EINVAL if an argument is none of those. Threads: any. Signal handlers: yes, but ENOMEM is
 * likelier there; not one that is typesafe. After fork: yes.
 */
struct cm_cache *cm_cache_create(const char *name, size_t size, size_t alignment, const struct cm_cache_options *options);

/**
 * Destroys a cache, of which no object is alive: its memory goes back at once. Interrupts no other CPU. One that is typesafe waits for a grace period before:
 * called in a read section, or by a thread with a registered reader that is online, it ends the program with a message.
 *
 * Returns 0; or -1, and nothing happened.
 *
 * errno: EBUSY if objects are alive, see cm_cache_alive. Threads: nobody else may use the cache meanwhile, and nobody at all afterwards.
 * Signal handlers: no. After fork: yes.
 */
int cm_cache_destroy(struct cm_cache *cache);

/**
 * An object, as its last user left it, or as the constructor made it, or of any contents.
 *
 * Returns the object; or NULL.
 *
 * errno: ENOMEM if there is no memory. Threads: any. Signal handlers: yes. After fork: yes.
 */
void *cm_cache_alloc(struct cm_cache *cache);

/**
 * Gives an object back to the cache that it is from; constructed, if that has a constructor. NULL is nothing. free() does it too, but takes
 * longer.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_cache_free(struct cm_cache *cache, void *object);

/**
 * Objects for all `count` places of `objects`, or for the first of them.
 *
 * Returns how many there are: fewer than `count` if there is no memory for more. The other places stay as they are.
 *
 * errno: ENOMEM if there are fewer. Threads: any. Signal handlers: yes. After fork: yes.
 */
size_t cm_cache_alloc_bulk(struct cm_cache *cache, void **objects, size_t count);

/**
 * Gives `count` objects back.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_cache_free_bulk(struct cm_cache *cache, void *const *objects, size_t count);

/**
 * Sets memory aside for `count` objects, or for as many as are missing. Allocations that would fail take it: so the next `count` of them
 * cannot fail, whoever makes them.
 *
 * Returns 0; or -1, and what had been set aside still is.
 *
 * errno: ENOMEM if there is no memory. Threads: any. Signal handlers: yes, but ENOMEM is likelier there. After fork: yes.
 */
int cm_cache_prefill(struct cm_cache *cache, size_t count);

/**
 * Gives back what the cache holds and nobody uses; what was set aside stays. Interrupts other CPUs, if they hold any.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_cache_shrink(struct cm_cache *cache);

/**
 * Changes how much each slot keeps, also while the cache is in use: at most `limit` objects, which move in batches of `batch`, 1 to 125.
 * The limit is at least a batch and at most 256 of them. Arrays of slots are replaced, which interrupts other CPUs that have some.
 *
 * Returns 0; or -1, and then arrays that are in use stay as they are until they are retired by themselves.
 *
 * errno: EINVAL if there are no such numbers, and nothing happened; EAGAIN if the kernel refused membarrier, or in a signal handler that
 * interrupted such work. Threads: any. Signal handlers: yes. After fork: yes.
 */
int cm_cache_tune(struct cm_cache *cache, size_t limit, size_t batch);

/**
 * Objects that are alive: exact if nobody allocates or frees meanwhile. Takes time in proportion to the number of slots.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
size_t cm_cache_alive(struct cm_cache *cache);

/**
 * Creates a group. The name, of letters, digits, and '-', '_', '.' and '/', is for people; it is cut after 23. What the group is charged, its parent
 * is charged, too, and the parent's limit holds for it; NULL: it has none. `limit` is in bytes; 0: there is none.
 *
 * Takes less than a microsecond, and interrupts nobody; nor does what the group needs at its first allocations.
 *
 * Returns the group; or NULL.
 *
 * errno: ENOMEM if there is no memory; EINVAL if the name is none. Threads: any. Signal handlers: yes, but ENOMEM is likelier there. After
 * fork: yes.
 */
struct cm_group *cm_group_create(const char *name, struct cm_group *parent, uint64_t limit);

/**
 * Destroys a group: everything that was allocated in it goes back at once, in time that depends on the memory, not on the number of blocks.
 * Interrupts nobody.
 *
 * Returns 0; or -1, and nothing happened.
 *
 * errno: EBUSY if threads are inside, or the group has children. Threads: nobody uses its memory any more, allocates in it by
 * cm_group_alloc, or is about to enter it. Signal handlers: no. After fork: yes; of the threads that were inside, the one that forked still is.
 */
int cm_group_destroy(struct cm_group *group);

/**
 * Enters a group: until it leaves, or enters another one, the thread allocates there, by malloc and its kin and by C++'s new. Leaving
 * returns to the group that it was in before. It may enter a group that it is in. Blocks may be freed by any thread, anywhere; realloc leaves a
 * group's block in its group.
 *
 * From the first entry on, all threads of the process allocate by a way that takes a few nanoseconds longer, because it looks for their group.
 * cm_group_alloc does not.
 *
 * Returns 0; or -1.
 *
 * errno: EBUSY if somebody is destroying the group. Threads: any; one that ends inside leaves the group entered for ever. Signal handlers: yes, if they
 * leave before they return. After fork: yes.
 */
int cm_group_enter(struct cm_group *group, struct cm_group_entry *entry);

/**
 * Leaves the group that the thread entered by this entry. If it is not the one that it entered last, it stays in those that it entered later.
 *
 * Returns 0; or -1.
 *
 * errno: EINVAL if the thread did not enter by this entry, or has left by it. Threads: the one that entered. Signal handlers: yes. After fork: yes.
 */
int cm_group_leave(struct cm_group_entry *entry);

/**
 * A block of at least `size` bytes in a group, whichever the thread is inside of, as malloc gives it; free and realloc take it.
 *
 * Returns the block; or NULL.
 *
 * errno: ENOMEM if there is no memory, or no room within the limits. Threads: any. Signal handlers: yes. After fork: yes.
 */
void *cm_group_alloc(struct cm_group *group, size_t size);

/**
 * The same at a multiple of `alignment`, a power of two.
 *
 * Returns the block; or NULL.
 *
 * errno: as for cm_group_alloc; EINVAL if the alignment is no power of two. Threads: any. Signal handlers: yes. After fork: yes.
 */
void *cm_group_aligned_alloc(struct cm_group *group, size_t alignment, size_t size);

/**
 * Sets the limit, in bytes; 0: none. What is charged already stays, also beyond it; then nothing more is, until enough came back.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_group_set_limit(struct cm_group *group, uint64_t limit);

/**
 * What is known of a group: exact at rest. Takes time in proportion to the number of slots.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_group_stats_read(struct cm_group *group, struct cm_group_stats *stats);

/**
 * The group that the thread is inside of, the one that it entered last; NULL if it is in none.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
struct cm_group *cm_group_current(void);

/**
 * Opens a read section: what it finds by CM_RCU_DEREFERENCE stays until the section ends, if whoever takes it away waits for a grace period
 * before it is freed. Sections may lie inside of others, and overlap. Threads need not register.
 *
 * Returns what cm_rcu_read_unlock wants. A section that is not ended is waited for, for ever.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes; the child waits for the sections that the thread had open which forked, and for
 * no others.
 */
struct cm_rcu_section cm_rcu_read_lock(void);

/**
 * Ends a read section, which the calling thread opened, or the one that forked it, and which ends once.
 *
 * errno: kept. Threads: the one that opened it. Signal handlers: yes. After fork: yes.
 */
void cm_rcu_read_unlock(struct cm_rcu_section section);

/**
 * Waits for a grace period: until all read sections that are open now have ended. Callers that come at the same time share one.
 *
 * Called in a read section it would wait for itself: it ends the program with a message.
 *
 * errno: kept. Threads: any. Signal handlers: no, as they may have interrupted a section. After fork: yes.
 */
void cm_rcu_synchronize(void);

/**
 * The same for those in a hurry: awake for up to some 100 microseconds, where cm_rcu_synchronize goes to sleep after some.
 *
 * errno, Threads, Signal handlers, After fork: as for cm_rcu_synchronize.
 */
void cm_rcu_synchronize_expedited(void);

/**
 * Asks for a grace period and does not wait for it.
 *
 * Returns its number, for cm_rcu_is_over.
 *
 * errno: kept. Threads: any. Signal handlers: no. After fork: yes, also for numbers from before.
 */
uint64_t cm_rcu_start(void);

/**
 * Whether the grace period of this number is over. Drives it on as far as it goes without waiting: so who asks again and again gets yes in
 * the end.
 *
 * errno: kept. Threads: any. Signal handlers: yes, but they may have interrupted a section that keeps it from being over. After fork: yes.
 */
bool cm_rcu_is_over(uint64_t number);

/**
 * How many grace periods have been over in this process and its ancestors.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
uint64_t cm_rcu_grace_periods(void);

/**
 * Calls a function after a grace period, with this head: on a thread of the library's, one call at a time. Calls that were deferred in the same slot come in their
 * order. Never fails, and allocates nothing. The function has the head's memory from then on; it may do anything but call cm_rcu_barrier.
 *
 * errno: kept. Threads: any. Signal handlers: yes, but for the first that is deferred in a process. After fork: yes; the child makes the calls that waited, too, but for those that the parent's thread was
 * making. A child that a signal handler forked must not before that handler has returned.
 */
void cm_rcu_call(struct cm_rcu_head *head, void (*function)(struct cm_rcu_head *head));

/**
 * Frees a block after a grace period: any that free would take, and those of caches. Costs little more than free. NULL is nothing. The blocks need no head, and
 * nothing has to be done for them to be freed.
 *
 * While so many wait that a mark is reached (rcu.high_kib of COMMENSAL_CONF), callers that are in no read section are held up, each time for up to
 * 10 ms.
 *
 * errno: kept. Threads: any. Signal handlers, After fork: as for cm_rcu_call.
 */
void cm_rcu_defer_free(void *block);

/**
 * Waits until all that was deferred before, by any thread, has been freed or called.
 *
 * Called in a read section, or by a deferred call, it would wait for itself: it ends the program with a message.
 *
 * errno: kept. Threads: any. Signal handlers: no. After fork: yes.
 */
void cm_rcu_barrier(void);

/**
 * Says what waits; exact while nobody defers anything, and nothing is freed.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_rcu_count_waiting(struct cm_rcu_waiting *waiting);

/**
 * Sets what can be set about grace periods and what waits for them, by the name behind "rcu." in COMMENSAL_CONF: cm_rcu_set("lazy_delay_ms", 5). `commensal
 * conf` has the names. See cm_rcu_set_policy for the policy.
 *
 * Returns 0, or -1 if there is no such setting, or the value is out of its range: then it stays as it is.
 *
 * errno: kept, EINVAL. Threads: any. Signal handlers: yes. After fork: yes.
 */
int cm_rcu_set(const char *name, uint32_t value);

/**
 * Registers a reader of the calling thread: what it finds by CM_RCU_DEREFERENCE stays until its next checkpoint (cm_rcu_checkpoint,
 * cm_rcu_checkpoint_always, cm_rcu_offline). Its sections cost nothing, and grace periods wait for its checkpoints: so it comes to one now and then,
 * and goes offline around whatever blocks for long. One that does neither is waited for, for ever.
 *
 * A kickable one (CM_RCU_KICKABLE, else CM_RCU_COOPERATIVE) may be interrupted, by the signal SIGURG, if the policy is "kicked". Then its sections must be told: what it finds between
 * cm_rcu_reader_lock and cm_rcu_reader_unlock stays until the latter; elsewhere it finds nothing that stays. They are two additions each.
 *
 * Returns the reader, or NULL if there is no memory. A thread may have several. Before it ends it gives them back by cm_rcu_unregister.
 *
 * errno: kept, ENOMEM, EINVAL if there is no such kind. Threads: any. Signal handlers: no. After fork: yes; the child has the readers of the thread that forked, and no others.
 */
cm_rcu_reader *cm_rcu_register(uint32_t kind);

/**
 * The reader is no more: nobody waits for it.
 *
 * errno: kept. Threads: the one that registered it, or the one that forked that. Signal handlers: no. After fork: yes.
 */
void cm_rcu_unregister(cm_rcu_reader *reader);

/**
 * What cm_rcu_checkpoint does where there is something to do.
 *
 * errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
 */
void cm_rcu_checkpoint_due(cm_rcu_reader *reader);

/**
 * A point outside of all of the reader's sections: it reports, whatever the policy.
 *
 * errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
 */
void cm_rcu_checkpoint_always(cm_rcu_reader *reader);

/**
 * From here to cm_rcu_online nobody waits for the reader: nothing that was found before is used after it, and nothing is looked for.
 *
 * errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
 */
void cm_rcu_offline(cm_rcu_reader *reader);

/**
 * The reader is there again.
 *
 * errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
 */
void cm_rcu_online(cm_rcu_reader *reader);

/**
 * Waits for a grace period, offline: cm_rcu_synchronize would wait for the calling thread's own reader, and ends the program with a message. A thread that
 * has several has the others offline.
 *
 * errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
 */
void cm_rcu_reader_synchronize(cm_rcu_reader *reader);

/**
 * Sets how readers that registered come to report, for all of them, also while they read:
 *
 * "flagged"   at a checkpoint after they have held a grace period up for rcu.till_qs_ms (see cm_rcu_set); so it is unless rcu.policy says otherwise.
 * "counted"   at each n-th checkpoint, and when they have held one up for twice as long.
 * "kicked"    as "flagged"; those that are kickable are interrupted after three times as long.
 * "none"      by cm_rcu_checkpoint_always and cm_rcu_offline only.
 *
 * `n`, at least 1, is looked at for "counted". Short grace periods free early, and in small batches; long ones seldom, and much at once.
 *
 * Returns 0, or -1: EINVAL, there is no such policy; EBUSY, the program has a handler for SIGURG. Then the policy stays as it is.
 *
 * errno: kept, EINVAL, EBUSY. Threads: any. Signal handlers: no. After fork: yes.
 */
int cm_rcu_set_policy(const char *policy, uint32_t n);

/**
 * Who has waited for the library's own locks since the program started, and how long: a row for each caller that did, those that
 * waited most first. Writes as many of them as there is room for, and if `lost` is not NULL there what found no place in the library's tables.
 * `rows` may be NULL if `capacity` is 0.
 *
 * Returns how many rows there are, which may be more than `capacity`.
 *
 * Uncontended locks cost nothing for it. While other threads wait a reading may lack what they are recording; max_wait_ns is no more than total_wait_ns in any.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes; the child's rows begin as its parent's were.
 */
size_t cm_lock_report(struct cm_lock_row *rows, size_t capacity, struct cm_lock_lost *lost);

/**
 * Comes into plain mode, in which the library makes only system calls that the C library's malloc and threads make,
 * too. Call it before a filter is installed by other means than the C library's prctl, which does it by itself. For
 * good, and in fork children as well. `commensal doctor --sandbox` says what plain mode costs.
 *
 * errno: kept. Threads: any. Signal handlers: no. After fork: yes.
 */
void cm_sandbox_enter(void);

/**
 * Says what upkeep did so far; each figure is exact, together they are only at rest.
 *
 * errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
 */
void cm_upkeep_report(struct cm_upkeep_figures *report);

/**
 * Sets what can be set about upkeep, by the name behind "upkeep." in COMMENSAL_CONF: cm_upkeep_set("interval_ms", 250). `commensal conf` has the names.
 * "on", for upkeep itself, and "shepherd" are 0 or 1.
 *
 * Returns 0, or -1 if there is no such setting, or the value is out of its range: then it stays as it is.
 *
 * errno: kept, EINVAL. Threads: any. Signal handlers: yes. After fork: yes.
 */
int cm_upkeep_set(const char *name, uint32_t value);

/**
 * Does the upkeep that is due now: for programs that have a thread of their own for such things, with "upkeep.shepherd:off". Takes some microseconds for each array that is
 * emptied, and up to a millisecond for each MiB that goes back to the system.
 *
 * Returns in how many nanoseconds it should be called again; -1: not before other threads have allocated or released memory.
 *
 * errno: kept. Threads: any, several at once share the work. Signal handlers: no. After fork: yes.
 */
int64_t cm_upkeep_tick(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* COMMENSAL_H */
