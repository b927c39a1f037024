/*
 * Groups. Calls collect on the calling thread between start and end; a call outside is a group of its own. At the
 * outermost end: init jobs run, each on a thread of its own; then every communicator gets one piece of work with its
 * tasks, which waits for all streams that its tasks name and for which all of them wait.
 *
 * If a communicator of the group is nonblocking, all this happens on another thread: the call returns ncclInProgress
 * and the communicator's async error says when it is done.
 *
 * FAKE_PRECONNECT=1: the first use of each kind of operation on a communicator is a rendezvous of the ranks' host
 * threads, as in the real library, which connects algorithms at first use (NCCL 2.28, group.cc).
 */
#include "nccl_private.h"

#include <stdlib.h>
#include <string.h>

struct job {
    struct ncclComm *comm; /* a reference */
    ncclResult_t (*run)(void *argument);
    void *argument;
    bool init; /* its result is the communicator's state */
    uint64_t time;
    int device;
    ncclResult_t result;
    pthread_t thread;
};

struct group {
    int depth;
    ncclResult_t error;
    struct task *tasks; /* each holds a reference to its communicator */
    int task_count;
    int task_room;
    struct job *jobs;
    int job_count;
    int job_room;
    uint64_t time; /* when another thread finishes it */
    int device;
    struct ncclComm *only; /* its one communicator, whose abort waits for that thread; a reference, or NULL */
};

static _Thread_local struct group current;

void group_start(void)
{
    current.depth++;
}

ncclResult_t group_error(ncclResult_t result)
{
    if (current.depth > 0 && result != ncclSuccess && result != ncclInProgress && current.error == ncclSuccess)
        current.error = result;
    return result;
}

static void *grow(void *items, int count, int *room, size_t size)
{
    if (count < *room)
        return items;
    *room = *room ? *room * 2 : 8;
    void *grown = realloc(items, (size_t)*room * size);
    if (!grown) {
        fake_say("out of memory");
        abort();
    }
    return grown;
}

ncclResult_t group_add(const struct task *task)
{
    current.tasks = grow(current.tasks, current.task_count, &current.task_room, sizeof *task);
    current.tasks[current.task_count] = *task;
    comm_keep(task->comm);
    current.task_count++;
    return ncclSuccess;
}

static void job_add(struct group *group, const struct job *job)
{
    group->jobs = grow(group->jobs, group->job_count, &group->job_room, sizeof *job);
    group->jobs[group->job_count] = *job;
    group->jobs[group->job_count].device = fake_device_current();
    comm_keep(job->comm);
    group->job_count++;
}

ncclResult_t group_add_job(struct ncclComm *comm, ncclResult_t (*run)(void *argument), void *argument)
{
    job_add(&current, &(struct job){.comm = comm, .run = run, .argument = argument, .init = true});
    return ncclSuccess;
}

void thread_detach(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument) != 0) {
        fake_say("cannot start a thread");
        abort();
    }
    pthread_detach(thread);
}

static void *job_main(void *argument)
{
    struct job *job = argument;
    fake_device_select(job->device);
    fake_host_time_set(job->time);
    job->result = job->run(job->argument);
    job->time = fake_host_time();
    if (job->init) {
        atomic_store(&job->comm->init_time, job->time);
        atomic_store(&job->comm->async, job->result);
    }
    return NULL;
}

/* All at once: jobs of one process may wait for one another. */
static ncclResult_t jobs_run(struct group *group)
{
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < group->job_count; i++) {
        group->jobs[i].time = fake_host_time();
        if (pthread_create(&group->jobs[i].thread, NULL, job_main, &group->jobs[i]) != 0) {
            fake_say("cannot start a thread");
            abort();
        }
    }
    for (int i = 0; i < group->job_count; i++) {
        pthread_join(group->jobs[i].thread, NULL);
        fake_host_time_raise(group->jobs[i].time);
        if (result == ncclSuccess)
            result = group->jobs[i].result;
        comm_drop(group->jobs[i].comm);
    }
    group->job_count = 0;
    return result;
}

struct batch {
    struct ncclComm *comm;
    int count;
    struct task tasks[];
};

static bool enter(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    bool in = !comm_halted(comm) && !atomic_load(&comm->segment.shared->failed);
    comm->running += in;
    pthread_mutex_unlock(&comm->lock);
    return in;
}

