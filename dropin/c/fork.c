/* Fork at any moment, in every way there is: the child can use the heap fully.
 *
 * storm FORKS WAYS [PATIENCE]  four threads fork while three others allocate and free like mad, until FORKS
 *                              children ended; WAYS is a comma-separated list of fork, _Fork, syscall, clone,
 *                              vfork, spawn
 * handlers FORKS               the same with fork(), and fork handlers that allocate in prepare, parent and
 *                              child; some registered before any library's constructor ran, some late
 * solo                         forks of a process with one thread: nested, and followed by threads
 * vfork_allocates              a child of vfork in a process with one thread allocates before it execs, as
 *                              shells do
 * vfork_beside_threads         children of vfork allocate in a process with threads
 * page_truncated               the statistics page of a process is cut off, which goes on
 * vfork_pages                  the same for a fifth of a second, in a process that is to have a statistics page:
 *                              there is none but its own, although its children were it for most of the time
 *
 * A child that hangs is killed by its own alarm, after PATIENCE seconds, so that the report names the way it
 * was forked.
 *
 * libc has locks of its own, which _Fork and the raw calls leave as they are. So their children never call
 * fork(); they do create threads, since no thread of the parent creates or ends any while the storm runs. */
#include "churn.h"

#include <dirent.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

enum { FORKERS = 4, CHURNERS = 3 };

static unsigned patience_seconds = HANGS_AFTER_SECONDS;

/* -- Ways to fork. Each returns the child's id, 0 in a child that runs our code. -- */

static pid_t by_syscall(void) { return (pid_t)syscall(SYS_fork); }

static pid_t by_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

static pid_t by_vfork(void) {
    char *const arguments[] = {(char *)"true", NULL};
    pid_t child = vfork();
    if (child == 0) {
        execve("/bin/true", arguments, environ);
        _exit(127);
    }
    return child;
}

static pid_t by_spawn(void) {
    char *const arguments[] = {(char *)"true", NULL};
    pid_t child = -1;
    int error = posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ);
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
    for (size_t i = 0; i < WAYS; i++) {
        const char *found = strstr(list, all_ways[i].name);
        /* "fork" is also the end of "vfork". */
        while (found && found != list && found[-1] != ',')
            found = strstr(found + 1, all_ways[i].name);
        if (found)
            chosen[chosen_count++] = &all_ways[i];
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

static void use_thread(uint64_t seed) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, thread_of_child, (void *)(uintptr_t)seed);
    CHECK(error == 0, "pthread_create in a child returned %d", error);
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join in a child failed");
}

static void wait_for(pid_t child, const char *way) {
    int status = 0;
    CHECK(child > 0, "%s failed with errno %d", way, errno);
    CHECK(waitpid(child, &status, 0) == child, "waitpid failed with errno %d", errno);
    CHECK(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM, "a child of %s hangs", way);
    CHECK(!WIFSIGNALED(status), "a child of %s was ended by signal %d", way, WTERMSIG(status));
    CHECK(WEXITSTATUS(status) == 0, "a child of %s ended with status %d", way, WEXITSTATUS(status));
}

static void grandchild(const struct way *way, uint64_t seed) {
    pid_t pid = way->fork();
    if (pid == 0) {
        burst(&seed);
        _exit(0);
    }
    wait_for(pid, way->name);
}

/* `own` belongs to the thread that forked; the mailboxes hold blocks of threads that don't exist here.
 * Every child frees inherited blocks and allocates thousands; one in eight goes on to do everything. */
static void child(const struct way *way, struct churn *own, size_t number) {
    alarm(patience_seconds);
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

static atomic_bool stop;
static atomic_size_t forks_begun, forks_wanted;

/* Polite, so that forks are not held up by time slices; a fork then catches it wherever it was preempted. */
static void *churner(void *argument) {
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
    struct churn churn;
    churn_begin(&churn, (uintptr_t)argument, 128 * KIB);
    while (!atomic_load(&stop)) {
        churn_steps(&churn, 100);
        mailbox_steps(&churn.random, 100, 2 * KIB);
        burst(&churn.random);
    }
    churn_end(&churn);
    return NULL;
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
        wait_for(pid, way->name);
    }
    churn_end(&churn);
    return NULL;
}

