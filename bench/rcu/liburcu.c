/* One flavour of liburcu, as a C program would use it. Compiled once for each. */

#define URCU_API_MAP
#define _LGPL_SOURCE
#include HEADER
#include <stdint.h>

void NAME(register)(void)
{
#ifndef REGISTERS_ITSELF
	rcu_register_thread();
#endif
}

void NAME(unregister)(void)
{
#ifndef REGISTERS_ITSELF
	rcu_unregister_thread();
#endif
}

void NAME(read)(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++) {
		rcu_read_lock();
		__asm__ __volatile__("" : : : "memory");
		rcu_read_unlock();
	}
}

/* Of the flavour that needs them. */
void NAME(checkpoint)(void)
{
	rcu_quiescent_state();
}

void NAME(checkpoints)(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++) {
		rcu_quiescent_state();
		__asm__ __volatile__("" : : : "memory");
	}
}

void NAME(synchronize)(void)
{
	synchronize_rcu();
}

/* Objects that go after a grace period: with a head each, or by their address. All of them are gone at the end. */

struct item {
	struct rcu_head head;
	char rest[64 - sizeof(struct rcu_head)];
};

static void (*give)(void *);

static void free_item(struct rcu_head *head)
{
	give(head);
}

void NAME(call)(uint64_t times, void *(*take)(size_t), void (*give_back)(void *))
{
	give = give_back;
	for (uint64_t i = 0; i < times; i++) {
		struct item *item = take(sizeof(struct item));
		item->rest[0] = 1;
		call_rcu(&item->head, free_item);
	}
	rcu_barrier();
}

void NAME(defer)(uint64_t times, void *(*take)(size_t), void (*give_back)(void *))
{
	rcu_defer_register_thread();
	for (uint64_t i = 0; i < times; i++) {
		struct item *item = take(sizeof(struct item));
		item->rest[0] = 1;
		defer_rcu(give_back, item);
	}
	rcu_defer_barrier();
	rcu_defer_unregister_thread();
}
