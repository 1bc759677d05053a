/* One measurement of one flavour of liburcu, as a C program would use it; src/probe/rcu.rs does the same with ours. Compiled once for each
 * flavour, by the script in targets.toml: with its readers inlined, or without _LGPL_SOURCE called. */

#define _GNU_SOURCE
#define URCU_API_MAP
#include HEADER
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 15, SECTIONS = 1000000, BURST = 200, GRACE_PERIODS = 2000, OBJECTS = 2000000, RETIRE_ROUNDS = 5 };

static double now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static double best_ns(int rounds, uint64_t times, void (*round)(uint64_t))
{
	double best = 1e300;
	for (int i = 0; i < rounds; i++) {
		double start = now_ns();
		round(times);
		double taken = (now_ns() - start) / times;
		best = taken < best ? taken : best;
	}
	return best;
}

/* Keeps the calling thread on the CPU of this number among those that it may run on, if there is one. */
static void stay_on(const cpu_set_t *allowed, int number)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, allowed) && number-- == 0) {
			cpu_set_t one;
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof one, &one);
		}
	}
}

static void read_sections(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++) {
		rcu_read_lock();
		__asm__ __volatile__("" : : : "memory");
		rcu_read_unlock();
	}
}

static void checkpoints(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++) {
		rcu_quiescent_state();
		__asm__ __volatile__("" : : : "memory");
	}
}

static int compare(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;
	return (difference > 0) - (difference < 0);
}

static double synchronize_ns(void)
{
	static double times[GRACE_PERIODS];
	for (int i = 0; i < GRACE_PERIODS; i++) {
		double start = now_ns();
		synchronize_rcu();
		times[i] = now_ns() - start;
	}
	qsort(times, GRACE_PERIODS, sizeof *times, compare);
	return times[GRACE_PERIODS / 2];
}

/* Objects that go after a grace period: with a head each, or by their address. All of them are gone at the end. */
struct item {
	struct rcu_head head;
	char rest[64 - sizeof(struct rcu_head)];
};

static struct item *item(void)
{
	struct item *item = malloc(sizeof *item);
	if (!item)
		abort();
	item->rest[0] = 1;
	return item;
}

static void free_item(struct rcu_head *head)
{
	free(head);
}

static void call(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		call_rcu(&item()->head, free_item);
	rcu_barrier();
}

static void defer(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		defer_rcu(free, item());
	rcu_defer_barrier();
}

static cpu_set_t allowed;
static volatile int stop;

static void *reader(void *nothing)
{
	stay_on(&allowed, 1);
	rcu_register_thread();
	while (!stop) {
		read_sections(BURST);
		rcu_quiescent_state();
	}
	rcu_unregister_thread();
	return nothing;
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "", *how = count > 2 ? words[2] : "";
	int is_beside = !strcmp(what, "synchronize") || !strcmp(how, "1");
	double ns;
	pthread_t thread;

	sched_getaffinity(0, sizeof allowed, &allowed);
	if (is_beside) {
		pthread_create(&thread, NULL, reader, NULL);
		stay_on(&allowed, 0);
		usleep(5000);
	}
	/* A waiter for others need not be one of them. */
	if (strcmp(what, "synchronize"))
		rcu_register_thread();
	if (!strcmp(what, "read")) {
		ns = best_ns(ROUNDS, SECTIONS, read_sections);
	} else if (!strcmp(what, "checkpoint")) {
		ns = best_ns(ROUNDS, SECTIONS, checkpoints);
	} else if (!strcmp(what, "synchronize")) {
		ns = synchronize_ns();
	} else if (!strcmp(what, "retire")) {
		/* By the better of its two ways. */
		double called = best_ns(RETIRE_ROUNDS, OBJECTS, call);
		rcu_defer_register_thread();
		ns = best_ns(RETIRE_ROUNDS, OBJECTS, defer);
		ns = called < ns ? called : ns;
	} else {
		fprintf(stderr, "expected read 0|1, checkpoint, synchronize or retire; found %s\n", what);
		return 2;
	}
	printf("%.5f\n", ns);
	fflush(stdout);
	_exit(0);
}
