/*
 * The engine of the stand-in runtime: devices, memory, streams, events and modelled time, in one process. The CUDA
 * runtime (cudart_*.c), the driver (driver_*.c) and NCCL (nccl_*.c) are thin front ends over it; handles are the
 * same in all three.
 *
 * Errors are cudaError_t; the driver's codes have the same numbers. Every function may be called from any thread.
 *
 * Two clocks. Work really runs, as fast as it can, on one thread per stream. Beside that every piece of work has a
 * modelled span: it starts at the latest of the end of its predecessor in the stream, the ends of what the stream
 * waited for, and the modelled time of the host thread that issued it; it ends after its modelled cost. A host
 * thread that waits for work moves its modelled time to that work's end. All times are nanoseconds since the process
 * began; rendezvous between processes carry the latest time over.
 */
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

/* Configuration (engine_config.c) ---------------------------------------------------------------------------------- */

/* From the environment, read once. Bandwidths: 1 GB/s is one byte per nanosecond. */
struct fake_config {
    int devices;           /* FAKE_DEVICES */
    uint64_t memory_bytes; /* FAKE_MEMORY_MB: of each device */
    uint64_t kernel_ns;    /* FAKE_KERNEL_US */
    uint64_t latency_ns;   /* FAKE_LINK_LATENCY_US */
    double link_gbps;      /* FAKE_LINK_GBPS */
    double hbm_gbps;       /* FAKE_HBM_GBPS */
    size_t granule;        /* FAKE_GRANULE_KB, in bytes */
    double host_gbps;      /* FAKE_HOST_GBPS: between host and device */
    bool realtime;         /* FAKE_REALTIME */
    unsigned jitter_us;    /* FAKE_JITTER_US */
    bool preconnect;       /* FAKE_PRECONNECT: see nccl_group.c */
};
const struct fake_config *fake_config(void);
uint64_t fake_transfer_ns(uint64_t bytes, double gbps);

/* FAKE_FAULT, for this process's rank (RANK). Numbers count from 1. X(enumerator, name) */
#define FAKE_FAULTS(X)                                                     \
    X(LAG, "lag")                                                          \
    X(ERROR, "error")                                                      \
    X(MALLOC, "malloc")   /* the runtime's allocations of device memory */ \
    X(CUALLOC, "cualloc") /* the driver's allocations */                   \
    X(SCRIBBLE, "scribble")                                                \
    X(KILL, "kill")

enum fake_fault_kind {
#define X(name, text) FAKE_FAULT_##name,
    FAKE_FAULTS(X)
#undef X
        FAKE_FAULT_KINDS
};
/* Whether fault `kind` is asked for at number `number`; then *value_out (if not NULL) is its us. */
bool fake_fault(enum fake_fault_kind kind, uint64_t number, uint64_t *value_out);
/* The same at the next number of this kind. */
bool fake_fault_next(enum fake_fault_kind kind);

/* One line to stderr. */
void fake_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Devices and the calling thread (engine_device.c) ----------------------------------------------------------------- */

/* Starts the engine. Every entry that needs a device calls it first. cudaErrorInitializationError after a fork of a
 * process that used the engine; cudaErrorNoDevice with FAKE_DEVICES=0. Makes the current device's context current. */
cudaError_t fake_enter(void);
/* The same without making a context current. */
cudaError_t fake_start(void);
int fake_device_current(void);
/* cudaErrorInvalidDevice: there is no such device. Starts the engine. */
cudaError_t fake_device_check(int device);
cudaError_t fake_device_select(int device);
/* The contexts of the driver: device + 1, 0 for none; a stack per thread. */
int fake_context_current(void);
void fake_context_set(int context);
cudaError_t fake_context_push(int context);
cudaError_t fake_context_pop(int *context_out);
int fake_device_attribute(int attribute);
cudaError_t fake_device_synchronize(int device);

/* Modelled time and completion (engine_mark.c) --------------------------------------------------------------------- */

