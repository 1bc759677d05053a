/* Fork at any moment, in every way there is: the child can use the heap fully.
 *
 * storm FORKS WAYS [PATIENCE]  four threads fork while three others allocate and free like mad, until FORKS
 *                              children ended; WAYS is a comma-separated list of fork, _Fork, syscall, clone,
 *                              vfork, spawn
 * handlers FORKS               the same with fork(), and fork handlers that allocate in prepare, parent and
 *                              child; some registered before any library's constructor ran, some late
 * solo                         forks of a process with one thread, whose children have threads and children
 * vfork_allocates              a child of vfork in a process with one thread allocates before it execs, as
 *                              shells do
 * vfork_beside_threads         children of vfork allocate in a process with threads
 * page_truncated               the statistics page of a process is cut off, which goes on
 * vfork_pages                  the same for a fifth of a second, in a process that is to have a statistics page:
 *                              there is none but its own, although its children were it for most of the time
 *
 * A child that hangs is killed after PATIENCE seconds, and the report names the way it was forked.
 *
 * libc has locks of its own, which _Fork and the raw calls leave as they are. So their children never call
 * fork(); they do create threads, since no thread of the parent creates or ends any while the storm runs. */
#include "churn.h"

#include <dirent.h>
#include <limits.h>
#include <malloc.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

extern char **environ;

enum { FORKERS = 4, CHURNERS = 3 };

/* -- Ways to fork. Each returns the child's id, 0 in a child that runs our code. -- */

static pid_t by_syscall(void) { return (pid_t)syscall(SYS_fork); }

static pid_t by_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

static char *const true_arguments[] = {(char *)"true", NULL};

/* If there is a churn, the child goes on with it before it executes a program. */
static pid_t vfork_with(struct churn *churn) {
    pid_t child = vfork();
    if (child == 0) {
        if (churn)
            churn_steps(churn, 100);
        execve("/bin/true", true_arguments, environ);
        _exit(127);
    }
    return child;
}

static pid_t by_vfork(void) { return vfork_with(NULL); }

static pid_t by_spawn(void) {
    pid_t child = -1;
    int error = posix_spawn(&child, "/bin/true", NULL, NULL, true_arguments, environ);
    CHECK(error == 0, "posix_spawn returned %d", error);
    return child;
}

struct way {
    const char *name;
    pid_t (*fork)(void);
};

static const struct way all_ways[] = {{"fork", fork},      {"_Fork", _Fork},    {"syscall", by_syscall},
                                      {"clone", by_clone}, {"vfork", by_vfork}, {"spawn", by_spawn}};

enum { WAYS = sizeof all_ways / sizeof *all_ways };

static const struct way *chosen[WAYS];
static size_t chosen_count;

static void choose_ways(const char *list) {
    char words[100];
    snprintf(words, sizeof words, "%s", list);
    for (char *word = strtok(words, ","); word; word = strtok(NULL, ",")) {
        for (size_t i = 0; i < WAYS; i++) {
            if (strcmp(word, all_ways[i].name) == 0)
                chosen[chosen_count++] = &all_ways[i];
        }
    }
    CHECK(chosen_count > 0, "no known way to fork in %s", list);
}

/* -- What a child does. -- */

static void *thread_of_child(void *argument) {
    uint64_t random = (uintptr_t)argument;
    burst(&random);
    mailbox_steps(&random, 100, 32 * KIB);
    return NULL;
}

static void use_thread(uint64_t seed) { thread_join(thread_start(thread_of_child, (void *)(uintptr_t)seed)); }

/* Nobody outlives a parent that was killed. */
static void child_begins(void) { alarm(patience_seconds + 1); }

static void grandchild(const struct way *way, uint64_t seed) {
    pid_t pid = way->fork();
    if (pid == 0) {
        child_begins();
        burst(&seed);
        _exit(0);
    }
    child_ends(pid, 0, "%s", way->name);
}

/* `own` belongs to the thread that forked; the mailboxes hold blocks of threads that don't exist here.
 * Every child frees inherited blocks and allocates thousands; one in eight goes on to do everything. */