static void leave(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    comm->running--;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static void failure_learn(struct ncclComm *comm)
{
    if (atomic_load(&comm->segment.shared->failed))
        comm_fail(comm, "another rank found that ranks do not do the same");
}

/* Collectives in the order of the calls, then all sends and receives at once. */
static uint64_t batch_run(void *payload, uint64_t ready)
{
    struct batch *batch = payload;
    if (!enter(batch->comm)) {
        failure_learn(batch->comm);
        return ready;
    }
    bool first = true;
    for (int i = 0; i < batch->count; i++)
        if (!task_is_p2p(&batch->tasks[i])) {
            ready = collective_run(&batch->tasks[i], ready, first);
            first = false;
        }
    ready = p2p_run(batch->tasks, batch->count, ready);
    failure_learn(batch->comm);
    leave(batch->comm);
    return ready;
}

static void batch_release(void *payload)
{
    struct batch *batch = payload;
    for (int i = 0; i < batch->count; i++)
        comm_drop(batch->comm);
    free(batch);
}

static ncclResult_t launch_one(struct group *group, struct ncclComm *comm, cudaStream_t *streams)
{
    struct batch *batch = calloc(1, sizeof *batch + (size_t)group->task_count * sizeof(struct task));
    if (!batch)
        return ncclSystemError;
    batch->comm = comm;
    for (int i = 0; i < group->task_count; i++)
        if (group->tasks[i].comm == comm) {
            streams[batch->count] = group->tasks[i].stream;
            batch->tasks[batch->count++] = group->tasks[i];
            group->tasks[i].comm = NULL; /* the reference is the batch's */
        }
    struct fake_work work = {batch_run, batch_release, batch, fake_chain_keep(comm->chain)};
    cudaError_t error = fake_submit_joined(streams, batch->count, &work);
    return error == cudaSuccess ? ncclSuccess : nccl_warn(ncclUnhandledCudaError, "cuda error %d", (int)error);
}

static ncclResult_t launch(struct group *group)
{
    ncclResult_t result = ncclSuccess;
    cudaStream_t *streams = calloc((size_t)group->task_count + 1, sizeof(cudaStream_t));
    for (int i = 0; streams && i < group->task_count && result == ncclSuccess; i++)
        if (group->tasks[i].comm)
            result = launch_one(group, group->tasks[i].comm, streams);
    free(streams);
    return result;
}

static ncclResult_t preconnect(void *argument)
{
    struct ncclComm *comm = argument;
    struct host_word *words = calloc((size_t)comm->ranks, sizeof *words);
    if (!words)
        return ncclSystemError;
    ncclResult_t result = host_exchange(comm, host_ticket(comm), (struct host_word){.what = HOST_PRECONNECT}, words);
    free(words);
    return result;
}

static void preconnect_add(struct group *group)
{
    for (int i = 0; i < group->task_count; i++) {
        struct ncclComm *comm = group->tasks[i].comm;
        uint32_t kind = 1u << group->tasks[i].kind;
        pthread_mutex_lock(&comm->lock);
        bool fresh = !(comm->connected & kind) && !task_is_p2p(&group->tasks[i]) && comm->ranks > 1;
        comm->connected |= kind;
        pthread_mutex_unlock(&comm->lock);
        if (fresh)
            job_add(group, &(struct job){.comm = comm, .run = preconnect, .argument = comm});
    }
}

static void group_clear(struct group *group)
{
    for (int i = 0; i < group->task_count; i++)
        if (group->tasks[i].comm)
            comm_drop(group->tasks[i].comm);
    for (int i = 0; i < group->job_count; i++)
        comm_drop(group->jobs[i].comm);
    free(group->tasks);
    free(group->jobs);
    *group = (struct group){0};
}

static ncclResult_t group_finish(struct group *group)
{
    ncclResult_t result = jobs_run(group);
    if (result == ncclSuccess && fake_config()->preconnect) {
        preconnect_add(group);
        result = jobs_run(group);
    }
    if (result == ncclSuccess)
        result = launch(group);
    return result;
}

/* The states of nonblocking communicators: in progress now, and at the end what came out. Init jobs set their own. */
static bool nonblocking_begin(struct group *group)
{
    bool any = false;
    for (int i = 0; i < group->task_count; i++)
        if (!group->tasks[i].comm->blocking) {
            atomic_store(&group->tasks[i].comm->async, ncclInProgress);
            any = true;
        }
    for (int i = 0; i < group->job_count; i++)
        any = any || !group->jobs[i].comm->blocking;
    return any;
}

/* The communicator of all of it, if its own abort ends whatever the group waits for; or NULL. */
static struct ncclComm *group_only(const struct group *group)
{
    struct ncclComm *only = group->task_count > 0 ? group->tasks[0].comm : group->jobs[0].comm;
    for (int i = 0; i < group->task_count; i++)
        if (group->tasks[i].comm != only)
            return NULL;
    for (int i = 0; i < group->job_count; i++)
        if (group->jobs[i].comm != only)
            return NULL;
    return only->parent_stop ? NULL : only;
}

static void background_count(struct ncclComm *comm, int by)
{
    pthread_mutex_lock(&comm->lock);
    comm->background += by;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static void background_begin(struct group *group)
{
    group->only = group_only(group);
    if (!group->only)
        return;
    comm_keep(group->only);
    background_count(group->only, 1);
}

static void background_end(const struct group *group)
{
    if (!group->only)
        return;
    background_count(group->only, -1);
    comm_drop(group->only);
}

/* The communicators of its tasks, each once: the first word of a communicator's end lets the application call again,
 * and a second word would be taken for the end of that call. A reference to each; the caller frees the array. */
static struct ncclComm **group_comms(const struct group *group, int *count_out)
{
    int count = 0;
    struct ncclComm **comms = calloc((size_t)group->task_count + 1, sizeof(struct ncclComm *));
    if (!comms) {
        fake_say("out of memory");
        abort();
    }
    for (int i = 0; i < group->task_count; i++) {
        int at = 0;
        while (at < count && comms[at] != group->tasks[i].comm)
            at++;
        if (at == count)
            comms[count++] = comm_keep(group->tasks[i].comm);
    }
    *count_out = count;
    return comms;
}

static void *nonblocking_main(void *argument)
{
    struct group *group = argument;
    int count;
    struct ncclComm **comms = group_comms(group, &count);
    fake_device_select(group->device);
    fake_host_time_set(group->time);
    ncclResult_t result = group_finish(group);
    for (int i = 0; i < count; i++) {
        int busy = ncclInProgress;
        atomic_compare_exchange_strong(&comms[i]->async, &busy, result);
        comm_drop(comms[i]);
    }
    free(comms);
    background_end(group);
    group_clear(group);
    free(group);
    return NULL;
}

/* Takes the thread's group and leaves it empty. */
static struct group group_take(void)
{
    struct group taken = current;
    current = (struct group){0};
    return taken;
}

ncclResult_t group_end(void)
{
    if (current.depth == 0)
        return nccl_warn(ncclInvalidUsage, "GroupEnd without GroupStart");
    if (--current.depth > 0)
        return ncclSuccess;
    struct group group = group_take();
    ncclResult_t result = group.error;
    if (result == ncclSuccess && nonblocking_begin(&group)) {
        struct group *moved = malloc(sizeof *moved);
        if (!moved) {
            fake_say("out of memory");
            abort();
        }
        group.time = fake_host_time();
        group.device = fake_device_current();
        background_begin(&group);
        *moved = group;
        thread_detach(nonblocking_main, moved);
        return ncclInProgress;
    }
    if (result == ncclSuccess)
        result = group_finish(&group);
    group_clear(&group);
    return result;
}

ncclResult_t ncclGroupStart(void);
ncclResult_t pncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t pncclGroupEnd(void);

ncclResult_t pncclGroupStart(void)
{
    group_start();
    return ncclSuccess;
}
NCCL_WEAK(GroupStart);

ncclResult_t pncclGroupEnd(void)
{
    return group_end();
}
NCCL_WEAK(GroupEnd);

static ncclResult_t simulated(const struct group *group, ncclSimInfo_t *info)
{
    const ncclSimInfo_t initial = NCCL_SIM_INFO_INITIALIZER;
    uint64_t ns = 0;
    if (!info)
        return ncclSuccess;
    if (info->magic != initial.magic || info->size == 0)
        return nccl_warn(ncclInvalidArgument, "simInfo is not initialized");
    for (int i = 0; i < group->task_count; i++)
        ns += task_cost_ns(&group->tasks[i], i == 0);
    info->estimatedTime = (float)((double)ns / 1e3);
    return ncclSuccess;
}

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    if (current.depth == 0)
        return nccl_warn(ncclInvalidUsage, "GroupSimulateEnd without GroupStart");
    if (--current.depth > 0)
        return ncclSuccess;
    struct group group = group_take();
    ncclResult_t result = group.error != ncclSuccess ? group.error : simulated(&group, info);
    group_clear(&group);
    return result;
}
NCCL_WEAK(GroupSimulateEnd);