static void storm(size_t forks) {
    pthread_t threads[FORKERS + CHURNERS];
    atomic_store(&forks_wanted, forks);
    for (size_t i = 0; i < FORKERS + CHURNERS; i++) {
        int error = pthread_create(&threads[i], NULL, i < FORKERS ? forker : churner, (void *)(uintptr_t)(i + 1));
        CHECK(error == 0, "pthread_create returned %d", error);
    }
    for (size_t i = 0; i < FORKERS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    for (size_t i = FORKERS; i < FORKERS + CHURNERS; i++)
        pthread_join(threads[i], NULL);
    mailboxes_empty();
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

static void prepare(size_t set) {
    if (!handlers_active)
        return;
    uint64_t random = (uint64_t)atomic_fetch_add(&handlers_run, 1) + 1;
    burst(&random);
    block_get(&held[set], &random, 64 * KIB);
}

static void after(size_t set) {
    if (!handlers_active)
        return;
    uint64_t random = (uint64_t)atomic_fetch_add(&handlers_run, 1) + 1;
    block_drop(&held[set]);
    burst(&random);
}

#define HANDLER_SET(set)                                                                                               \
    static void prepare_##set(void) { prepare(set); }                                                                  \
    static void after_##set(void) { after(set); }                                                                      \
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

static void nested(size_t depth, struct churn *churn) {
    churn_steps(churn, 200);
    if (depth == 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(patience_seconds);
        nested(depth - 1, churn);
        if (depth % 3 == 0)
            use_thread(depth);
        churn_end(churn);
        mailboxes_empty();
        _exit(0);
    }
    wait_for(pid, "nested fork");
}

static void check_solo(void) {
    static struct churn churn;
    churn_begin(&churn, 1, MIB);
    for (size_t i = 0; i < 100; i++) {
        churn_steps(&churn, 100);
        const struct way *way = &all_ways[i % 4];
        pid_t pid = way->fork();
        if (pid == 0)
            child(way, &churn, i);
        wait_for(pid, way->name);
        nested(i % 10, &churn);
    }
    use_thread(1);
    nested(5, &churn);
    churn_end(&churn);
}

static void vfork_and_allocate(struct churn *churn) {
    char *const arguments[] = {(char *)"true", NULL};
    pid_t pid = vfork();
    if (pid == 0) {
        churn_steps(churn, 100);
        execve("/bin/true", arguments, environ);
        _exit(127);
    }
    wait_for(pid, "vfork");
}

static void check_vfork_allocates(void) {
    static struct churn churn;
    churn_begin(&churn, 1, 64 * KIB);
    for (size_t i = 0; i < 300; i++) {
        churn_steps(&churn, 100);
        vfork_and_allocate(&churn);
    }
    churn_end(&churn);
}

static atomic_bool vforks_end;

static void *churn_beside(void *seed) {
    struct churn churn;
    churn_begin(&churn, (uintptr_t)seed, 64 * KIB);
    while (!atomic_load(&vforks_end))
        churn_steps(&churn, 100);
    churn_end(&churn);
    return NULL;
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

/* Children have a heap of their own in a program with threads, too: their blocks and those of others do not overlap.
 * What they leave behind, the parent frees. Where they allow themselves filters, the parent does not. */
static void check_vfork_beside_threads(void) {
    static void *blocks[1000];
    pthread_t threads[4];
    static struct churn churn;
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, churn_beside, (void *)(i + 1)) == 0, "no thread");
    churn_begin(&churn, 5, 64 * KIB);
    for (int round = 0; round < 300; round++) {
        pid_t pid = vfork();
        if (pid == 0) {
            if (round == 0)
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            for (int i = 0; i < 20; i++)
                churn_steps(&churn, 100);
            for (size_t i = 0; i < 1000; i++)
                blocks[i] = malloc(64);
            _exit(0);
        }
        wait_for(pid, "vfork");
        for (size_t i = 0; i < 1000; i++)
            free(blocks[i]);
        churn_steps(&churn, 100);
    }
    CHECK(!is_said("is plain yes"), "the parent is in plain mode");
    atomic_store(&vforks_end, true);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
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
        vfork_and_allocate(&churn);
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
