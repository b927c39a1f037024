#include "shim/waits.h"

#include <pthread.h>
#include <string.h>

/* Ops, and events that stand for one, that are remembered. */
#define OPS 64u
#define EVENTS 64u

struct op {
    struct rp_waits_op of;
    uintptr_t stream, waiter; /* waiter: the first other stream that waited for it; 0: none yet */
};

struct event {
    cudaEvent_t event; /* NULL: none */
    uint64_t op;       /* number */
};

_Atomic uint32_t rp_waits_watched;

static struct {
    pthread_mutex_t lock; /* over all */
    uint64_t count;       /* of ops so far: the number of the next */
    struct op ops[OPS];   /* by number */
    struct event events[EVENTS];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct op *op_at(uint64_t number)
{
    return &table.ops[number % OPS];
}

/* Number of the oldest op that is remembered. */
static uint64_t oldest(void)
{
    return table.count > OPS ? table.count - OPS : 0;
}

/* Events recorded while nothing was watched are not known to have been. */
void rp_waits_watch(void)
{
    pthread_mutex_lock(&table.lock);
    if (atomic_fetch_add_explicit(&rp_waits_watched, 1, memory_order_relaxed) == 0) {
        table.count = 0;
        memset(table.events, 0, sizeof table.events);
    }
    pthread_mutex_unlock(&table.lock);
}

void rp_waits_unwatch(void)
{
    atomic_fetch_sub_explicit(&rp_waits_watched, 1, memory_order_relaxed);
}

void rp_waits_op(const struct rp_waits_op *op, uintptr_t stream)
{
    pthread_mutex_lock(&table.lock);
    *op_at(table.count++) = (struct op){.of = *op, .stream = stream};
    pthread_mutex_unlock(&table.lock);
}

/* The last op on the stream; false: none that is timed. */
static bool last_on(uintptr_t stream, uint64_t *number_out)
{
    for (uint64_t number = table.count; number > oldest();)
        if (op_at(--number)->stream == stream) {
            *number_out = number;
            return op_at(number)->of.comm != NULL;
        }
    return false;
}

static struct event *event_find(cudaEvent_t event)
{
    for (unsigned i = 0; i < EVENTS; i++)
        if (table.events[i].event == event)
            return &table.events[i];
    return NULL;
}

/* A free place, or that of the oldest op's. */
static struct event *event_place(void)
{
    struct event *place = &table.events[0];
    for (unsigned i = 0; i < EVENTS && place->event != NULL; i++)
        if (table.events[i].event == NULL || table.events[i].op < place->op)
            place = &table.events[i];
    return place;
}

void rp_waits_recorded(cudaEvent_t event, uintptr_t stream)
{
    uint64_t number;
    if (event == NULL)
        return;
    pthread_mutex_lock(&table.lock);
    struct event *known = event_find(event);
    if (!last_on(stream, &number)) {
        if (known != NULL)
            known->event = NULL;
    } else {
        *(known != NULL ? known : event_place()) = (struct event){.event = event, .op = number};
    }
    pthread_mutex_unlock(&table.lock);
}

/* A gather of that lane was waited for by the stream. */
static bool waits_for_gathers(uintptr_t stream, const struct rp_comm *comm)
{
    for (uint64_t number = table.count; number > oldest();) {
        const struct op *op = op_at(--number);
        if (op->of.comm == comm && op->of.gather && op->waiter == stream)
            return true;
    }
    return false;
}

static bool is_first(const struct op *op, uintptr_t stream)
{
    return op->waiter == 0 && op->stream != stream && (op->of.gather || waits_for_gathers(stream, op->of.comm));
}

bool rp_waits_first(cudaEvent_t event, uintptr_t stream, struct rp_waits_op *op_out)
{
    bool first = false;
    if (event == NULL)
        return false;
    pthread_mutex_lock(&table.lock);
    const struct event *known = event_find(event);
    if (known != NULL && known->op >= oldest() && is_first(op_at(known->op), stream)) {
        op_at(known->op)->waiter = stream;
        *op_out = op_at(known->op)->of;
        first = true;
    }
    pthread_mutex_unlock(&table.lock);
    return first;
}

void rp_waits_forked(void)
{
    pthread_mutex_init(&table.lock, NULL);
    atomic_store(&rp_waits_watched, 0);
}
