/* The functions of commensal.h with one defect, chosen by -DDEFECT=NAME, to show that their checks can fail.
 *
 * With DEFECT=NONE they are sound, if slow: one atomic word for each counter, behind the head of its set; a
 * counter is a set of one. Upgraded is what says so: share maps some memory, which it does not use, since an
 * upgrade has to fail where there is none. */
#include <commensal.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum defect {
    NONE,
    LOSES,            /* an addition loads and stores */
    FORGETS_AT_FORK,  /* additions of a child count for nothing */
    OVERSHOOTS,       /* a limited addition looks, and adds later */
    REFUSES,          /* a limited addition does not reach the limit */
    RESET_RACES,      /* reset loads, and stores later */
    EATS_ERRNO,       /* a sum sets errno */
    MISREADS,         /* a reading is off by more than it says */
    COMPARES_WRONGLY, /* what is equal is greater */
    MIXES_UP,         /* counters 1 and 2 of a set are one */
    ANY_INDEX,        /* every index is accepted */
    ANY_LENGTH,       /* every length is accepted */
    UNAWARE,          /* memory for an upgrade is always thought to be there */
    OVERFLOWS,        /* silently */
    BIND_CLEARS,      /* the value */
    DESTROY_KEEPS,    /* the value */
    LEAKS,            /* what was mapped */
    NEEDS_BEGINNING,  /* zeroed memory counts nothing */
};

#ifndef DEFECT
#define DEFECT NONE
#endif

static pid_t first_process;

__attribute__((constructor)) static void begin(void) {
    first_process = getpid();
}

static _Noreturn void die(const char *line) {
    ssize_t ignored = write(STDERR_FILENO, line, strlen(line));
    (void)ignored;
    abort();
}

static _Atomic int64_t *word(const void *set, size_t i) {
    const cm_counters *head = set;
    size_t length = head->_length ? head->_length : 1;
    char line[100];
    if (i >= length && DEFECT != ANY_INDEX) {
        snprintf(line, sizeof line, "commensal: counter %zu of a set of %zu: give an index below %zu\n", i,
                 length, length);
        die(line);
    }
    if (DEFECT == MIXES_UP && i == 2)
        i = 1;
    /* Past the end stands what is somebody else's, which is left alone. */
    static _Atomic int64_t nowhere;
    return i < length ? (_Atomic int64_t *)(uintptr_t)(head + 1) + i : &nowhere;
}

static int64_t sum(const void *set, size_t i) {
    if (DEFECT == EATS_ERRNO)
        errno = EINTR;
    return atomic_load(word(set, i));
}

/* So that what can happen in between does, even where all threads take turns on one CPU. */
static void pause_a_little(void) {
    static _Thread_local unsigned pauses;
    if (++pauses % 4096 == 0)
        sched_yield();
    for (volatile int i = 0; i < 5; i++) {
    }
}

static void add(void *set, size_t i, int64_t amount) {
    _Atomic int64_t *at = word(set, i);
    if ((DEFECT == FORGETS_AT_FORK && getpid() != first_process) ||
        (DEFECT == NEEDS_BEGINNING && ((cm_counters *)set)->_length == 0))
        return;
    if (DEFECT == LOSES) {
        int64_t seen = atomic_load_explicit(at, memory_order_relaxed);
        pause_a_little();
        atomic_store_explicit(at, seen + amount, memory_order_relaxed);
    } else {
        atomic_fetch_add(at, amount);
    }
}

static bool limited_add(void *set, size_t i, int64_t amount, int64_t limit) {
    _Atomic int64_t *at = word(set, i);
    int64_t seen = atomic_load(at), most = DEFECT == REFUSES ? limit - 1 : limit;
    do {
        if (amount > 0 && seen + amount > most)
            return false;
        if (DEFECT == OVERSHOOTS) {
            pause_a_little();
            atomic_fetch_add(at, amount);
            return true;
        }
    } while (!atomic_compare_exchange_weak(at, &seen, seen + amount));
    return true;
}

static int64_t reset(void *set, size_t i) {
    if (DEFECT != RESET_RACES)
        return atomic_exchange(word(set, i), 0);
    int64_t was = atomic_load(word(set, i));
    pause_a_little();
    atomic_store(word(set, i), 0);
    return was;
}

static int compare(const void *set, size_t i, int64_t value) {
    int64_t is = sum(set, i);
    return (is > value || (DEFECT == COMPARES_WRONGLY && is == value)) - (is < value);
}

static cm_reading read_word(const cm_counters *set, size_t i) {
    uint64_t error = set->_state ? 512 : 0;
    return (cm_reading){sum(set, i) + (DEFECT == MISREADS ? (int64_t)error + 1 : 0), error};
}

static cm_reading positive(cm_reading reading) {
    return (cm_reading){reading.value > 0 ? reading.value : 0, reading.error};
}

enum { MAPPED_BYTES = 1 << 16 };

static int share(cm_counters *set) {
    if (set->_state)
        return 0;
    int saved = errno;
    void *mapped = mmap(NULL, MAPPED_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED && DEFECT != UNAWARE) {
        errno = ENOMEM;
        return -1;
    }
    errno = saved;
    set->_state = (uintptr_t)mapped;
    return 0;
}

