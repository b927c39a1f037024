#include "core/record/producer.h"

#include <stdlib.h>

#define RING_LOG2 13u       /* 8192 records, 512 KiB when all are touched */
#define PRODUCERS_MAX 4096u /* threads that issue work at the same time */

static struct rp_producer *find_free(const struct rp_producers *producers)
{
    struct rp_producer *producer = rp_producer_first(producers);
    /* pairs with the release that freed it (recorder_fold.c): the ring is empty and the thread before is done with */
    while (producer != NULL && atomic_load_explicit(&producer->state, memory_order_acquire) != RP_PRODUCER_FREE)
        producer = producer->next;
    return producer;
}

static enum rp_status make(struct rp_producers *producers, struct rp_producer **producer_out)
{
    if (producers->count >= PRODUCERS_MAX)
        return RP_FULL;
    struct rp_producer *producer = calloc(1, sizeof *producer);
    if (producer == NULL)
        return RP_NO_MEMORY;
    enum rp_status status = rp_ring_create(RING_LOG2, &producer->ring);
    if (status != RP_OK) {
        free(producer);
        return status;
    }
    producer->number = producers->count++;
    producer->next = rp_producer_first(producers);
    /* LIVE before it is listed: the background thread must not take it for a free one */
    atomic_store_explicit(&producer->state, RP_PRODUCER_LIVE, memory_order_relaxed);
    /* pairs with the acquire in rp_producer_first(): who sees it sees it whole */
    atomic_store_explicit(&producers->first, producer, memory_order_release);
    *producer_out = producer;
    return RP_OK;
}

enum rp_status rp_producer_take(struct rp_producers *producers, struct rp_producer **producer_out)
{
    struct rp_producer *producer = find_free(producers);
    if (producer == NULL)
        return make(producers, producer_out);
    atomic_store_explicit(&producer->state, RP_PRODUCER_LIVE, memory_order_release);
    *producer_out = producer;
    return RP_OK;
}

void rp_producer_end(struct rp_producer *producer)
{
    /* pairs with the acquire in rp_fold_producer(): all that the thread pushed is seen with it */
    atomic_store_explicit(&producer->state, RP_PRODUCER_ENDED, memory_order_release);
}

struct rp_producer *rp_producer_first(const struct rp_producers *producers)
{
    return atomic_load_explicit(&producers->first, memory_order_acquire);
}
