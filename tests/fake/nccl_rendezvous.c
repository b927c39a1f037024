/*
 * How the ranks of a communicator find one another: an abstract socket named by the rendezvous's key. The first rank
 * that binds it makes the segment and hands it to the others; it serves them inside its own init, so no thread and no
 * name stays behind, and nothing is left if ranks are killed.
 *
 * Every wait looks for an abort. Called by init jobs, one thread for each communicator.
 */
#include "nccl_private.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 20 /* how often a wait for a peer looks for an abort */

struct hello {
    int32_t ranks;
    int32_t rank;
};

/* 128 bits of FNV-1a, as two words with different starts. */
void rendezvous_key(char key_out[33], const void *bytes, size_t count, const char *salt)
{
    uint64_t words[2] = {0xcbf29ce484222325u, 0x6c62272e07bb0142u};
    for (int w = 0; w < 2; w++) {
        for (const char *c = salt; *c; c++)
            words[w] = (words[w] ^ (unsigned char)*c) * 0x100000001b3u;
        for (size_t i = 0; i < count; i++)
            words[w] = (words[w] ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
        words[w] ^= words[w] >> 29;
    }
    snprintf(key_out, 33, "%016llx%016llx", (unsigned long long)words[0], (unsigned long long)words[1]);
}

static bool ended(const struct ncclComm *comm)
{
    return comm_stopped(comm) || (comm->parent_stop && atomic_load(&comm->parent_stop->raised));
}

static socklen_t address_of(const struct ncclComm *comm, struct sockaddr_un *address_out)
{
    *address_out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address_out->sun_path + 1, sizeof address_out->sun_path - 1, "fake-nccl-%s", comm->key);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* One byte goes with the descriptor; a byte alone turns the guest away. */
static bool descriptor_send(int socket, int descriptor)
{
    char byte = 1;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

enum { HOST_GONE = -1, TURNED_AWAY = -2 };

static int descriptor_receive(int socket)
{
    char byte;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
        return HOST_GONE;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS)
        return TURNED_AWAY;
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

/* False at an abort. */
static bool readable(const struct ncclComm *comm, int socket)
{
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    while (!ended(comm))
        if (poll(&wait, 1, LOOK_MS) > 0)
            return true;
    return false;
}

/* One guest: who says another number of ranks, or the number of a rank that came already, is turned away. */
static bool guest_serve(const struct ncclComm *comm, int socket, int descriptor, bool *known)
{
    struct hello hello;
    if (!readable(comm, socket) || recv(socket, &hello, sizeof hello, 0) != (ssize_t)sizeof hello)
        return false;
    bool good = hello.ranks == comm->ranks && hello.rank >= 0 && hello.rank < comm->ranks && !known[hello.rank];
    if (!good) {
        send(socket, "", 1, MSG_NOSIGNAL);
        nccl_warn(ncclInvalidUsage, "init: rank %d of %d does not fit rank %d of %d", hello.rank, hello.ranks,
                  comm->rank, comm->ranks);
        return false;
    }
    known[hello.rank] = descriptor_send(socket, descriptor);
    return known[hello.rank];
}

static ncclResult_t host(struct ncclComm *comm, int listener)
{
    bool known[NCCL_RANKS_MAX] = {false};
    known[comm->rank] = true;
    int descriptor = memfd_create("fake-nccl", MFD_CLOEXEC);
    if (descriptor < 0 || ftruncate(descriptor, (off_t)segment_bytes(comm->ranks)) != 0 ||
        !segment_map(&comm->segment, descriptor, comm->ranks)) {
        close(descriptor);
        return nccl_warn(ncclSystemError, "init: no shared memory: %s", strerror(errno));
    }
    for (int guests = 1; guests < comm->ranks && readable(comm, listener);) {
        int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0)
            continue;
        guests += guest_serve(comm, socket, descriptor, known);
        close(socket);
    }
    close(descriptor);
    return ended(comm) ? ncclInternalError : ncclSuccess;
}

static ncclResult_t guest(struct ncclComm *comm, int socket)
{
    struct hello hello = {comm->ranks, comm->rank};
    if (send(socket, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello || !readable(comm, socket))
        return ended(comm) ? ncclInternalError : nccl_warn(ncclRemoteError, "init: the hosting rank is gone");
    int descriptor = descriptor_receive(socket);
    if (descriptor == TURNED_AWAY)
        return nccl_warn(ncclInvalidUsage, "init: rank %d of %d was turned away", comm->rank, comm->ranks);
    if (descriptor < 0)
        return nccl_warn(ncclRemoteError, "init: the hosting rank is gone");
    bool mapped = segment_map(&comm->segment, descriptor, comm->ranks);
    close(descriptor);
    return mapped ? ncclSuccess : nccl_warn(ncclSystemError, "init: cannot map: %s", strerror(errno));
}

/* Binding fails while another rank hosts; connecting fails in the moment before it listens. */
static ncclResult_t meet(struct ncclComm *comm)
{
    struct sockaddr_un address;
    socklen_t length = address_of(comm, &address);
    while (!ended(comm)) {
        int socket_id = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (socket_id < 0)
            return nccl_warn(ncclSystemError, "init: no socket: %s", strerror(errno));
        bool hosts = bind(socket_id, (struct sockaddr *)&address, length) == 0;
        ncclResult_t result = ncclInProgress;
        if (hosts && listen(socket_id, comm->ranks) == 0)
            result = host(comm, socket_id);
        else if (!hosts && connect(socket_id, (struct sockaddr *)&address, length) == 0)
            result = guest(comm, socket_id);
        close(socket_id);
        if (result != ncclInProgress)
            return result;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return ncclInternalError;
}

/* Two ranks of one process on one device. All ranks see all entries, so all find the same. */
static bool device_shared(const struct ncclComm *comm)
{
    const struct shared_rank *ranks = comm->segment.shared->ranks;
    for (int i = 0; i < comm->ranks; i++)
        for (int k = i + 1; k < comm->ranks; k++)
            if (ranks[i].process == ranks[k].process && ranks[i].device == ranks[k].device)
                return true;
    return false;
}

static bool all_joined(const struct ncclComm *comm)
{
    struct shared *shared = comm->segment.shared;
    for (;;) {
        uint32_t seen = atomic_load(&shared->bell);
        if (atomic_load(&shared->joined) == (uint32_t)comm->ranks)
            return true;
        if (ended(comm))
            return false;
        segment_sleep(&comm->segment, seen);
    }
}

ncclResult_t rendezvous_join(struct ncclComm *comm)
{
    ncclResult_t result = meet(comm);
    if (result != ncclSuccess)
        return result;
    struct shared *shared = comm->segment.shared;
    struct shared_rank *me = &shared->ranks[comm->rank];
    me->process = (uint64_t)getpid();
    me->device = comm->device;
    me->time = fake_host_time();
    atomic_fetch_add(&shared->joined, 1);
    segment_ring(&comm->segment);
    if (!all_joined(comm))
        return ncclInternalError;
    if (device_shared(comm))
        return nccl_warn(ncclInvalidUsage, "init: two ranks on device %d of one process", comm->device);
    for (int i = 0; i < comm->ranks; i++)
        fake_host_time_raise(shared->ranks[i].time);
    return ncclSuccess;
}
