/* A typesafe cache: objects that readers find without a lock, and that are freed and reused without a grace period.
 *
 * A table points to each customer's account. Teller threads pay in. Meanwhile the manager thread closes accounts and
 * opens others in the same memory, and waits for no teller. So an account that a teller has found may belong to another
 * customer when the teller gets its lock. Therefore the teller checks the account again under the lock.
 *
 * Build it like counter.c. */
#include <commensal.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TELLERS = 3, CUSTOMERS = 8, ROUNDS = 20000, CLOSED = -1 };

struct account {
    pthread_mutex_t lock; /* initialised by the constructor; stays valid when the account is reused */
    int customer;         /* this and the rest are protected by the lock */
    long balance;
};

static cm_cache *accounts;
static struct account *account_of[CUSTOMERS];
static int done;
static long paid_in[TELLERS], paid_out;

static void make(void *object, void *argument) {
    struct account *account = object;
    (void)argument;
    pthread_mutex_init(&account->lock, NULL);
    account->customer = CLOSED;
    account->balance = 0;
}

static void unmake(void *object, void *argument) {
    (void)argument;
    pthread_mutex_destroy(&((struct account *)object)->lock);
}

static void open_account(int customer) {
    struct account *account = cm_cache_alloc(accounts);
    if (account == NULL)
        abort();
    /* A teller that found the account before it was closed may be looking at it, so change it under the lock. */
    pthread_mutex_lock(&account->lock);
    account->customer = customer;
    account->balance = 0;
    pthread_mutex_unlock(&account->lock);
    CM_RCU_PUBLISH(account_of[customer], account);
}

/* There is one manager. It waits for no reader, and defers nothing. */
static void close_account(int customer) {
    struct account *account = account_of[customer];
    CM_RCU_PUBLISH(account_of[customer], NULL);
    pthread_mutex_lock(&account->lock);
    account->customer = CLOSED;
    paid_out += account->balance;
    pthread_mutex_unlock(&account->lock);
    cm_cache_free(accounts, account);
}

/* Pays in, and returns whether the customer had an account. Within the section, what the teller has found stays an
 * account with a valid lock, open or closed. */
static int pay_in(int customer, long amount) {
    int is_paid = 0;
    cm_rcu_section section = cm_rcu_read_lock();
    struct account *account;
    while (!is_paid && (account = CM_RCU_DEREFERENCE(account_of[customer])) != NULL) {
        pthread_mutex_lock(&account->lock);
        /* The rule for typesafe objects: check again under the lock that this is still the right object. */
        if (account->customer == customer) {
            account->balance += amount;
            is_paid = 1;
        }
        pthread_mutex_unlock(&account->lock);
    }
    cm_rcu_read_unlock(section);
    return is_paid;
}

/* Each teller pays in at least once, even if the manager has finished before. */
static void *work(void *argument) {
    long *sum = argument;
    for (int i = 0; *sum == 0 || !__atomic_load_n(&done, __ATOMIC_RELAXED); i++) {
        if (pay_in(i % CUSTOMERS, 1))
            ++*sum;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[TELLERS];
    cm_cache_options options = {.constructor = make, .destructor = unmake, .typesafe_by_rcu = true};
    long all = 0;

    accounts = cm_cache_create("account", sizeof(struct account), 0, &options);
    if (accounts == NULL)
        return EXIT_FAILURE;
    for (int customer = 0; customer < CUSTOMERS; customer++)
        open_account(customer);
    for (int i = 0; i < TELLERS; i++) {
        if (pthread_create(&threads[i], NULL, work, &paid_in[i]) != 0)
            return EXIT_FAILURE;
    }
    /* Closing two accounts before opening them again moves customers to each other's memory. */
    for (int round = 0; round < ROUNDS; round++) {
        int one = round % CUSTOMERS, other = (round + 3) % CUSTOMERS;
        close_account(one);
        close_account(other);
        open_account(one);
        open_account(other);
    }
    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < TELLERS; i++) {
        pthread_join(threads[i], NULL);
        all += paid_in[i];
    }
    for (int customer = 0; customer < CUSTOMERS; customer++)
        close_account(customer);
    printf("%zu accounts are open\n", cm_cache_alive(accounts));
    printf("%s was paid in, %ld of it was lost\n", all > 0 ? "something" : "nothing", all - paid_out);
    /* For a typesafe cache, this waits for a grace period. */
    return cm_cache_destroy(accounts) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
