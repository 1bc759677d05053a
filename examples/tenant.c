/* A memory group for each tenant: its memory is charged, limited, and freed at once.
 *
 * Two tenants of a service keep notes. One of them is greedy. At its limit it gets no more memory, but keeps what it
 * has, and the other tenant is not affected. After the service raises the limit, the greedy tenant goes on. When it
 * leaves, destroying its group frees all of its notes, without a free for each of them.
 *
 * With a number of seconds as its argument, the program asks for more memory for that time, so that you can watch it
 * with `commensal top`.
 *
 * Build it like counter.c. */
#include <commensal.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEGABYTE = 1 << 20 };

/* ANCHOR: note */
/* This code knows nothing of groups. It could be a library's. */
struct note {
    struct note *before;
    char text[1016];
};

static struct note *write_note(struct note *before, const char *text) {
    struct note *note = malloc(sizeof *note);
    if (note == NULL)
        return NULL;
    note->before = before;
    strncpy(note->text, text, sizeof note->text - 1);
    note->text[sizeof note->text - 1] = '\0';
    return note;
}
/* ANCHOR_END: note */

struct tenant {
    cm_group *group;
    struct note *last;
    int notes;
};

/* ANCHOR: enter */
/* Writes notes for a tenant until it has `notes` of them. Returns 0, or errno when an allocation fails. */
static int write_notes(struct tenant *tenant, int notes) {
    cm_group_entry entry;
    if (cm_group_enter(tenant->group, &entry) != 0)
        return errno;
    int why = 0;
    while (why == 0 && tenant->notes < notes) {
        struct note *note = write_note(tenant->last, "buy bread");
        if (note == NULL) {
            why = errno;
        } else {
            tenant->last = note;
            tenant->notes++;
        }
    }
    /* From here on, the thread allocates outside of the group again. */
    cm_group_leave(&entry);
    return why;
}
/* ANCHOR_END: enter */

static void tell(const struct tenant *tenant, const char *name, int why) {
    cm_group_stats stats;
    cm_group_stats_read(tenant->group, &stats);
    printf("%s: %d notes (%s), %" PRIu64 " refused, limit %" PRIu64 " KiB\n", name, tenant->notes,
           why == 0 ? "all that it wanted" : strerror(why), stats.refused, stats.limit >> 10);
}

static void ask_for_more(struct tenant *tenant, int seconds) {
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int i = 0; i < 100 * seconds; i++) {
        write_notes(tenant, 1000000);
        nanosleep(&pause, NULL);
    }
}

int main(int arguments, char *argument[]) {
    int seconds = arguments > 1 ? atoi(argument[1]) : 0;
    /* The tenants' memory is charged to the service too, which has no limit of its own. */
    cm_group *service = cm_group_create("service", NULL, 0);
    struct tenant greedy = {cm_group_create("greedy", service, MEGABYTE), NULL, 0};
    struct tenant modest = {cm_group_create("modest", service, MEGABYTE), NULL, 0};
    if (service == NULL || greedy.group == NULL || modest.group == NULL) {
        perror("no groups");
        return EXIT_FAILURE;
    }

    tell(&greedy, "greedy", write_notes(&greedy, 1000000));
    tell(&modest, "modest", write_notes(&modest, 10));

    cm_group_set_limit(greedy.group, 2 * MEGABYTE);
    tell(&greedy, "greedy", write_notes(&greedy, 2000));

    ask_for_more(&greedy, seconds);
    /* This visits no note. */
    if (cm_group_destroy(greedy.group) != 0) {
        perror("the group is in use");
        return EXIT_FAILURE;
    }
    cm_group_stats stats;
    cm_group_stats_read(service, &stats);
    int is_of_modest = stats.charged >= modest.notes * sizeof(struct note) && stats.charged < MEGABYTE / 8;
    printf("after greedy left, the service is charged for %s\n", is_of_modest ? "modest alone" : "something else");
    printf("modest's last note: %s\n", modest.last->text);

    cm_group_destroy(modest.group);
    cm_group_destroy(service);
    return EXIT_SUCCESS;
}
