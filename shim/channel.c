/*
 * The segment of a communicator in /dev/shm:
 *
 *     0                        page                                    whole
 *     +------+-----------------+---------------------------------------+
 *     | head | agreement       | learning table                        |
 *     +------+-----------------+---------------------------------------+
 *       memory from the start    memory while the head counts a user
 *
 * All zero at first. All ranks size it alike (seats), so whoever comes first does.
 *
 * No touch may fail: a part is touched only after fallocate() has given it memory. Not posix_fallocate(), which on a
 * file system without that writes into the file itself, over what other ranks write meanwhile.
 *
 * The descriptor stays open for the table. The program may close it and get its number for a file of its own, so it is
 * looked at before each use, as the trace's is (core/own_file.h).
 *
 * Threads: as in channel.h; the head's `users` is shared with the other ranks.
 */
#include "shim/channel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/replay/learn.h"
#include "shim/pause.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SEGMENT_VERSION 6u     /* of all that is shared: the head, agree_shared.h, learn.h */
#define LOWEST_DESCRIPTOR 512  /* as in core/own_file.c */
#define FREEING (1u << 31)     /* in `users`: the last user gives the table's memory back */
#define FREEING_WAIT_NS 100000 /* at most FREEING_WAITS times: the rank that frees may have died */
#define FREEING_WAITS 200
#define INTERRUPTIONS 100
#define DIRECTORY "/dev/shm"
#define NAME_BEGIN "reprise-"
#define LEFT_AFTER_S 60

struct head {
    _Alignas(64) _Atomic uint32_t users; /* ranks that use the table; FREEING */
};

struct rp_channel {
    struct rp_agree agree;
    struct head *head; /* start of the mapping */
    size_t table_at, bytes;
    bool checked; /* the file is the ranks' own */
    bool uses_table, unlinked;
    int descriptor;
    dev_t device;
    ino_t inode;
    pid_t process;
    char name[32];
};

/* ---------------------------------------------------------------- errors */

static _Thread_local char error_text[160] __attribute__((tls_model("initial-exec")));

const char *rp_channel_error(void)
{
    return error_text;
}

__attribute__((format(printf, 2, 3))) static enum rp_status fail(enum rp_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof(error_text), format, arguments);
    va_end(arguments);
    return status;
}

/* By errno, of a call about the segment. */
static enum rp_status fail_errno(const char *what, const char *name)
{
    int cause = errno;
    return fail(cause == ENOSPC || cause == ENOMEM ? RP_NO_MEMORY : RP_IO, "%s /dev/shm%s: %s", what, name,
                strerror(cause));
}

/* Not in the child of a fork: there nothing is mapped, or something of the program's, and the name is the parent's. */
static bool is_mine(const struct rp_channel *channel)
{
    return channel->process == getpid();
}

/* ---------------------------------------------------------------- the file */

static bool is_ours(const struct rp_channel *channel)
{
    struct stat info;
    return fstat(channel->descriptor, &info) == 0 && info.st_dev == channel->device && info.st_ino == channel->inode;
}

static void close_file(struct rp_channel *channel)
{
    if (channel->descriptor >= 0 && is_ours(channel))
        close(channel->descriptor);
    channel->descriptor = -1;
}