static void unmap_shared(cm_counters *set) {
    if (set->_state && DEFECT != LEAKS)
        munmap((void *)(uintptr_t)set->_state, MAPPED_BYTES);
    set->_state = 0;
}

static void add_remote(cm_counters *set, size_t i, int64_t amount) {
    int saved = errno;
    add(set, i, amount);
    if (llabs(sum(set, i)) >> 30 && share(set) != 0 && DEFECT != OVERFLOWS)
        die("commensal: a counter is about to overflow, and there is no memory to upgrade it\n");
    errno = saved;
}

static void rebind(cm_counters *set, size_t length) {
    unmap_shared(set);
    for (size_t i = 0; i < length && DEFECT == BIND_CLEARS; i++)
        reset(set, i);
}

static void destroy(cm_counters *set, size_t length) {
    unmap_shared(set);
    for (size_t i = 0; i < length && DEFECT != DESTROY_KEEPS; i++)
        reset(set, i);
}

/* One counter is a set of one. */
#define SET(counter) ((cm_counters *)(uintptr_t)(counter))

void cm_counter_add(cm_counter *c, int64_t amount) {
    add(c, 0, amount);
}
void cm_counter_sub(cm_counter *c, int64_t amount) {
    add(c, 0, (int64_t)(0 - (uint64_t)amount));
}
void cm_counter_add_local(cm_counter *c, int64_t amount) {
    add(c, 0, amount);
}
void cm_counter_add_remote(cm_counter *c, int64_t amount) {
    add_remote(SET(c), 0, amount);
}
int cm_counter_share(cm_counter *c) {
    return share(SET(c));
}
bool cm_counter_is_shared(const cm_counter *c) {
    return SET(c)->_state != 0;
}
void cm_counter_bind(cm_counter *c) {
    rebind(SET(c), 1);
}
cm_reading cm_counter_read(const cm_counter *c) {
    return read_word(SET(c), 0);
}
cm_reading cm_counter_read_positive(const cm_counter *c) {
    return positive(read_word(SET(c), 0));
}
int64_t cm_counter_sum(const cm_counter *c) {
    return sum(c, 0);
}
int64_t cm_counter_sum_positive(const cm_counter *c) {
    return sum(c, 0) > 0 ? sum(c, 0) : 0;
}
int cm_counter_compare(const cm_counter *c, int64_t with) {
    return compare(c, 0, with);
}
bool cm_counter_limited_add(cm_counter *c, int64_t amount, int64_t limit) {
    return limited_add(c, 0, amount, limit);
}
void cm_counter_set(cm_counter *c, int64_t value) {
    add(c, 0, value - sum(c, 0));
}
int64_t cm_counter_reset(cm_counter *c) {
    return reset(c, 0);
}
void cm_counter_destroy(cm_counter *c) {
    destroy(SET(c), 1);
}

size_t cm_counters_bytes(size_t n) {
    if ((n == 0 || n > CM_COUNTERS_MOST) && DEFECT != ANY_LENGTH) {
        errno = EINVAL;
        return 0;
    }
    return (16 + 12 * n + 7) / 8 * 8;
}
cm_counters *cm_counters_begin(void *place, size_t n) {
    if (cm_counters_bytes(n) == 0)
        return NULL;
    memset(place, 0, n <= CM_COUNTERS_MOST ? cm_counters_bytes(n) : sizeof(cm_counters));
    ((cm_counters *)place)->_length = (uint32_t)n;
    return place;
}
void cm_counters_add(cm_counters *set, size_t i, int64_t amount) {
    add(set, i, amount);
}
void cm_counters_sub(cm_counters *set, size_t i, int64_t amount) {
    add(set, i, -amount);
}
void cm_counters_add_local(cm_counters *set, size_t i, int64_t amount) {
    add(set, i, amount);
}
void cm_counters_add_remote(cm_counters *set, size_t i, int64_t amount) {
    add_remote(set, i, amount);
}
int cm_counters_share(cm_counters *set) {
    return share(set);
}
bool cm_counters_is_shared(const cm_counters *set) {
    return set->_state != 0;
}
void cm_counters_bind(cm_counters *set) {
    rebind(set, set->_length);
}
cm_reading cm_counters_read(const cm_counters *set, size_t i) {
    return read_word(set, i);
}
cm_reading cm_counters_read_positive(const cm_counters *set, size_t i) {
    return positive(read_word(set, i));
}
int64_t cm_counters_sum(const cm_counters *set, size_t i) {
    return sum(set, i);
}
int64_t cm_counters_sum_positive(const cm_counters *set, size_t i) {
    return sum(set, i) > 0 ? sum(set, i) : 0;
}
int cm_counters_compare(const cm_counters *set, size_t i, int64_t value) {
    return compare(set, i, value);
}
bool cm_counters_limited_add(cm_counters *set, size_t i, int64_t amount, int64_t limit) {
    return limited_add(set, i, amount, limit);
}
void cm_counters_set(cm_counters *set, size_t i, int64_t value) {
    add(set, i, value - sum(set, i));
}
int64_t cm_counters_reset(cm_counters *set, size_t i) {
    return reset(set, i);
}
void cm_counters_destroy(cm_counters *set) {
    destroy(set, set->_length);
}
