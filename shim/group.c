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
    return true;
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

static void finish(ncclResult_t result, unsigned flags)
{
    struct pending *pending = queue.first;
    queue.first = queue.last = NULL;
    while (pending != NULL) {
        struct pending *next = pending->next;
        if (pending->is_birth) {
            rp_comm_born(&pending->of.birth, result);
        } else {
            pending->of.call.op.flags |= (uint16_t)flags;
            rp_call_report(&pending->of.call, result);
        }
        free(pending);
        pending = next;
    }
}

void rp_group_start(ncclResult_t result)
{
    if (result != ncclSuccess)
        return;
    if (rp_thread.group_depth == 0)
        rp_thread.groups++;
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
}
