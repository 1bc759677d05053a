/* RCU as commensal.h has it: each function, the header's own ones, and errno. Linked with the library, not preloaded.
 * What RCU promises is tested in runtime/tests and exploration; examples/rcu_list.c uses the list.
 *
 * basics       sections and grace periods
 * deferred     what is deferred waits for a section, is called for and freed, and knobs are set
 * registered   readers that registered report as the policy says, and not in a section
 * sandboxed    grace periods while membarrier is refused, and in plain mode
 * main_leaves  a process in which only the library has a thread left ends */
#include "filter.h"
#include <commensal.h>
#include <stdatomic.h>

/* Grace periods that nothing keeps from being over are, after so many questions. */
enum { QUESTIONS = 1000 };

static bool is_over_soon(uint64_t number) {
    for (int i = 0; i < QUESTIONS; i++) {
        if (cm_rcu_is_over(number))
            return true;
    }
    return false;
}

static void check_basics(void) {
    errno = 1234;
    cm_rcu_section outer = cm_rcu_read_lock(), inner = cm_rcu_read_lock();
    uint64_t number = cm_rcu_start();
    CHECK(!is_over_soon(number), "a grace period was over in two sections");
    cm_rcu_read_unlock(outer);
    CHECK(!is_over_soon(number), "a grace period was over in a section");
    cm_rcu_read_unlock(inner);
    CHECK(is_over_soon(number), "a grace period was not over after the last section");
    CHECK(cm_rcu_is_over(number), "a grace period was over, and is not any more");
    uint64_t before = cm_rcu_grace_periods();
    cm_rcu_synchronize();
    cm_rcu_synchronize_expedited();
    CHECK(cm_rcu_grace_periods() == before + 2, "two grace periods counted as %llu",
          (unsigned long long)(cm_rcu_grace_periods() - before));
    CHECK(errno == 1234, "errno is %d", errno);
}

static atomic_int step;

static void wait_for(int wanted) {
    while (atomic_load(&step) < wanted)
        usleep(100);
}

static void *hold(void *unused) {
    cm_rcu_section section = cm_rcu_read_lock();
    atomic_store(&step, 1);
    wait_for(2);
    cm_rcu_read_unlock(section);
    return unused;
}

/* A thread that has opened a section. */
static pthread_t start_holder(void) {
    atomic_store(&step, 0);
    pthread_t holder = thread_start(hold, NULL);
    wait_for(1);
    return holder;
}

static void end_holder(pthread_t holder) {
    atomic_store(&step, 2);
    thread_join(holder);
}

static int calls;

static void be_called(cm_rcu_head *head) {
    calls++;
    free(head);
}

static void check_deferred(void) {
    cm_rcu_waiting waiting;
    errno = 1234;
    cm_rcu_defer_free(NULL);
    cm_rcu_barrier();
    CHECK(cm_set("rcu.high_kib", 100000) == 0, "a setting was refused");
    pthread_t holder = start_holder();
    cm_rcu_call(malloc(sizeof(cm_rcu_head)), be_called);
    cm_rcu_defer_free(malloc(100000));
    cm_rcu_count_waiting(&waiting);
    CHECK(waiting.objects == 2 && waiting.bytes >= 100000 && calls == 0, "%llu objects of %llu bytes wait",
          (unsigned long long)waiting.objects, (unsigned long long)waiting.bytes);
    end_holder(holder);
    cm_rcu_barrier();
    cm_rcu_count_waiting(&waiting);
    CHECK(calls == 1 && waiting.objects == 0, "%d calls, %llu wait", calls, (unsigned long long)waiting.objects);
    CHECK(errno == 1234, "errno is %d", errno);
    CHECK(cm_set("rcu.high_kub", 1) == -1 && errno == ENOENT, "a setting that there is none of was set: errno %d",
          errno);
    errno = 0;
    CHECK(cm_set("rcu.bulk", 1000000) == -1 && errno == ERANGE, "a setting was set out of its range");
}

/* What another thread does with its reader until the grace period that is asked for meanwhile is over, or has had time
 * enough. */
struct part {
    uint32_t kind;
    void (*once)(cm_rcu_reader *);
    void (*again)(cm_rcu_reader *);
};

static void *play(void *argument) {
    const struct part *part = (const struct part *)argument;
    cm_rcu_reader *reader = cm_rcu_register(part->kind);
    CHECK(reader != NULL, "no reader");
    if (part->once != NULL)
        part->once(reader);
    atomic_store(&step, 1);
    while (atomic_load(&step) < 2) {
        if (part->again != NULL)
            part->again(reader);
    }
    cm_rcu_unregister(reader);
    return NULL;
}

/* Whether a grace period is over while another thread plays its part; it surely is afterwards. What is expected is
 * waited for. */
static bool is_over_beside(struct part part, bool is_expected) {
    atomic_store(&step, 0);
    pthread_t player = thread_start(play, &part);
    wait_for(1);
    uint64_t number = cm_rcu_start();
    bool is_over = false;
    for (int i = 0; i < (is_expected ? HANGS_AFTER_SECONDS * 1000 : 300) && !is_over; i++) {
        is_over = cm_rcu_is_over(number);
        usleep(1000);
    }
    end_holder(player);
    CHECK(is_over_soon(number), "a reader is waited for that is no more");
    return is_over;
}