static void child(const struct way *way, struct churn *own, size_t number) {
    child_begins();
    uint64_t seed = number * 2654435761u + 1;
    burst(&seed);
    mailbox_steps(&seed, 100, KIB);
    churn_steps(own, 100);
    if (number % 8 == 0) {
        own->largest = MIB;
        churn_steps(own, 1000);
        mailboxes_empty();
        free(realloc(malloc(100), random_below(&seed, MIB)));
        malloc_trim(0);
        churn_end(own);
    }
    if (number % 16 < 2)
        use_thread(seed);
    if (number % 16 == 2)
        grandchild(way, seed);
    burst(&seed);
    _exit(0);
}

/* -- The storm. -- */

static atomic_size_t forks_begun, forks_wanted;

/* Polite, so that forks are not held up by time slices; a fork then catches it wherever it was preempted. */
static void *churner(void *seed) {
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
    return work_until_stop(seed);
}

static void *forker(void *argument) {
    struct churn churn;
    churn_begin(&churn, (uintptr_t)argument, 128 * KIB);
    for (;;) {
        size_t number = atomic_fetch_add(&forks_begun, 1);
        if (number >= atomic_load(&forks_wanted))
            break;
        churn_steps(&churn, 20);
        mailbox_steps(&churn.random, 10, 2 * KIB);
        const struct way *way = chosen[number % chosen_count];
        pid_t pid = way->fork();
        if (pid == 0)
            child(way, &churn, number);
        child_ends(pid, 0, "%s", way->name);
    }
    churn_end(&churn);
    return NULL;
}

static void storm(size_t forks) {
    pthread_t forkers[FORKERS], churners[CHURNERS];
    atomic_store(&forks_wanted, forks);
    threads_start(forkers, FORKERS, forker);
    threads_start(churners, CHURNERS, churner);
    threads_join(forkers, FORKERS);
    threads_stop(churners, CHURNERS);
}

static void check_storm(void) {
    choose_ways(argument(1) ? argument(1) : "fork");
    patience_seconds = (unsigned)number_argument(2, patience_seconds);
    storm(number_argument(0, 1000));
}

/* -- Fork handlers that allocate. -- */

static bool handlers_active;
static atomic_size_t handlers_run;

enum { HANDLER_SETS = 3 };

static _Thread_local struct block held[HANDLER_SETS];

static void handle(size_t set, bool is_first) {
    if (!handlers_active)
        return;
    uint64_t random = (uint64_t)atomic_fetch_add(&handlers_run, 1) + 1;
    burst(&random);
    if (is_first)
        block_get(&held[set], &random, 64 * KIB);
    else
        block_drop(&held[set]);
}

