/*
 * tests/mounts.h -- mounts that nobody else sees, in a mount namespace of this process.
 *
 * A process that entered one cannot leave it, so this is for children (tests/child.h). A machine
 * that has no namespaces to give says so by a CHILD_SKIP.
 */
#ifndef CAIRN_TESTS_MOUNTS_H
#define CAIRN_TESTS_MOUNTS_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "tests/child.h"

static inline int mounts_refused(const char *call)
{
	printf("skipped: no mount namespace of its own: %s: %s\n", call, strerror(errno));
	return CHILD_SKIP;
}

static inline bool mounts_write(const char *path, const char *text)
{
	int descriptor = open(path, O_WRONLY | O_CLOEXEC);
	bool written =
	    descriptor >= 0 && write(descriptor, text, strlen(text)) == (ssize_t)strlen(text);
	if (descriptor >= 0)
		close(descriptor);
	return written;
}

/* Who may not, may in a user namespace, in which it is root and nobody else exists. */
static inline bool mounts_become_root(void)
{
	char users[64], groups[64];
	snprintf(users, sizeof users, "0 %ld 1", (long)geteuid());
	snprintf(groups, sizeof groups, "0 %ld 1", (long)getegid());
	return !unshare(CLONE_NEWUSER | CLONE_NEWNS) &&
	       mounts_write("/proc/self/setgroups", "deny") &&
	       mounts_write("/proc/self/uid_map", users) &&
	       mounts_write("/proc/self/gid_map", groups);
}

/* 0, or CHILD_SKIP. */
static inline int mounts_enter(void)
{
	if (unshare(CLONE_NEWNS) && !mounts_become_root())
		return mounts_refused("unshare");
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return mounts_refused("mount");
	return 0;
}

/* Makes `from` appear at `to`, a directory that exists. 0, or CHILD_SKIP. */
static inline int mounts_bind(const char *from, const char *to)
{
	return mount(from, to, NULL, MS_BIND, NULL) ? mounts_refused("mount(MS_BIND)") : 0;
}

/* Makes all below `path` read-only. 0, or CHILD_SKIP. */
static inline int mounts_read_only(const char *path)
{
	static const unsigned long kept[][2] = {
	    {ST_NOSUID, MS_NOSUID}, {ST_NODEV, MS_NODEV}, {ST_NOEXEC, MS_NOEXEC}};
	struct statvfs found;
	unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
	if (mounts_bind(path, path))
		return CHILD_SKIP;
	if (statvfs(path, &found))
		return mounts_refused("statvfs");
	/* A user namespace may not drop what was set outside. */
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
		if (found.f_flag & kept[i][0])
			flags |= kept[i][1];
	return mount(NULL, path, NULL, flags, NULL) ? mounts_refused("mount(MS_RDONLY)") : 0;
}

#endif
