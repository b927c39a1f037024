/*
 * The inside of the engine. One lock guards streams, queues, events, captures and graphs; it is never held while
 * work runs or while anything waits for work. What a worker alone uses says so.
 */
#ifndef FAKE_ENGINE_INTERNAL_H
#define FAKE_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine.h"

#define FAKE_STREAM_MAGIC 0x73747265u
#define FAKE_EVENT_MAGIC 0x6576656eu

/* A growing list of counted references to unfinished work, and the latest end of what had finished already. */
struct fake_waits {
    struct fake_mark **marks;
    int count;
    int room;
    uint64_t ready;
};

/* One piece of work in the queue of a stream. */
struct fake_op {
    struct fake_op *next;
    struct fake_work work;
    struct fake_mark *mark;
    struct fake_waits waits;
};

/* Node numbers of a graph. */
struct fake_frontier {
    int *nodes;
    int count;
};

enum fake_stream_kind { FAKE_STREAM_LEGACY, FAKE_STREAM_PER_THREAD, FAKE_STREAM_USER };

/* Entries of a stream's queue. Who issues more waits: a device's queue of launches holds about as many. */
#define FAKE_QUEUE 1000u

struct CUstream_st {
    unsigned magic;
    enum fake_stream_kind kind;
    int device;
    unsigned flags;
    int priority;
    unsigned long long id;
    bool started; /* its worker */
    bool closing; /* destroyed; the worker frees it when the queue is empty */
    pthread_cond_t work;
    struct fake_op *head;
    struct fake_op *tail;
    unsigned queued;        /* between head and tail */
    struct fake_mark *last; /* of the newest op, or NULL */
    uint64_t end;           /* worker only: modelled end of the newest op that ran */
    struct fake_capture *capture;
    struct fake_frontier frontier; /* while capturing: what the next node follows */
    struct CUstream_st *next;
};

struct CUevent_st {
    unsigned magic;
    int device;
    unsigned flags;
    struct fake_mark *mark; /* of the newest record, or NULL */
    struct fake_capture *capture;
    struct fake_frontier frontier; /* recorded in a capture */
};

struct fake_node {
    struct fake_work work;
    struct fake_frontier after;
};

struct CUgraph_st {
    atomic_int references;
    struct fake_node *nodes;
    int count;
    int room;
};

struct CUgraphExec_st {
    struct CUgraph_st *graph;
};

struct fake_capture {
    int references; /* guarded by the lock */
    unsigned long long id;
    enum cudaStreamCaptureMode mode;
    cudaStream_t origin;
    pthread_t thread;
    bool active;
    bool broken; /* a call that a capture does not allow */
    struct CUgraph_st *graph;
    struct fake_capture *next; /* in the list of active ones */
};

struct fake_chain {
    atomic_int references;
    struct fake_mark *last; /* guarded by the lock */
};

extern pthread_mutex_t fake_lock;
/* All streams. Guarded by the lock. */
extern struct CUstream_st *fake_streams;
extern struct fake_capture *fake_captures;

void *fake_need(void *memory);

/* All of these with the lock held. */
void fake_waits_add(struct fake_waits *waits, struct fake_mark *mark);
void fake_waits_clear(struct fake_waits *waits);
cudaError_t fake_stream_resolve(cudaStream_t handle, struct CUstream_st **stream_out);
void fake_stream_push(struct CUstream_st *stream, struct fake_op *op);
/* Whether one more piece of work fits; a capture queues nothing. Else waits until some stream has room: the lock was
 * let go, and this one may be gone. */
bool fake_stream_room(struct CUstream_st *stream);
/* New work on the stream waits for `mark`. */
void fake_stream_follow(struct CUstream_st *stream, struct fake_mark *mark);
void fake_chain_join(struct fake_chain *chain, struct fake_waits *waits, struct fake_mark *mark);
void fake_frontier_add(struct fake_frontier *frontier, const struct fake_frontier *more);
void fake_frontier_clear(struct fake_frontier *frontier);
void fake_capture_drop(struct fake_capture *capture);
/* Adds work to the capture that all of `streams` are in. */
cudaError_t fake_capture_add(struct CUstream_st **streams, int count, const struct fake_work *work);
/* Whether work on the legacy stream would have to wait for captured work; that capture is then broken. */
bool fake_capture_blocks_legacy(int device);
cudaError_t fake_capture_wait(struct CUstream_st *stream, struct CUevent_st *event);
void fake_capture_record(struct CUevent_st *event, struct CUstream_st *stream);

cudaError_t fake_submit_graph(cudaStream_t stream, const struct CUgraph_st *graph, const struct fake_work *work);
void fake_work_release(const struct fake_work *work);
void fake_graph_drop(struct CUgraph_st *graph);

/* Into the books; memory of a device counts as taken. */
cudaError_t fake_memory_enter(const struct fake_memory *memory);
/* Memory of a device taken and given back; false if there is not that much. */
bool fake_memory_charge(int device, uint64_t bytes);
void fake_memory_discharge(int device, uint64_t bytes);

/* Takes a free device pointer out of the books without waiting. */
cudaError_t fake_memory_take(void *pointer, enum fake_memory_kind kind, struct fake_memory *memory_out);
void fake_memory_release(const struct fake_memory *memory);

#endif
