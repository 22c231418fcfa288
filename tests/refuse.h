/*
 * tests/refuse.h -- a kernel that refuses a system call, by a seccomp filter.
 *
 * A filter stays for the life of the process, and of those that it starts.
 */
#ifndef CAIRN_TESTS_REFUSE_H
#define CAIRN_TESTS_REFUSE_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

#define REFUSE_ANY_ARGUMENT UINT32_MAX

/* From now on `number` answers -code, where its third argument is `third`. 0 or -errno. */
static inline int refuse(long number, uint32_t third, int code)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
#else
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]) + 4),
#endif
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, third, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	if (third == REFUSE_ANY_ARGUMENT)
		program[3] = (struct sock_filter)BPF_STMT(
		    BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code);
	struct sock_fprog filter = {sizeof program / sizeof program[0], program};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) ? -errno : 0;
}

#endif