static void lock_and_unlock(cm_rcu_reader *reader) {
    cm_rcu_reader_lock(reader);
    cm_rcu_reader_lock(reader);
    cm_rcu_reader_unlock(reader);
    cm_rcu_reader_unlock(reader);
}

static void work(cm_rcu_reader *reader) { (void)reader; }

static void be_urgent(int number) { (void)number; }

static void check_registered(void) {
    const struct {
        const char *policy;
        uint32_t n;
        struct part part;
        bool ends;
    } cases[] = {
        {"none", 0, {CM_RCU_COOPERATIVE, NULL, cm_rcu_checkpoint}, false},
        {"none", 0, {CM_RCU_COOPERATIVE, NULL, cm_rcu_checkpoint_always}, true},
        {"none", 0, {CM_RCU_COOPERATIVE, cm_rcu_offline, work}, true},
        {"counted", 100, {CM_RCU_COOPERATIVE, NULL, cm_rcu_checkpoint}, true},
        {"flagged", 0, {CM_RCU_COOPERATIVE, NULL, cm_rcu_checkpoint}, true},
        {"flagged", 0, {CM_RCU_KICKABLE, NULL, lock_and_unlock}, true},
        {"kicked", 0, {CM_RCU_KICKABLE, NULL, work}, true},
        {"kicked", 0, {CM_RCU_KICKABLE, cm_rcu_reader_lock, work}, false},
    };
    errno = 1234;
    CHECK(cm_set("rcu.till_qs_ms", 10) == 0, "a setting was refused");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(cm_rcu_set_policy(cases[i].policy, cases[i].n) == 0, "policy %s was refused", cases[i].policy);
        CHECK(is_over_beside(cases[i].part, cases[i].ends) == cases[i].ends, "case %zu: a grace period was %sover", i,
              cases[i].ends ? "not " : "");
    }
    cm_rcu_reader *own = cm_rcu_register(CM_RCU_COOPERATIVE);
    cm_rcu_reader_synchronize(own);
    uint64_t number = cm_rcu_start();
    CHECK(!is_over_soon(number), "a grace period was over before the thread's own reader reported");
    cm_rcu_offline(own);
    CHECK(is_over_soon(number), "a reader that is offline is waited for");
    cm_rcu_online(own);
    CHECK(!is_over_soon(cm_rcu_start()), "a reader that is online again is not waited for");
    cm_rcu_unregister(own);
    cm_rcu_synchronize();
    CHECK(errno == 1234, "errno is %d", errno);
    CHECK(cm_rcu_register(2) == NULL && errno == EINVAL, "a kind of reader that there is none of: errno %d", errno);
    CHECK(cm_rcu_set_policy("fragged", 1) == -1 && errno == EINVAL, "a policy that there is none of: errno %d", errno);
    CHECK(cm_rcu_set_policy("counted", 0) == -1 && errno == EINVAL, "each 0th checkpoint: errno %d", errno);
    struct sigaction action = {.sa_handler = be_urgent};
    CHECK(cm_rcu_set_policy("none", 0) == 0 && sigaction(SIGURG, &action, NULL) == 0, "no handler");
    CHECK(cm_rcu_set_policy("kicked", 0) == -1 && errno == EBUSY, "a signal of the program's own: errno %d", errno);
}

/* Has the kernel refuse membarrier from now on, by calls that the library does not see. */
static void refuse_membarrier(void) {
    struct filter filter;
    filter_begin(&filter);
    filter_call(&filter, SYS_membarrier, SECCOMP_RET_ERRNO | EPERM);
    filter_install(&filter, SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_TSYNC, false);
}

/* A section holds a grace period up; after it, that ends, and what was deferred is gone. */
static void check_beside_a_section(void) {
    pthread_t holder = start_holder();
    uint64_t number = cm_rcu_start();
    for (int i = 0; i < 100; i++, usleep(1000))
        CHECK(!cm_rcu_is_over(number), "a grace period was over in a section of another thread");
    for (int i = 0; i < 1000; i++)
        cm_rcu_defer_free(malloc(100));
    end_holder(holder);
    cm_rcu_synchronize();
    CHECK(cm_rcu_is_over(number), "a later grace period was over before");
    cm_rcu_barrier();
}

static void check_sandboxed(void) {
    check_beside_a_section();
    refuse_membarrier();
    check_beside_a_section();
    cm_sandbox_enter();
    check_beside_a_section();
    cm_group *group = cm_group_create("guest", NULL, MIB);
    cm_group_entry entry;
    CHECK(cm_group_enter(group, &entry) == 0, "not entered");
    CHECK(malloc(1000) != NULL, "no block");
    cm_group_leave(&entry);
    CHECK(cm_group_destroy(group) == 0, "a group was not destroyed: errno %d", errno);
}

static void say_so(void) { say("an exit handler ran"); }

static void *defer(void *unused) {
    for (int i = 0; i < 1000; i++)
        cm_rcu_defer_free(malloc(100));
    cm_rcu_barrier();
    return unused;
}

/* The process ends with its last thread, though the library made one of its own for what was deferred. */
static void check_main_leaves(void) {
    CHECK(atexit(say_so) == 0, "atexit failed");
    pthread_detach(thread_start(defer, NULL));
    pthread_exit(NULL);
}

CHECKS({"basics", check_basics}, {"deferred", check_deferred}, {"registered", check_registered},
       {"sandboxed", check_sandboxed}, {"main_leaves", check_main_leaves})