static void move_up(struct rp_channel *channel)
{
    int high = fcntl(channel->descriptor, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    if (high < 0)
        return;
    close(channel->descriptor);
    channel->descriptor = high;
}

/* A file beyond the limit would end the program by a signal. */
static bool within_file_limit(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

/* Memory for a part of the file, so that touching it cannot fail. */
static enum rp_status reserve(struct rp_channel *channel, size_t from, size_t bytes)
{
    if (!within_file_limit(channel->bytes))
        return fail(RP_UNSUPPORTED, "the limit of file sizes is below the %zu bytes of a segment", channel->bytes);
    for (int i = 0; i < INTERRUPTIONS; i++) {
        if (fallocate(channel->descriptor, 0, (off_t)from, (off_t)bytes) == 0)
            return RP_OK;
        if (errno != EINTR)
            break;
    }
    return fail_errno("no memory for", channel->name);
}

/* Somebody else's file, or that of ranks that count otherwise, must not be written to. */
static enum rp_status check_file(struct rp_channel *channel)
{
    struct stat info;
    if (fstat(channel->descriptor, &info) != 0)
        return fail_errno("cannot look at", channel->name);
    channel->device = info.st_dev;
    channel->inode = info.st_ino;
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0)
        return fail(RP_UNSUPPORTED, "/dev/shm%s is not this user's alone", channel->name);
    if (info.st_size != 0 && (size_t)info.st_size != channel->bytes)
        return fail(RP_UNSUPPORTED, "/dev/shm%s has %lld bytes, not %zu", channel->name, (long long)info.st_size,
                    channel->bytes);
    channel->checked = true;
    return RP_OK;
}

/* shm_open() follows no symbolic link and closes on exec. */
static enum rp_status open_file(struct rp_channel *channel)
{
    channel->descriptor = shm_open(channel->name, O_RDWR | O_CREAT, 0600);
    if (channel->descriptor < 0)
        return fail_errno("cannot open", channel->name);
    flock(channel->descriptor, LOCK_SH | LOCK_NB); /* until it is closed and unmapped; for remove_left() */
    move_up(channel);
    enum rp_status status = check_file(channel);
    if (status == RP_OK && !within_file_limit(channel->bytes))
        status = fail(RP_UNSUPPORTED, "the limit of file sizes is below the %zu bytes of a segment", channel->bytes);
    if (status == RP_OK && ftruncate(channel->descriptor, (off_t)channel->bytes) != 0)
        status = fail_errno("cannot size", channel->name);
    return status == RP_OK ? reserve(channel, 0, channel->table_at) : status;
}

static enum rp_status map_file(struct rp_channel *channel)
{
    void *memory = mmap(NULL, channel->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, channel->descriptor, 0);
    if (memory == MAP_FAILED)
        return fail_errno("cannot map", channel->name);
    channel->head = memory;
    if (madvise(memory, channel->bytes, MADV_DONTFORK) != 0)
        return fail_errno("cannot keep from forks", channel->name);
    return RP_OK;
}

/* ---------------------------------------------------------------- what was left behind */

/*
 * Ranks that are killed before all have come leave their segment's name behind. Whoever has a segment open holds a lock
 * on it, which ends with the process, so a name of this user without one is nobody's; a young one may be about to be
 * locked.
 */
static void remove_left(int directory, const char *name)
{
    struct stat info;
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return;
    time_t now = (time_t)(rp_wall_ns() / 1000000000);
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        now - info.st_mtime > LEFT_AFTER_S && flock(file, LOCK_EX | LOCK_NB) == 0)
        unlinkat(directory, name, 0);
    close(file);
}

/* Once a process. */
static void remove_all_left(void)
{
    static _Atomic bool done; /* relaxed would do: nothing hangs on it */
    DIR *directory = atomic_exchange(&done, true) ? NULL : opendir(DIRECTORY);
    if (directory == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (strncmp(entry->d_name, NAME_BEGIN, strlen(NAME_BEGIN)) == 0)
            remove_left(dirfd(directory), entry->d_name);
    closedir(directory);
}

/* ---------------------------------------------------------------- opening and closing */

/* Alike on all ranks of the communicator that may share it. */
static void set_name(struct rp_channel *channel, uint64_t key, uint32_t seats)
{
    uint64_t words[4] = {key, geteuid(), seats, SEGMENT_VERSION};
    snprintf(channel->name, sizeof(channel->name), "/" NAME_BEGIN "%016llx",
             (unsigned long long)XXH64(words, sizeof(words), 0));
}

static void set_sizes(struct rp_channel *channel, uint32_t seats)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t agreement = sizeof(struct head) + rp_agree_bytes(seats);
    channel->table_at = (agreement + page - 1) / page * page;
    channel->bytes = channel->table_at + (rp_learn_bytes(seats) + page - 1) / page * page;
}

/* Random for this process: process numbers repeat in containers. A child of a fork has another. False: no randomness.
 */
static bool process_token(uint64_t *token_out)
{
    static _Atomic uint64_t base; /* relaxed: any thread's first value will do, and it is a value alone */
    uint64_t now = atomic_load_explicit(&base, memory_order_relaxed), fresh;
    if (now == 0) {
        if (getrandom(&fresh, sizeof(fresh), GRND_NONBLOCK) != (ssize_t)sizeof(fresh))
            return false;
        fresh |= 1;
        if (atomic_compare_exchange_strong_explicit(&base, &now, fresh, memory_order_relaxed, memory_order_relaxed))
            now = fresh;
    }
    uint64_t words[2] = {now, (uint64_t)getpid()};
    *token_out = XXH64(words, sizeof(words), 0);
    return true;
}

