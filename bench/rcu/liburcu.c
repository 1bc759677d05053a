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

void NAME(synchronize)(void)
{
	synchronize_rcu();
}
