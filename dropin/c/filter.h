/* Filters of system calls: what is done for each number, and for all others. */
#ifndef FILTER_H
#define FILTER_H

#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { FILTERED_CALLS = 40 };

struct filter {
    struct sock_filter steps[2 + 2 * FILTERED_CALLS];
    unsigned short length;
};

static inline void filter_begin(struct filter *filter) {
    const struct sock_filter number = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr));
    filter->steps[0] = number;
    filter->length = 1;
}

static inline void filter_call(struct filter *filter, long number, uint32_t outcome) {
    const struct sock_filter is_it = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
    const struct sock_filter then = BPF_STMT(BPF_RET | BPF_K, outcome);
    CHECK(filter->length + 3u <= sizeof filter->steps / sizeof *filter->steps, "too many calls");
    filter->steps[filter->length++] = is_it;
    filter->steps[filter->length++] = then;
}

/* Whether the library can see that a filter comes: by the C library's prctl. */
static inline void filter_install(struct filter *filter, uint32_t outcome_of_others, unsigned flags, bool is_seen) {
    const struct sock_filter others = BPF_STMT(BPF_RET | BPF_K, outcome_of_others);
    filter->steps[filter->length++] = others;
    struct sock_fprog program = {filter->length, filter->steps};
    long done = is_seen ? prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) : syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    CHECK(done == 0, "prctl failed with errno %d", errno);
    done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    CHECK(done == 0, "seccomp returned %ld with errno %d", done, errno);
}

#endif