uint64_t fake_host_time(void);
void fake_host_time_raise(uint64_t time);
/* For a thread that works on behalf of another. */
void fake_host_time_set(uint64_t time);

/* The completion of one piece of work. Counted references. */
struct fake_mark;
struct fake_mark *fake_mark_new(void);
struct fake_mark *fake_mark_keep(struct fake_mark *mark);
void fake_mark_drop(struct fake_mark *mark);
void fake_mark_finish(struct fake_mark *mark, uint64_t end);
bool fake_mark_done(const struct fake_mark *mark, uint64_t *end_out);
uint64_t fake_mark_wait(struct fake_mark *mark);

/* A chain: pieces of work on any streams that run one after the other, in the order of issue. */
struct fake_chain;
struct fake_chain *fake_chain_new(void);
struct fake_chain *fake_chain_keep(struct fake_chain *chain);
void fake_chain_drop(struct fake_chain *chain);
/* Waits for all work of the chain issued so far. */
void fake_chain_wait(struct fake_chain *chain);

/* Streams (engine_stream.c, engine_submit.c) ----------------------------------------------------------------------- */

/* `run` gets the modelled time at which the work may start and returns its end. A captured piece of work runs many
 * times; `release` (may be NULL) is called once, after the last run. */
struct fake_work {
    uint64_t (*run)(void *payload, uint64_t ready);
    void (*release)(void *payload);
    void *payload;
    struct fake_chain *chain; /* or NULL */
};

/* Priorities go from 0, the least, to this; others are clamped. */
#define FAKE_PRIORITY_GREATEST (-5)
cudaError_t fake_stream_create(cudaStream_t *stream_out, unsigned flags, int priority);
cudaError_t fake_stream_destroy(cudaStream_t stream);
cudaError_t fake_stream_query(cudaStream_t stream);
cudaError_t fake_stream_synchronize(cudaStream_t stream);
cudaError_t fake_stream_wait_event(cudaStream_t stream, cudaEvent_t event);
cudaError_t fake_stream_check(cudaStream_t stream);
struct fake_stream_info {
    int device;
    unsigned flags;
    int priority;
    unsigned long long id;
};
cudaError_t fake_stream_info(cudaStream_t stream, struct fake_stream_info *info_out);
/* Takes `work` over, also when it fails (then it is released without a run). mark_out may be NULL; else a reference,
 * NULL for captured work. */
cudaError_t fake_submit(cudaStream_t stream, const struct fake_work *work, struct fake_mark **mark_out);
/* Work that waits for all of `streams` and that all of them wait for. */
cudaError_t fake_submit_joined(const cudaStream_t *streams, int count, const struct fake_work *work);
/* The stream behind a special handle, which means the same on every thread and device. */
cudaError_t fake_stream_handle(cudaStream_t stream, cudaStream_t *stream_out);
/* Also refuses a stream of another device than the current one. */
cudaError_t fake_stream_check_device(cudaStream_t stream);

/* Events (engine_event.c) ------------------------------------------------------------------------------------------ */

cudaError_t fake_event_create(cudaEvent_t *event_out, unsigned flags);
cudaError_t fake_event_destroy(cudaEvent_t event);
cudaError_t fake_event_record(cudaEvent_t event, cudaStream_t stream);
cudaError_t fake_event_query(cudaEvent_t event);
cudaError_t fake_event_synchronize(cudaEvent_t event);
cudaError_t fake_event_elapsed(float *ms_out, cudaEvent_t start, cudaEvent_t end);

/* Memory (engine_memory.c, engine_virtual.c, engine_copy.c) -------------------------------------------------------- */

