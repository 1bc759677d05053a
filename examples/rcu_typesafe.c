/* Accounts that are found without a lock, freed at once, and used again while others still look at them.
 *
 * A table says where each customer's account is. Tellers pay in; meanwhile the manager closes accounts and opens others, from the same memory, without
 * waiting for anybody. So what a teller found may be another customer's account by the time he has its lock: he looks again.
 *
 *     cargo xtask install --prefix ~/.local
 *     export PKG_CONFIG_PATH=~/.local/lib/pkgconfig LD_LIBRARY_PATH=~/.local/lib
 *     cc -Wall -Wextra -Werror examples/rcu_typesafe.c $(pkg-config --cflags --libs commensal) -o rcu_typesafe &&
 * ./rcu_typesafe */
#include <commensal.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TELLERS = 3, CUSTOMERS = 8, ROUNDS = 20000, NOBODY = -1 };

struct account {
    pthread_mutex_t lock; /* made once, and good for ever, whoever's account it is */
    int customer;         /* the rest is under the lock */
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
    account->customer = NOBODY;
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
    /* Somebody who found it when it was another's may be looking at it: under the lock, as always. */
    pthread_mutex_lock(&account->lock);
    account->customer = customer;
    account->balance = 0;
    pthread_mutex_unlock(&account->lock);
    CM_RCU_PUBLISH(account_of[customer], account);
}

/* There is one manager. Nobody is waited for, and nothing is deferred. */
static void close_account(int customer) {
    struct account *account = account_of[customer];
    CM_RCU_PUBLISH(account_of[customer], NULL);
    pthread_mutex_lock(&account->lock);
    account->customer = NOBODY;
    paid_out += account->balance;
    pthread_mutex_unlock(&account->lock);
    cm_cache_free(accounts, account);
}

/* Whether there was an account to pay in to. In the section what was found is an account, open or closed, with its lock. */
static int pay_in(int customer, long amount) {
    int is_paid = 0;
    cm_rcu_section section = cm_rcu_read_lock();
    struct account *account;
    while (!is_paid && (account = CM_RCU_DEREFERENCE(account_of[customer])) != NULL) {
        pthread_mutex_lock(&account->lock);
        /* The rule: has it become another's, or nobody's, since it was found? */
        if (account->customer == customer) {
            account->balance += amount;
            is_paid = 1;
        }
        pthread_mutex_unlock(&account->lock);
    }
    cm_rcu_read_unlock(section);
    return is_paid;
}

/* Each pays in at least once, also if the manager is through before. */
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
    /* The memory of one customer's account soon is another's. */
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
    /* Waits for those who may still be looking, of whom there are none. */
    return cm_cache_destroy(accounts) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
