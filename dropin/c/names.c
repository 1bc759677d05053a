/* Settings and statistics by name: each is read, set or refused, from a handler of signals and after a fork, too.
 *
 * `all` prints a line for each name, which a test of the command compares: kind, whether it can be set, name, value or
 * the number of the error, and text.
 */
#include "check.h"
#include <commensal.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static uint64_t value_of(const char *name) {
    uint64_t value = 0;
    CHECK(cm_get(name, &value) == 0, "%s was not read: errno %d", name, errno);
    return value;
}

static void print_all(void) {
    cm_name name;
    for (size_t number = 0; cm_name_at(number, &name) == 0; number++) {
        uint64_t value = 0;
        char text[600];
        int error = cm_get(name.name, &value) == 0 ? 0 : errno;
        CHECK(cm_get_text(name.name, text, sizeof text) == (int)strlen(text), "%s: another length", name.name);
        printf("%s %s %s %d %" PRIu64 " %s\n", name.is_statistic ? "statistic" : "setting",
               name.can_be_set ? "can" : "cannot", name.name, error, value, text);
    }
    CHECK(errno == ENOENT, "errno %d behind the last name", errno);
    puts("end");
    fflush(stdout);
}

static void come_along(void) {
    static void *objects[2000];
    for (int number = 0; number < 2000; number++)
        objects[number] = malloc(200);
    for (int number = 0; number < 2000; number++)
        free(objects[number]);
}

/* Prints all, uses slow paths until standard input ends, and prints all again. */
static void check_all(void) {
    for (int number = 0; number < 20000; number++)
        CHECK(malloc(64) != NULL && (number % 1000 != 0 || malloc(MIB) != NULL), "no block");
    come_along();
    print_all();
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, 20) == 0)
        come_along();
    print_all();
}

/* What is not as it was; the value stays. */
#define REFUSED(name, value, number)                                                                                   \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        CHECK(cm_set(name, value) == -1 && errno == (number), "%s: errno %d", name, errno);                            \
    } while (0)

static void check_errors(void) {
    uint64_t value = 17;
    const char *unknown[] = {"", "upkeep.", "upkeep.interval", "in_use", "cache.NAME", "cache.x.size", "\xff"};
    for (size_t place = 0; place < sizeof unknown / sizeof *unknown; place++) {
        errno = 0;
        CHECK(cm_get(unknown[place], &value) == -1 && errno == ENOENT && value == 17, "%s was read", unknown[place]);
        CHECK(cm_get_text(unknown[place], NULL, 0) == -1 && errno == ENOENT, "%s has a text", unknown[place]);
        REFUSED(unknown[place], 1, ENOENT);
    }
    CHECK(cm_get("profile.file", &value) == -1 && errno == EINVAL && value == 17, "a path is a number");
    CHECK(cm_get("control", &value) == -1 && errno == ENODATA && value == 17, "there is an operator");
    REFUSED("upkeep.interval_ms", 0, ERANGE);
    REFUSED("upkeep.interval_ms", UINT64_C(1) << 32 | 250, ERANGE);
    REFUSED("upkeep", 2, ERANGE);
    REFUSED("keep", 1, EPERM);
    REFUSED("cache.NAME.debug", 1, EPERM);
    REFUSED("in_use_bytes", 1, EACCES);
    CHECK(value_of("upkeep.interval_ms") == 1000 && value_of("upkeep") == 1 && value_of("keep") == 1, "it was set");
}

/* Each setting that may change gets another value, and has it. Upkeep looks at once. */
static void check_set(void) {
    cm_name name;
    int changed = 0;
    errno = 0;
    for (size_t number = 0; cm_name_at(number, &name) == 0; number++) {
        if (!name.can_be_set)
            continue;
        uint64_t before = value_of(name.name), other = before ? before - 1 : 1;
        if (cm_set(name.name, other) != 0) {
            CHECK(errno == ERANGE, "%s: errno %d", name.name, errno);
            other = before + 1;
            CHECK(cm_set(name.name, other) == 0, "%s is neither smaller nor larger", name.name);
        }
        CHECK(value_of(name.name) == other, "%s is not %llu", name.name, (unsigned long long)other);
        changed++;
    }
    CHECK(changed > 15, "only %d can be set", changed);
    CHECK(value_of("upkeep_on") == 0, "upkeep is on");
    CHECK(cm_set("upkeep", 1) == 0 && cm_set("upkeep.interval_ms", 20) == 0, "not set");
    CHECK(value_of("upkeep_on") == 1 && value_of("upkeep_interval_ns") == 20000000, "it was not told");
}

/* With settings from the environment. */
static void check_texts(void) {
    const struct { const char *name, *text; } expected[] = {
        {"upkeep", "on"}, {"upkeep.interval_ms", "250"}, {"rcu.policy", "counted"}, {"observe", "off"},
        {"profile.file", "none"}, {"possible_cpus", "the machine's"}, {"cache.orders.debug", "redzone+track"},
        {"cache.lines.debug", "off"}, {"cache.lines.dedicated", "off"}, {"locks", "json"}, {"rcu_lost", "0"},
    };
    char text[64];
    for (size_t place = 0; place < sizeof expected / sizeof *expected; place++) {
        memset(text, 'x', sizeof text);
        int length = cm_get_text(expected[place].name, text, sizeof text);
        CHECK(length == (int)strlen(expected[place].text) && strcmp(text, expected[place].text) == 0,
              "%s: %d '%s'", expected[place].name, length, text);
    }
    CHECK(value_of("cache.orders.debug") == 5 && value_of("rcu.policy") == 1, "other numbers");
    memset(text, 'x', sizeof text);
    CHECK(cm_get_text("cache.orders.debug", text, 9) == 13 && memcmp(text, "redzone+\0x", 10) == 0, "not cut: %s", text);
    CHECK(cm_get_text("upkeep", NULL, 0) == 2 && cm_get_text("upkeep", text, 1) == 2 && text[0] == 0, "room for none");
}

static atomic_int handled;

static void read_in_handler(int signal) {
    (void)signal;
    int before = errno;
    uint64_t value = 0;
    char text[32];
    if (cm_get("in_use_bytes", &value) == 0 && value > 0 && cm_get_text("peak_bytes", text, sizeof text) > 0
        && cm_set("rcu.bulk", 100) == 0 && cm_set("upkeep.interval_ms", 50) == 0 && errno == before)
        atomic_fetch_add(&handled, 1);
}

/* A handler that interrupts allocations, and children of a process with threads. */
static void *churn(void *unused) {
    for (int round = 0; atomic_load(&handled) < 200 || round < 100; round++) {
        come_along();
        free(malloc(100000));
    }
    return unused;
}

static void check_interrupted(void) {
    signal(SIGUSR1, read_in_handler);
    pthread_t thread = thread_start(churn, NULL);
    double start = seconds_now();
    for (int kicks = 0; atomic_load(&handled) < 200; kicks++) {
        CHECK(seconds_now() - start < HANGS_AFTER_SECONDS, "%d of %d were handled", atomic_load(&handled), kicks);
        pthread_kill(thread, SIGUSR1);
        sleep_us(200);
        if (kicks % 20 == 0) {
            pid_t child = fork();
            if (child == 0)
                _exit(value_of("rcu.high_mark") == 20000 && value_of("in_use_bytes") > 0 ? 0 : 1);
            int status = 1;
            CHECK(waitpid(child, &status, 0) == child && status == 0, "a child ended with %d", status);
        }
    }
    thread_join(thread);
}

CHECKS({"all", check_all}, {"errors", check_errors}, {"set", check_set}, {"texts", check_texts},
       {"interrupted", check_interrupted})