#define HANDLER_SET(set)                                                                                               \
    static void prepare_##set(void) { handle(set, true); }                                                             \
    static void after_##set(void) { handle(set, false); }                                                              \
    static void register_##set(void) {                                                                                 \
        CHECK(pthread_atfork(prepare_##set, after_##set, after_##set) == 0, "pthread_atfork failed");                  \
    }

HANDLER_SET(0)
HANDLER_SET(1)
HANDLER_SET(2)

/* Runs before the constructors of all libraries, so these handlers are outside of everybody's:
 * prepare comes last, parent and child come first. */
__attribute__((section(".preinit_array"), used)) static void (*const register_first)(void) = register_0;

__attribute__((constructor(101))) static void register_second(void) { register_1(); }

static void check_handlers(void) {
    register_2();
    handlers_active = true;
    choose_ways("fork");
    storm(number_argument(0, 1000));
    CHECK(atomic_load(&handlers_run) > 0, "no fork handler ran");
}

/* -- A process with one thread. -- */

static void check_solo(void) {
    static struct churn churn;
    churn_begin(&churn, 1, MIB);
    for (size_t i = 0; i < 100; i++) {
        churn_steps(&churn, 100);
        const struct way *way = &all_ways[i % 4];
        pid_t pid = way->fork();
        if (pid == 0)
            child(way, &churn, i);
        child_ends(pid, 0, "%s", way->name);
    }
    use_thread(1);
    churn_end(&churn);
}

static void check_vfork_allocates(void) {
    static struct churn churn;
    churn_begin(&churn, 1, 64 * KIB);
    for (size_t i = 0; i < 300; i++) {
        churn_steps(&churn, 100);
        child_ends(vfork_with(&churn), 0, "vfork");
    }
    churn_end(&churn);
}

/* Whether the statistics say something, in the parent of a child that has shut itself in. */
static bool is_said(const char *what) {
    static char text[64 * KIB];
    int ends[2], usual = dup(STDERR_FILENO);
    CHECK(usual >= 0 && pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0, "errno %d", errno);
    malloc_stats();
    CHECK(dup2(usual, STDERR_FILENO) >= 0, "errno %d", errno);
    ssize_t bytes = read(ends[0], text, sizeof text - 1);
    CHECK(bytes > 0, "nothing is said");
    text[bytes] = 0;
    close(usual), close(ends[0]), close(ends[1]);
    return strstr(text, what) != NULL;
}

static void *left[1000];

/* The child leaves blocks behind. */
static pid_t vfork_to_leave(struct churn *churn, bool shuts_itself_in) {
    pid_t pid = vfork();
    if (pid == 0) {
        if (shuts_itself_in)
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        churn_steps(churn, 2000);
        for (size_t i = 0; i < 1000; i++)
            left[i] = malloc(64);
        _exit(0);
    }
    return pid;
}

/* Children have a heap of their own in a program with threads, too: their blocks and those of others do not overlap.
 * What they leave behind, the parent frees. Where they allow themselves filters, the parent does not. */
static void check_vfork_beside_threads(void) {
    pthread_t threads[4];
    static struct churn churn;
    threads_start(threads, 4, work_until_stop);
    churn_begin(&churn, 5, 64 * KIB);
    for (int round = 0; round < 300; round++) {
        child_ends(vfork_to_leave(&churn, round == 0), 0, "vfork");
        for (size_t i = 0; i < 1000; i++)
            free(left[i]);
        churn_steps(&churn, 100);
    }
    CHECK(!is_said("is plain yes"), "the parent is in plain mode");
    threads_stop(threads, 4);
    churn_end(&churn);
}

/* The numbers of processes that have a statistics page, as text; an empty one: nobody has. */
static void page_owners(char *owners, size_t bytes) {
    const char *runtime_folder = getenv("XDG_RUNTIME_DIR");
    CHECK(runtime_folder != NULL, "XDG_RUNTIME_DIR is not set");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/commensal", runtime_folder);
    owners[0] = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            snprintf(owners + strlen(owners), bytes - strlen(owners), " %s", entry->d_name);
    if (folder != NULL)
        closedir(folder);
}

/* Somebody truncates the page of a process that goes on. */
static void check_page_truncated(void) {
    static struct churn churn;
    char owners[200] = "", path[PATH_MAX];
    churn_begin(&churn, 1, 64 * KIB);
    for (double end = seconds_now() + 20; owners[0] == 0 && seconds_now() < end;) {
        churn_steps(&churn, 1000);
        page_owners(owners, sizeof owners);
    }
    snprintf(path, sizeof path, "%s/commensal/%s", getenv("XDG_RUNTIME_DIR"), owners + 1);
    CHECK(truncate(path, 0) == 0, "%s: errno %d", path, errno);
    for (double end = seconds_now() + 0.3; seconds_now() < end;)
        churn_steps(&churn, 1000);
    struct stat status;
    CHECK(stat(path, &status) == 0 && status.st_size == 0, "somebody wrote %s again", path);
    churn_end(&churn);
}

static void check_vfork_pages(void) {
    static struct churn churn;
    char owners[200], own[20];
    churn_begin(&churn, 1, 64 * KIB);
    for (double end = seconds_now() + 0.2; seconds_now() < end;)
        child_ends(vfork_with(&churn), 0, "vfork");
    snprintf(own, sizeof own, " %d", getpid());
    page_owners(owners, sizeof owners);
    CHECK(owners[0] == 0 || strcmp(owners, own) == 0, "pages of%s, this is%s", owners, own);
    for (double end = seconds_now() + 20; strcmp(owners, own) != 0 && seconds_now() < end;) {
        churn_steps(&churn, 1000);
        page_owners(owners, sizeof owners);
    }
    CHECK(strcmp(owners, own) == 0, "pages of%s, this is%s", owners, own);
    churn_end(&churn);
}

CHECKS({"storm", check_storm}, {"handlers", check_handlers}, {"solo", check_solo},
       {"vfork_allocates", check_vfork_allocates}, {"vfork_beside_threads", check_vfork_beside_threads},
       {"page_truncated", check_page_truncated}, {"vfork_pages", check_vfork_pages})
