/*
 * The segment that the ranks of a communicator share: header, one entry for each rank, mailboxes for each pair,
 * staging buffers. All-zero is its first state. Pages are touched only when used.
 *
 * Waiting: read the bell, look at the condition, sleep if the bell has not been rung since. Whoever changes something
 * rings after. `sleepers` spares the system call when nobody sleeps; a rank that died asleep leaves it too high, which
 * costs time only.
 */
#include "nccl_private.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static size_t header_bytes(int ranks)
{
    return sizeof(struct shared) + (size_t)ranks * sizeof(struct shared_rank);
}

static size_t mailboxes_at(int ranks)
{
    return (header_bytes(ranks) + 4095) & ~(size_t)4095;
}

static size_t slots_at(int ranks)
{
    size_t mailboxes = (size_t)ranks * (size_t)ranks * sizeof(struct mailbox);
    return (mailboxes_at(ranks) + mailboxes + 4095) & ~(size_t)4095;
}

static size_t mail_at(int ranks)
{
    return slots_at(ranks) + (size_t)ranks * 2 * NCCL_SLOT_BYTES;
}

size_t segment_bytes(int ranks)
{
    return mail_at(ranks) + (size_t)ranks * (size_t)ranks * NCCL_MAIL_BYTES;
}

bool segment_map(struct segment *segment_out, int descriptor, int ranks)
{
    size_t bytes = segment_bytes(ranks);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    if (base == MAP_FAILED)
        return false;
    segment_out->bytes = bytes;
    segment_out->ranks = ranks;
    segment_out->shared = base;
    return true;
}

void segment_unmap(struct segment *segment)
{
    if (segment->shared)
        munmap(segment->shared, segment->bytes);
    segment->shared = NULL;
}

char *segment_slot(const struct segment *segment, int rank, int parity)
{
    return (char *)segment->shared + slots_at(segment->ranks) + (size_t)(2 * rank + parity) * NCCL_SLOT_BYTES;
}

static size_t pair(const struct segment *segment, int from, int to)
{
    return (size_t)from * (size_t)segment->ranks + (size_t)to;
}

struct mailbox *segment_mailbox(const struct segment *segment, int from, int to)
{
    struct mailbox *first = (struct mailbox *)(void *)((char *)segment->shared + mailboxes_at(segment->ranks));
    return first + pair(segment, from, to);
}

char *segment_mail(const struct segment *segment, int from, int to)
{
    return (char *)segment->shared + mail_at(segment->ranks) + pair(segment, from, to) * NCCL_MAIL_BYTES;
}

void segment_ring(const struct segment *segment)
{
    struct shared *shared = segment->shared;
    atomic_fetch_add(&shared->bell, 1);
    if (atomic_load(&shared->sleepers) > 0)
        syscall(SYS_futex, &shared->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void segment_sleep(const struct segment *segment, uint32_t seen)
{
    struct shared *shared = segment->shared;
    atomic_fetch_add(&shared->sleepers, 1);
    syscall(SYS_futex, &shared->bell, FUTEX_WAIT, seen, NULL, NULL, 0);
    atomic_fetch_sub(&shared->sleepers, 1);
}
