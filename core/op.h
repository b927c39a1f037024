/*
 * An op is one intercepted call: a collective, a point-to-point call, a graph launch, an allocation. It is a
 * fixed-size record of 64 bytes, one cache line: what a hook fills, what a ring carries and what a trace stores.
 *
 * No pointer of the application is in it but the stream handle, which only tells streams of one process apart.
 */
#ifndef RP_OP_H
#define RP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/event.h"

/*
 * X(enumerator, name, on_lane). on_lane: NCCL requires the call of every rank of the communicator, so it may be
 * counted by a lane position (lane.h).
 */
#define RP_OP_KINDS(X)                     \
    X(NONE, "none", 0)                     \
    X(ALL_GATHER, "all-gather", 1)         \
    X(REDUCE_SCATTER, "reduce-scatter", 1) \
    X(ALL_REDUCE, "all-reduce", 1)         \
    X(BROADCAST, "broadcast", 1)           \
    X(REDUCE, "reduce", 1)                 \
    X(ALL_TO_ALL, "all-to-all", 1)         \
    X(GATHER, "gather", 1)                 \
    X(SCATTER, "scatter", 1)               \
    X(SEND, "send", 0)                     \
    X(RECV, "recv", 0)                     \
    X(GRAPH_LAUNCH, "graph-launch", 0)     \
    X(MALLOC, "malloc", 0)                 \
    X(FREE, "free", 0)

enum rp_op_kind {
#define X(name, text, on_lane) RP_OP_##name,
    RP_OP_KINDS(X)
#undef X
        RP_OP_KIND_COUNT
};

/* X(enumerator, name, bytes). In the order of ncclDataType_t; shim/ checks that the numbers agree. */
#define RP_DTYPES(X)               \
    X(INT8, "int8", 1)             \
    X(UINT8, "uint8", 1)           \
    X(INT32, "int32", 4)           \
    X(UINT32, "uint32", 4)         \
    X(INT64, "int64", 8)           \
    X(UINT64, "uint64", 8)         \
    X(FLOAT16, "float16", 2)       \
    X(FLOAT32, "float32", 4)       \
    X(FLOAT64, "float64", 8)       \
    X(BFLOAT16, "bfloat16", 2)     \
    X(FLOAT8E4M3, "float8e4m3", 1) \
    X(FLOAT8E5M2, "float8e5m2", 1) \
    X(UNKNOWN, "?", 1)

enum rp_dtype {
#define X(name, text, bytes) RP_DTYPE_##name,
    RP_DTYPES(X)
#undef X
        RP_DTYPE_COUNT
};

/* X(enumerator, name). In the order of ncclRedOp_t; every handle beyond it is USER (handles hold pointers). */
#define RP_REDOPS(X) \
    X(SUM, "sum")    \
    X(PROD, "prod")  \
    X(MAX, "max")    \
    X(MIN, "min")    \
    X(AVG, "avg")    \
    X(USER, "user")  \
    X(NONE, "-")

enum rp_redop {
#define X(name, text) RP_REDOP_##name,
    RP_REDOPS(X)
#undef X
        RP_REDOP_COUNT
};

/* Flags of an op. All are local: they differ between ranks and are no part of a signature. */
#define RP_OP_IN_PLACE 0x0001u      /* the call's own in-place rule holds (nccl.h) */
#define RP_OP_IN_GROUP 0x0002u      /* issued between ncclGroupStart and the outermost ncclGroupEnd */
#define RP_OP_CAPTURED 0x0004u      /* recorded into a CUDA graph, not run now */
#define RP_OP_FAILED 0x0008u        /* the call, or the end of its group, returned an error */
#define RP_OP_SIMULATED 0x0010u     /* its group ended by ncclGroupSimulateEnd */
#define RP_OP_FINGERPRINTED 0x0020u /* a fingerprint of its bytes was asked for and follows */
#define RP_OP_VOTED 0x0040u         /* replay: served early and voted on; without HIT the real call ran after all */
#define RP_OP_HIT 0x0080u           /* replay: the verdict was yes, its bytes came from memory */
#define RP_OP_STORED 0x0100u        /* replay: its bytes are kept from here on */
#define RP_OP_WITHDRAWN 0x0200u     /* replay: voted on, and a rank waited longer than the bound */
#define RP_OP_SAMPLED 0x0400u       /* its fingerprint covers a sample of its bytes, not all */
#define RP_OP_AHEAD 0x0800u /* replay, with HIT: a gather of ours, issued ahead of the call, had filled the slot */
#define RP_OP_STEP 0x1000u  /* the first of its lane behind the beginning of a step that an annotation rule tells */

#define RP_OP_BYTES_MOST (UINT64_C(1) << 48) /* memory has no more addresses: no call is as large */
#define RP_NO_POSITION UINT64_MAX            /* not counted by a lane */
#define RP_NO_COMM UINT32_MAX                /* no communicator: graph launch, malloc, free */

struct rp_op {
    uint16_t type;     /* enum rp_record_type (ring.h): tells an op from a launch in a ring */
    uint8_t kind;      /* enum rp_op_kind */
    uint8_t dtype;     /* enum rp_dtype */
    uint8_t redop;     /* enum rp_redop; NONE where the call has none */
    uint8_t phase;     /* enum rp_phase of its site */
    uint16_t flags;    /* RP_OP_* */
    int32_t root;      /* root or peer rank; -1 where the call has none */
    uint32_t comm;     /* number of the communicator in this process, or RP_NO_COMM */
    uint64_t position; /* position on its communicator's lane, or RP_NO_POSITION */
    uint64_t begin;    /* ticks when the application's call came in: unique within a thread, grows */
    uint64_t end;      /* ticks when it was handed back */
    uint64_t count;    /* elements, as the call counts them (nccl.h); bytes for malloc */
    uint64_t stream;   /* handle of the stream */
    uint32_t module;   /* interned module of its site (event.h) */
    uint32_t group;    /* number of its group in this thread, counting from 1; 0: not in a group */
};

_Static_assert(sizeof(struct rp_op) == 64, "an op is one cache line");

const char *rp_op_kind_name(enum rp_op_kind kind);
const char *rp_dtype_name(enum rp_dtype dtype);
const char *rp_redop_name(enum rp_redop redop);

/* Bytes of one element; 1 for an unknown type. */
size_t rp_dtype_size(enum rp_dtype dtype);

/* True if the kind is one that NCCL requires of every rank (the on_lane column). */
bool rp_op_kind_on_lane(enum rp_op_kind kind);

/* True for malloc and free: they pass between the ops of a step without being part of its order. */
bool rp_op_kind_is_allocation(enum rp_op_kind kind);

/* count times the element size: the bytes of one block of the call (what a gather sends, a reduce-scatter delivers). */
uint64_t rp_op_bytes(const struct rp_op *op);

/*
 * Signature: a 64-bit hash of what is the same on all ranks: kind, bytes, dtype, reduction, root. Never a pointer,
 * never a flag, a stream, a thread or a name. The root is left out for Send and Recv (a peer is local).
 */
uint64_t rp_op_signature(const struct rp_op *op);

/* "512 B", "24.0 MiB" into `text` (always terminated, cut at `size`). Returns `text`. */
char *rp_bytes_print(uint64_t bytes, char *text, size_t size);

/* "all-gather 24.0 MiB bfloat16" into `text` (always terminated, cut at `size`). Returns `text`. */
char *rp_op_print(const struct rp_op *op, char *text, size_t size);

#endif