static enum rp_status join(struct rp_channel *channel, uint32_t seats, uint64_t terms)
{
    uint64_t token, words[2] = {terms, SEGMENT_VERSION};
    if (!process_token(&token))
        return fail(RP_UNSUPPORTED, "no random numbers: %s", strerror(errno));
    struct rp_agree_shared *shared = (struct rp_agree_shared *)(channel->head + 1);
    enum rp_status status = rp_agree_join(&channel->agree, shared, seats, XXH64(words, sizeof(words), 0), token);
    return status == RP_OK ? RP_OK : fail(status, "/dev/shm%s has no seat left", channel->name);
}

/* Without this rank no other can be complete, so it takes the name with it; but only of what is the ranks' own. */
static void abandon(struct rp_channel *channel)
{
    if (channel->checked)
        rp_channel_unlink(channel);
    rp_channel_close(channel);
}

enum rp_status rp_channel_open(uint64_t key, uint32_t seats, uint64_t terms, struct rp_channel **channel_out)
{
    if (seats == 0 || seats > RP_AGREE_RANKS)
        return fail(RP_UNSUPPORTED, "%u ranks are more than the %u that can agree", seats, RP_AGREE_RANKS);
    struct rp_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        return fail(RP_NO_MEMORY, "out of memory");
    channel->process = getpid();
    channel->descriptor = -1;
    set_name(channel, key, seats);
    set_sizes(channel, seats);
    remove_all_left();
    enum rp_status status = open_file(channel);
    if (status == RP_OK)
        status = map_file(channel);
    if (status == RP_OK)
        status = join(channel, seats, terms);
    if (status == RP_OK)
        *channel_out = channel;
    else
        abandon(channel);
    return status;
}

void rp_channel_unlink(struct rp_channel *channel)
{
    if (!channel->unlinked && is_mine(channel))
        shm_unlink(channel->name);
    channel->unlinked = true;
}

struct rp_agree *rp_channel_agree(struct rp_channel *channel)
{
    return &channel->agree;
}

void rp_channel_close(struct rp_channel *channel)
{
    if (channel == NULL)
        return;
    if (is_mine(channel) && channel->head != NULL) {
        rp_channel_table_drop(channel);
        munmap(channel->head, channel->bytes);
    }
    close_file(channel);
    free(channel);
}

/* ---------------------------------------------------------------- the learning table */

/*
 * `users` counts the ranks that use the table, and has FREEING while the last one gives the memory back: who comes then
 * waits, so that nothing that it has reserved or written goes. Acquire and release on both sides: a user that comes
 * after FREEING comes after the hole.
 */
static bool use_table(struct head *head)
{
    for (int i = 0; i < FREEING_WAITS; i++) {
        uint32_t users = atomic_load_explicit(&head->users, memory_order_acquire);
        while (users != FREEING) {
            if (atomic_compare_exchange_weak_explicit(&head->users, &users, users + 1, memory_order_acq_rel,
                                                      memory_order_acquire))
                return true;
        }
        rp_pause_ns(FREEING_WAIT_NS);
    }
    return false;
}

static void leave_table(struct rp_channel *channel)
{
    struct head *head = channel->head;
    uint32_t users = atomic_load_explicit(&head->users, memory_order_acquire), next;
    do {
        next = users == 1 ? FREEING : users - 1;
    } while (
        !atomic_compare_exchange_weak_explicit(&head->users, &users, next, memory_order_acq_rel, memory_order_acquire));
    if (next != FREEING)
        return;
    /* the mapping's own way to a hole in the file: needs no descriptor */
    madvise((char *)head + channel->table_at, channel->bytes - channel->table_at, MADV_REMOVE);
    atomic_store_explicit(&head->users, 0, memory_order_release);
}

void *rp_channel_table(struct rp_channel *channel)
{
    char *table = (char *)channel->head + channel->table_at;
    size_t bytes = channel->bytes - channel->table_at;
    if (channel->uses_table && is_mine(channel))
        return table;
    if (!is_mine(channel) || bytes == 0 || rp_learn_bytes(channel->agree.nranks) > bytes) {
        fail(RP_UNSUPPORTED, "no learning table for %u ranks", channel->agree.nranks);
        return NULL;
    }
    if (!is_ours(channel)) {
        fail(RP_IO, "the program has closed the descriptor of /dev/shm%s", channel->name);
        return NULL;
    }
    if (!use_table(channel->head)) {
        fail(RP_IO, "another rank died while it gave the learning table back");
        return NULL;
    }
    if (reserve(channel, channel->table_at, bytes) != RP_OK) {
        leave_table(channel);
        return NULL;
    }
    channel->uses_table = true;
    return table;
}

void rp_channel_table_drop(struct rp_channel *channel)
{
    if (channel->uses_table && is_mine(channel))
        leave_table(channel);
    channel->uses_table = false;
}
