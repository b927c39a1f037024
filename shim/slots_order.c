/*
 * Which work on a slot follows which: a writer waits for the last write and all reads since, a reader for the last
 * write. Never the host: streams wait for events. Each wait is asked for even where the stream has the handle of the
 * one that recorded the event: handles are used again, and then name another stream.
 *
 * Such a wait adds nothing that NCCL would not: it too runs the operations of one communicator one after the other.
 *
 * Threads: with the lock of the slot's set.
 */
#include "shim/slots_private.h"

enum rp_status rp_slot_order_make(struct rp_slot_order *order)
{
    RP_GPU_TRY(cuEventCreate(&order->write, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < RP_SLOT_READERS; i++)
        RP_GPU_TRY(cuEventCreate(&order->read[i], CU_EVENT_DISABLE_TIMING));
    return RP_OK;
}

static bool follow(CUstream stream, CUevent event)
{
    return rp_gpu_driver.p_cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS;
}

bool rp_slot_order_read(struct rp_slot_order *order, CUstream stream)
{
    return !order->written || follow(stream, order->write);
}

bool rp_slot_order_write(struct rp_slot_order *order, CUstream stream)
{
    bool follows = rp_slot_order_read(order, stream);
    for (unsigned i = 0; i < order->reads; i++)
        follows = follow(stream, order->read[i]) && follows;
    return follows;
}

/* The entry that `stream` records its read in. A used one is waited for, so that its record stands for both. */
static bool read_entry(struct rp_slot_order *order, CUstream stream, unsigned *entry_out)
{
    unsigned entry = 0;
    while (entry < order->reads && order->reader[entry] != stream)
        entry++;
    if (entry == order->reads && order->reads < RP_SLOT_READERS) {
        order->reader[order->reads++] = stream;
        *entry_out = entry;
        return true;
    }
    if (entry == RP_SLOT_READERS) {
        entry = order->oldest;
        order->oldest = (order->oldest + 1) % RP_SLOT_READERS;
        order->reader[entry] = stream;
    }
    *entry_out = entry;
    return follow(stream, order->read[entry]);
}

bool rp_slot_order_did_read(struct rp_slot_order *order, CUstream stream)
{
    unsigned entry;
    if (!read_entry(order, stream, &entry) || rp_gpu_driver.p_cuEventRecord(order->read[entry], stream) != CUDA_SUCCESS)
        order->lost = true;
    return !order->lost;
}

bool rp_slot_order_wrote(struct rp_slot_order *order, CUstream stream)
{
    if (rp_gpu_driver.p_cuEventRecord(order->write, stream) != CUDA_SUCCESS) {
        order->lost = true;
        return false;
    }
    order->written = true;
    order->reads = 0;
    order->oldest = 0;
    return true;
}

bool rp_slot_order_settled(const struct rp_slot_order *order)
{
    return !order->lost && order->open == NULL &&
           (!order->written || rp_gpu_driver.p_cuEventQuery(order->write) == CUDA_SUCCESS);
}

bool rp_slot_order_idle(const struct rp_slot_order *order)
{
    if (!rp_slot_order_settled(order))
        return false;
    for (unsigned i = 0; i < order->reads; i++)
        if (rp_gpu_driver.p_cuEventQuery(order->read[i]) != CUDA_SUCCESS)
            return false;
    return true;
}
