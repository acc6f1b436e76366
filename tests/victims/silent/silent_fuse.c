/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system in user space that opens its one file and never answers a read of it, or answers
 * some and then nothing more. The protocol is that of linux/fuse.h, so that no library is needed.
 */
#include "silent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NODE    2U
#define FILE_BYTES   65536U
#define REMEMBERED_S 1000
#define REPLY_BYTES  1048576U

static uint64_t file_bytes = FILE_BYTES;

static atomic_bool *hushed;

__attribute__((noreturn)) static void skip(const char *what)
{
	printf("skip: %s: %s\n", what, strerror(errno));
	exit(77);
}

static void answer(int fd, uint64_t unique, int error, const void *body, size_t length)
{
	static unsigned char reply[REPLY_BYTES];
	const struct fuse_out_header head = {
		.len = (uint32_t)(sizeof(head) + length), .error = -error, .unique = unique};

	memcpy(reply, &head, sizeof(head));
	if (length)
		memcpy(reply + sizeof(head), body, length);
	if (write(fd, reply, head.len) < 0 && errno != ENOENT)
		_exit(1);
}

static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.size = node == FILE_NODE ? file_bytes : 0,
		.blocks = file_bytes / 512,
		.mode = node == FILE_NODE ? S_IFREG | 0755 : S_IFDIR | 0755,
		.nlink = 1,
		.blksize = 4096,
	};
}

static void answer_init(int fd, uint64_t unique, bool async)
{
	const struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = 31,
		.max_readahead = 4096,
		.flags = async ? FUSE_ASYNC_READ : 0,
		.max_write = 4096,
	};

	answer(fd, unique, 0, &out, sizeof(out));
}

static void count_answer(const struct silent_fuse *how)
{
	static unsigned answered;

	if (++answered == how->reads)
		atomic_store(hushed, true);
}

static void answer_read(int fd, const struct fuse_in_header *in, const struct silent_fuse *how)
{
	static unsigned char bytes[REPLY_BYTES / 2];
	const struct fuse_read_in *read_in = (const void *)(in + 1);
	size_t size = read_in->size < sizeof(bytes) ? read_in->size : sizeof(bytes);
	ssize_t got = pread(how->content, bytes, size, (off_t)read_in->offset);

	answer(fd, in->unique, got < 0 ? errno : 0, bytes, got < 0 ? 0 : (size_t)got);
	count_answer(how);
}

/* Lists its one file, then the end. */
static void answer_readdir(int fd, const struct fuse_in_header *in, const struct silent_fuse *how)
{
	static const char name[] = "file";
	const struct fuse_read_in *read_in = (const void *)(in + 1);
	unsigned char body[FUSE_DIRENT_ALIGN(sizeof(struct fuse_dirent) + sizeof(name))] = {0};
	const struct fuse_dirent entry = {
		.ino = FILE_NODE, .off = 1, .namelen = sizeof(name) - 1, .type = S_IFREG >> 12};

	memcpy(body, &entry, sizeof(entry));
	memcpy(body + FUSE_NAME_OFFSET, name, sizeof(name) - 1);
	answer(fd, in->unique, 0, body, read_in->offset ? 0 : FUSE_DIRENT_SIZE(&entry));
	count_answer(how);
}

/*
 * Names are requested again at each use, so that a silent server can block a process that opens the
 * file; the kernel caches names where reads are counted.
 */
static void serve_one(int fd, const struct fuse_in_header *in, const struct silent_fuse *how)
{
	const struct fuse_interrupt_in *interrupt = (const void *)(in + 1);
	struct fuse_entry_out entry = {.nodeid = FILE_NODE,
				       .attr = attributes(FILE_NODE),
				       .entry_valid = how->reads ? REMEMBERED_S : 0,
				       .attr_valid = how->reads ? REMEMBERED_S : 0};
	struct fuse_attr_out attr = {.attr = attributes(in->nodeid)};
	struct fuse_open_out opened = {.open_flags = FOPEN_KEEP_CACHE};

	/* A process cannot even end while these requests are unanswered. */
	if (in->opcode == FUSE_FLUSH || in->opcode == FUSE_RELEASE)
		answer(fd, in->unique, 0, NULL, 0);
	else if (in->opcode == FUSE_INIT)
		answer_init(fd, in->unique, how->async);
	else if (in->opcode == FUSE_INTERRUPT && how->gives_up)
		answer(fd, interrupt->unique, EINTR, NULL, 0);
	else if (atomic_load(hushed) || (in->opcode == FUSE_READ && !how->reads))
		return;
	else if (in->opcode == FUSE_READ)
		answer_read(fd, in, how);
	else if (in->opcode == FUSE_READDIR)
		answer_readdir(fd, in, how);
	else if (in->opcode == FUSE_LOOKUP)
		answer(fd, in->unique, 0, &entry, sizeof(entry));
	else if (in->opcode == FUSE_GETATTR)
		answer(fd, in->unique, 0, &attr, sizeof(attr));
	else if (in->opcode == FUSE_OPEN || in->opcode == FUSE_OPENDIR)
		answer(fd, in->unique, 0, &opened, sizeof(opened));
	else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_INTERRUPT)
		answer(fd, in->unique, ENOSYS, NULL, 0);
}

__attribute__((noreturn)) static void serve(int fd, const struct silent_fuse *how)
{
	static unsigned char request[65536];

	for (;;) {
		ssize_t got = read(fd, request, sizeof(request));

		if (got < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		if (got < (ssize_t)sizeof(struct fuse_in_header))
			_exit(0);
		serve_one(fd, (const struct fuse_in_header *)(const void *)request, how);
	}
}

/* Enters a namespace in which nobody else sees the mount, with or without being root. */
static void leave_namespace(void)
{
	char text[64];
	const unsigned uid = getuid();
	int fd;

	if (uid == 0 && unshare(CLONE_NEWNS) == 0) {
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
		return;
	}
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		skip("unshare");
	fd = open("/proc/self/uid_map", O_WRONLY);
	snprintf(text, sizeof(text), "0 %u 1", uid);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		skip("uid_map");
	close(fd);
}

void silent_fuse_mount(const char *directory, const struct silent_fuse *how)
{
	const pid_t parent = getpid();
	char options[128];
	int fd;

	struct stat status;

	if (how->reads && fstat(how->content, &status) == 0)
		file_bytes = (uint64_t)status.st_size;
	leave_namespace();
	hushed = mmap(NULL, sizeof(*hushed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		skip("/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 fd);
	if (mount("silent", directory, "fuse", MS_NOSUID | MS_NODEV, options))
		skip("mount");
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		signal(SIGTERM, SIG_IGN);
		serve(fd, how);
	}
	close(fd);
}

void silent_fuse_hush(void)
{
	atomic_store(hushed, true);
}