enum fake_memory_kind {
    FAKE_MEMORY_DEVICE,
    FAKE_MEMORY_MANAGED,
    FAKE_MEMORY_HOST,
    FAKE_MEMORY_REGISTERED,
    FAKE_MEMORY_VIRTUAL /* a reserved range; fake_memory_find() never says it */
};
struct fake_memory {
    char *base;
    size_t bytes;
    enum fake_memory_kind kind;
    int device;
};
cudaError_t fake_memory_allocate(void **pointer_out, size_t bytes, enum fake_memory_kind kind);
/* NULL is no error. Waits for the device, as the real ones do. */
cudaError_t fake_memory_free(void *pointer, enum fake_memory_kind kind);
cudaError_t fake_memory_free_async(void *pointer, cudaStream_t stream);
cudaError_t fake_memory_register(void *pointer, size_t bytes);
cudaError_t fake_memory_unregister(void *pointer);
/* What contains the address; false if it is ordinary host memory, or reserved and not mapped. Of mapped memory all
 * that may be touched in one piece. */
bool fake_memory_find(const void *address, struct fake_memory *memory_out);
void fake_memory_info(size_t *free_out, size_t *total_out);

/* Ranges of addresses, and physical memory to be mapped there whole; sizes and places in whole granules. A mapped piece
 * may be touched once access is given. */
#define FAKE_GRANULARITY (fake_config()->granule)
struct fake_physical;
cudaError_t fake_virtual_reserve(void **base_out, size_t bytes);
cudaError_t fake_virtual_free(void *base, size_t bytes);
cudaError_t fake_physical_create(struct fake_physical **physical_out, size_t bytes, int device);
/* The memory goes back when no mapping holds it either. */
cudaError_t fake_physical_release(struct fake_physical *physical);
cudaError_t fake_virtual_map(void *base, size_t bytes, struct fake_physical *physical);
cudaError_t fake_virtual_unmap(void *base, size_t bytes);
cudaError_t fake_virtual_access(void *base, size_t bytes, bool access);
/* What the address is, if it lies in a reserved range. */
enum fake_virtual_state { FAKE_VIRTUAL_NONE, FAKE_VIRTUAL_UNMAPPED, FAKE_VIRTUAL_MAPPED };
enum fake_virtual_state fake_virtual_find(const void *address, struct fake_memory *memory_out);

/* Rows of `width` bytes; a plain copy has one row. `blocking`: returns when the real call may return. */
struct fake_copy {
    void *to;
    const void *from;
    size_t width;
    size_t rows;
    size_t to_pitch;
    size_t from_pitch;
};
cudaError_t fake_copy(const struct fake_copy *copy, enum cudaMemcpyKind kind, cudaStream_t stream, bool blocking);
cudaError_t fake_fill(void *to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream);
cudaError_t fake_host_function(void (*function)(void *), void *data, cudaStream_t stream);

/* Kernels (engine_kernel.c) ---------------------------------------------------------------------------------------- */

/* How a kernel runs on the host; see README.md. */
struct fake_twin {
    void (*run)(dim3 grid, dim3 block, void **args);
    double (*cost_us)(dim3 grid, dim3 block, void **args); /* or NULL: FAKE_KERNEL_US */
    const size_t *arg_sizes;                               /* ends with 0 */
};
cudaError_t fake_kernel_launch(const struct fake_twin *twin, dim3 grid, dim3 block, void **args, cudaStream_t stream);

/* Capture and graphs (engine_capture.c, engine_graph.c) ------------------------------------------------------------ */

cudaError_t fake_capture_begin(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t fake_capture_end(cudaStream_t stream, cudaGraph_t *graph_out);
cudaError_t fake_capture_status(cudaStream_t stream, enum cudaStreamCaptureStatus *status_out,
                                unsigned long long *id_out, cudaGraph_t *graph_out);
cudaError_t fake_capture_exchange_mode(enum cudaStreamCaptureMode *mode);
/* For calls that must not happen during a capture. */
cudaError_t fake_capture_unsafe(void);
cudaError_t fake_graph_destroy(cudaGraph_t graph);
cudaError_t fake_graph_nodes(cudaGraph_t graph, size_t *count_out);
cudaError_t fake_graph_instantiate(cudaGraphExec_t *exec_out, cudaGraph_t graph);
cudaError_t fake_graph_exec_destroy(cudaGraphExec_t exec);
cudaError_t fake_graph_launch(cudaGraphExec_t exec, cudaStream_t stream);

#endif
