/* A list that many threads read without a lock while one thread changes it.
 *
 * The list has routes to four networks. Readers look up the cost of one network after the other. Meanwhile the updater
 * replaces three routes, withdraws the fourth and adds it again, a hundred times. It frees old routes when no reader
 * can have found them.
 *
 * Build it like counter.c. */
#include <commensal.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { READERS = 3, NETWORKS = 4, ROUNDS = 100, GONE = -1 };

struct route {
    cm_rcu_list place;
    cm_rcu_head head;
    int network, cost;
};

static cm_rcu_list routes = CM_RCU_LIST_INIT(routes);
static int done;

static struct route *new_route(int network, int cost) {
    struct route *route = malloc(sizeof *route);
    if (route == NULL)
        abort();
    route->network = network;
    route->cost = cost;
    return route;
}

/* Returns the cost of a network, or 0 if there is no route. Routes found in the section stay until its end. */
static int cost_of(int network) {
    int cost = 0;
    cm_rcu_section section = cm_rcu_read_lock();
    CM_RCU_LIST_FOR_EACH(struct route, route, place, &routes) {
        if (route->network == network)
            cost = route->cost;
    }
    cm_rcu_read_unlock(section);
    return cost;
}

static void *look_up(void *wrong) {
    for (int network = 0; !__atomic_load_n(&done, __ATOMIC_RELAXED); network = (network + 1) % NETWORKS) {
        int cost = cost_of(network);
        /* The updater withdraws the route of the last network now and then, and only replaces the others. */
        if (cost == GONE || (cost == 0 && network != NETWORKS - 1))
            ++*(long *)wrong;
    }
    return NULL;
}

/* Frees a route after a grace period. It marks the route first, so that the example notices a reader that still sees
 * it. Without that, cm_rcu_defer_free(route) would do instead of the call. */
static void bury(cm_rcu_head *head) {
    struct route *route = (struct route *)((char *)head - offsetof(struct route, head));
    route->cost = GONE;
    free(route);
}

static void free_later(struct route *route) {
    cm_rcu_call(&route->head, bury);
}

/* There is one updater. Several would need a lock. */
static void update(struct route *current[NETWORKS], int round) {
    for (int network = 0; network < NETWORKS - 1; network++) {
        struct route *old = current[network], *better = new_route(network, old->cost + 1);
        cm_rcu_list_replace(&old->place, &better->place);
        current[network] = better;
        free_later(old);
    }
    struct route *last = current[NETWORKS - 1];
    cm_rcu_list_remove(&last->place);
    free_later(last);
    last = current[NETWORKS - 1] = new_route(NETWORKS - 1, round + 2);
    cm_rcu_list_add(&last->place, &routes);
}

int main(void) {
    pthread_t threads[READERS];
    long wrong[READERS] = {0}, all_wrong = 0;
    struct route *current[NETWORKS];

    for (int network = 0; network < NETWORKS; network++) {
        current[network] = new_route(network, 1);
        cm_rcu_list_add_last(&current[network]->place, &routes);
    }
    for (int i = 0; i < READERS; i++) {
        if (pthread_create(&threads[i], NULL, look_up, &wrong[i]) != 0)
            return EXIT_FAILURE;
    }
    for (int round = 0; round < ROUNDS; round++)
        update(current, round);
    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        all_wrong += wrong[i];
    }

    /* Wait until all deferred calls have run. */
    cm_rcu_barrier();
    for (int network = 0; network < NETWORKS; network++)
        printf("network %d costs %d\n", network, cost_of(network));
    printf("%ld lookups found what is gone\n", all_wrong);
    for (int network = 0; network < NETWORKS; network++)
        free(current[network]);
    return EXIT_SUCCESS;
}
