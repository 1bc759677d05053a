/* Times each malloc and free of a program. Preloaded before the allocator, it reads the time-stamp counter before and
 * after each call, and calls the next function of that name. All allocators are timed alike: each figure contains an
 * empty timing, some 20 ns.
 *
 *   $TAIL_FILE, mapped by all processes:   shard 0: allocating, freeing | shard 1: allocating, freeing | ...
 *   each half:                             the longest call | calls by their ticks, in BUCKETS counts
 *
 * A bucket is at most a part in FINE wide. Each call is counted at once, in the shard of its CPU. So nothing is lost if
 * a process forks, calls _exit or is killed. A call within a call, as malloc in operator new, counts as part of it.
 * src/probe/tail.rs compiles this, makes the file and reads it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

enum { ALLOCATING, FREEING, KINDS };
enum { FINE_BITS = __builtin_ctz(FINE), CPU_MASK = 0xfff };

struct histogram {
	_Atomic uint64_t longest, calls[BUCKETS];
};

typedef struct histogram shard[KINDS];

/* Null until the first call ends. A process without a file counts into memory that nothing reads. */
static shard *_Atomic shards;
static shard nowhere[SHARDS];

/* Of the static TLS, because reaching any other may allocate. A thread whose operator new threw is timed no more. */
static __thread __attribute__((tls_model("initial-exec"))) enum { OUTSIDE, INSIDE, FINDING } place;

