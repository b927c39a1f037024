#include "shim/group.h"

#include <stdlib.h>

#include "shim/runtime.h"

struct pending {
    struct pending *next;
    bool is_birth;
    union {
        struct rp_call call;
        struct rp_comm_birth birth;
    } of;
};

/* Emptied at each outermost end; a thread that ends inside a group leaks it, as NCCL does its own. */
static _Thread_local struct {
    struct pending *first, *last;
    bool holds; /* a call waits for the end */
    bool open;  /* no call waits any more: they are made as they come */
    const struct rp_nccl *library;
} queue __attribute__((tls_model("initial-exec")));

static struct pending *append(void)
{
    struct pending *pending = calloc(1, sizeof *pending);
    if (pending == NULL)
        return NULL;
    if (queue.last != NULL)
        queue.last->next = pending;
    else
        queue.first = pending;
    queue.last = pending;
    return pending;
}

bool rp_group_add_call(const struct rp_call *call)
{
    struct pending *pending = append();
    if (pending == NULL)
        return false;
    pending->of.call = *call;
    queue.holds = queue.holds || call->held;
    return true;
}

bool rp_group_holds(void)
{
    return queue.holds;
}

bool rp_group_may_hold(void)
{
    return !queue.open;
}

bool rp_group_add_birth(const struct rp_comm_birth *birth)
{
    struct pending *pending = append();
    if (pending == NULL)
        return false;
    pending->is_birth = true;
    pending->of.birth = *birth;
    return true;
}

/* One stream and one communicator: then nothing but the calls' own order is to be kept where one is taken out. */
static bool is_simple(void)
{
    const struct rp_call *one = NULL;
    for (const struct pending *pending = queue.first; pending != NULL; pending = pending->next) {
        const struct rp_call *call = &pending->of.call;
        if (pending->is_birth)
            return false;
        if (one != NULL && (call->comm != one->comm || call->op.stream != one->op.stream))
            return false;
        one = call;
    }
    return true;
}

static void each_call(void (*act)(struct rp_call *call))
{
    for (struct pending *pending = queue.first; pending != NULL; pending = pending->next)
        if (!pending->is_birth)
            act(&pending->of.call);
}

static void offer(struct rp_call *call)
{
    rp_call_offer(call, true);
}

static void offer_nothing(struct rp_call *call)
{
    rp_call_offer(call, false);
}

void rp_group_release(void)
{
    each_call(rp_call_release);
    queue.holds = false;
    queue.open = true;
}

static bool any_refused(void)
{
    bool refused = false;
    for (const struct pending *pending = queue.first; pending != NULL; pending = pending->next)
        refused = refused || (!pending->is_birth && rp_call_refused(&pending->of.call));
    return refused;
}

bool rp_group_prepare(void)
{
    if (rp_thread.group_depth != 1)
        return true;
    each_call(rp_call_prepare);
    each_call(is_simple() ? offer : offer_nothing);
    each_call(rp_call_settle);
    return !any_refused();
}

void rp_group_prepare_simulated(void)
{
    if (rp_thread.group_depth == 1)
        rp_group_release();
}

/* What was made late and failed, failed alone; else the group's result is the call's own. */
static ncclResult_t result_of(const struct rp_call *call, ncclResult_t result)
{
    return (call->op.flags & RP_OP_HIT) != 0 || call->result != ncclSuccess ? call->result : result;
}

static void finish(ncclResult_t result, unsigned flags)
{
    struct pending *pending = queue.first;
    queue.first = queue.last = NULL;
    queue.holds = queue.open = false;
    while (pending != NULL) {
        struct pending *next = pending->next;
        if (pending->is_birth) {
            rp_comm_born(&pending->of.birth, result);
        } else {
            pending->of.call.op.flags |= (uint16_t)flags;
            rp_call_report(&pending->of.call, result_of(&pending->of.call, result));
        }
        free(pending);
        pending = next;
    }
}

const struct rp_nccl *rp_group_library(void)
{
    return queue.library;
}

void rp_group_start(const struct rp_nccl *real, ncclResult_t result)
{
    if (result != ncclSuccess)
        return;
    if (rp_thread.group_depth == 0) {
        rp_thread.groups++;
        queue.library = real;
    }
    rp_thread.group_depth++;
}

/* NCCL counts the end even where it reports an error. */
static void end(ncclResult_t result, unsigned flags)
{
    if (rp_thread.group_depth == 0)
        return;
    if (--rp_thread.group_depth == 0)
        finish(result, flags);
}

void rp_group_end(ncclResult_t result)
{
    end(result, 0);
}

void rp_group_simulate_end(ncclResult_t result)
{
    end(result, RP_OP_SIMULATED);
}

/* Not freed: memory of the parent. */
void rp_group_forked(void)
{
    while (queue.first != NULL) {
        struct pending *next = queue.first->next;
        free(queue.first);
        queue.first = next;
    }
    queue.last = NULL;
    queue.holds = queue.open = false;
}