static shard *map(void)
{
	int kept = errno;
	shard *found = nowhere, *none = NULL;
	const char *name = getenv("TAIL_FILE");
	int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
	if (file >= 0) {
		void *mapped = mmap(NULL, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		found = mapped == MAP_FAILED ? nowhere : mapped;
		close(file);
	}
	if (!atomic_compare_exchange_strong(&shards, &none, found)) {
		if (found != nowhere)
			munmap(found, sizeof nowhere);
		found = none;
	}
	errno = kept;
	return found;
}

static inline uint64_t begin(void)
{
	place = INSIDE;
	_mm_lfence();
	uint64_t ticks = __rdtsc();
	_mm_lfence();
	return ticks;
}

static inline void end(int kind, uint64_t began)
{
	unsigned cpu;
	uint64_t ticks = __rdtscp(&cpu) - began;
	place = OUTSIDE;
	shard *all = atomic_load_explicit(&shards, memory_order_acquire);
	struct histogram *of = &(all ? all : map())[(cpu & CPU_MASK) % SHARDS][kind];
	/* The counters of two CPUs may differ by a few ticks. */
	if ((int64_t)ticks < 0)
		ticks = 0;
	int shift = ticks < FINE ? 0 : 63 - __builtin_clzll(ticks) - FINE_BITS;
	atomic_fetch_add_explicit(&of->calls[shift * FINE + (ticks >> shift)], 1, memory_order_relaxed);
	uint64_t longest = atomic_load_explicit(&of->longest, memory_order_relaxed);
	while (ticks > longest && !atomic_compare_exchange_weak(&of->longest, &longest, ticks))
		;
}

/* What dlsym allocates while it looks for malloc. It is never freed. */
static _Alignas(16) char early[1 << 16];
static _Atomic size_t early_bytes;

static int is_early(const void *block)
{
	return (const char *)block >= early && (const char *)block < early + sizeof early;
}

static void *allocate_early(size_t bytes)
{
	size_t rounded = (bytes + 31) & ~(size_t)15, at = atomic_fetch_add(&early_bytes, rounded);
	if (at + rounded > sizeof early)
		abort();
	return early + at;
}

/* The next function of this name, or null. A C++ library may be loaded later, so a search in vain is repeated. */
static void *find(void *_Atomic *known, const char *name)
{
	void *found = atomic_load_explicit(known, memory_order_relaxed);
	if (!found && place != FINDING) {
		int before = place, kept = errno;
		place = FINDING;
		found = dlsym(RTLD_NEXT, name);
		place = before;
		errno = kept;
		atomic_store_explicit(known, found, memory_order_relaxed);
	}
	return found;
}

/* A function that allocates; `otherwise` is its result if there is no next one. */
#define ALLOCATES(type, symbol, name, parameters, arguments, otherwise)   \
	type name parameters __asm__(symbol);                             \
	type name parameters                                              \
	{                                                                 \
		static void *_Atomic known;                               \
		type (*next) parameters = find(&known, symbol);           \
		if (!next)                                                \
			return otherwise;                                 \
		if (place != OUTSIDE)                                     \
			return next arguments;                            \
		uint64_t began = begin();                                 \
		type result = next arguments;                             \
		end(ALLOCATING, began);                                   \
		return result;                                            \
	}

/* A function that frees; a null pointer, which takes no time, is not counted. */
#define FREES(symbol, name, parameters, arguments, otherwise)             \
	void name parameters __asm__(symbol);                             \
	void name parameters                                              \
	{                                                                 \
		static void *_Atomic known;                               \
		if (!block || is_early(block))                            \
			return;                                           \
		void (*next) parameters = find(&known, symbol);           \
		if (!next) {                                              \
			otherwise;                                        \
		} else if (place != OUTSIDE) {                            \
			next arguments;                                   \
		} else {                                                  \
			uint64_t began = begin();                         \
			next arguments;                                   \
			end(FREEING, began);                              \
		}                                                         \
	}

#define BYTES (size_t bytes)
#define ALIGNED (size_t alignment, size_t bytes)
ALLOCATES(void *, "malloc", timed_malloc, BYTES, (bytes), allocate_early(bytes))
ALLOCATES(void *, "calloc", timed_calloc, (size_t count, size_t bytes), (count, bytes), allocate_early(count * bytes))
ALLOCATES(void *, "aligned_alloc", timed_aligned_alloc, ALIGNED, (alignment, bytes), NULL)
ALLOCATES(void *, "memalign", timed_memalign, ALIGNED, (alignment, bytes), NULL)
ALLOCATES(void *, "valloc", timed_valloc, BYTES, (bytes), NULL)
ALLOCATES(void *, "pvalloc", timed_pvalloc, BYTES, (bytes), NULL)
ALLOCATES(int, "posix_memalign", timed_posix_memalign, (void **block, size_t alignment, size_t bytes),
	  (block, alignment, bytes), ENOMEM)
FREES("free", timed_free, (void *block), (block), )

static void *move(void *block, size_t bytes);
ALLOCATES(void *, "reallocarray", timed_reallocarray, (void *block, size_t count, size_t bytes), (block, count, bytes),
	  move(block, count * bytes))

static void *move_early(void *block, size_t bytes)
{
	void *moved = timed_malloc(bytes);
	size_t left = (size_t)(early + sizeof early - (char *)block);
	return moved ? memcpy(moved, block, bytes < left ? bytes : left) : NULL;
}

void *realloc(void *block, size_t bytes)
{
	return is_early(block) ? move_early(block, bytes) : move(block, bytes);
}

static void *move(void *block, size_t bytes)
{
	static void *_Atomic known;
	void *(*next)(void *, size_t) = find(&known, "realloc");
	if (!next)
		return allocate_early(bytes);
	if (place != OUTSIDE)
		return next(block, bytes);
	uint64_t began = begin();
	void *moved = next(block, bytes);
	end(ALLOCATING, began);
	return moved;
}

/* C++'s operators. Without a C++ library in reach, a plugin brings its own, and these are as good as malloc. */
static void *or_abort(void *block)
{
	if (!block)
		abort();
	return block;
}

#define NEW(symbol, name) ALLOCATES(void *, symbol, name, BYTES, (bytes), or_abort(timed_malloc(bytes)))
#define NEW_NOTHROW(symbol, name)                                                                     \
	ALLOCATES(void *, symbol, name, (size_t bytes, const void *tag), (bytes, tag), timed_malloc(bytes))
#define NEW_ALIGNED(symbol, name)                                                                     \
	ALLOCATES(void *, symbol, name, (size_t bytes, size_t alignment), (bytes, alignment),         \
		  or_abort(timed_memalign(alignment, bytes)))
#define NEW_ALIGNED_NOTHROW(symbol, name)                                                             \
	ALLOCATES(void *, symbol, name, (size_t bytes, size_t alignment, const void *tag),            \
		  (bytes, alignment, tag), timed_memalign(alignment, bytes))
#define DELETE(symbol, name) FREES(symbol, name, (void *block), (block), timed_free(block))
#define DELETE_WITH(symbol, name) FREES(symbol, name, (void *block, size_t with), (block, with), timed_free(block))
#define DELETE_WITH_TWO(symbol, name)                                                                 \
	FREES(symbol, name, (void *block, size_t one, size_t two), (block, one, two), timed_free(block))

NEW("_Znwm", new_one)
NEW("_Znam", new_array)
NEW_NOTHROW("_ZnwmRKSt9nothrow_t", new_one_nothrow)
NEW_NOTHROW("_ZnamRKSt9nothrow_t", new_array_nothrow)
NEW_ALIGNED("_ZnwmSt11align_val_t", new_one_aligned)
NEW_ALIGNED("_ZnamSt11align_val_t", new_array_aligned)
NEW_ALIGNED_NOTHROW("_ZnwmSt11align_val_tRKSt9nothrow_t", new_one_aligned_nothrow)
NEW_ALIGNED_NOTHROW("_ZnamSt11align_val_tRKSt9nothrow_t", new_array_aligned_nothrow)
DELETE("_ZdlPv", delete_one)
DELETE("_ZdaPv", delete_array)
DELETE_WITH("_ZdlPvm", delete_one_sized)
DELETE_WITH("_ZdaPvm", delete_array_sized)
DELETE_WITH("_ZdlPvSt11align_val_t", delete_one_aligned)
DELETE_WITH("_ZdaPvSt11align_val_t", delete_array_aligned)
DELETE_WITH("_ZdlPvRKSt9nothrow_t", delete_one_nothrow)
DELETE_WITH("_ZdaPvRKSt9nothrow_t", delete_array_nothrow)
DELETE_WITH_TWO("_ZdlPvmSt11align_val_t", delete_one_sized_aligned)
DELETE_WITH_TWO("_ZdaPvmSt11align_val_t", delete_array_sized_aligned)
DELETE_WITH_TWO("_ZdlPvSt11align_val_tRKSt9nothrow_t", delete_one_aligned_nothrow)
DELETE_WITH_TWO("_ZdaPvSt11align_val_tRKSt9nothrow_t", delete_array_aligned_nothrow)
