/*
 * The trace on disk, as C: what trace_write.c writes and trace_read.c reads. core/trace/README.md draws it and states
 * the rules for changing it. Integers are in the writer's byte order, which the header shows.
 */
#ifndef RP_TRACE_FORMAT_H
#define RP_TRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "core/op.h"
#include "core/trace/trace.h"

#define RP_FILE_MAGIC "RPTRACE\n" /* 8 bytes, not terminated */
#define RP_FILE_MINOR 3u
#define RP_FILE_BYTE_ORDER 0x01020304u
#define RP_BLOCK_MAGIC 0x4b425052u      /* "RPBK" on a little-endian machine */
#define RP_BLOCK_PAYLOAD_MAX (1u << 20) /* a longer one is corrupt */
#define RP_KERNEL_NAME_MAX 4000u        /* bytes of a kernel name that are kept */
#define RP_STATE_TEXT_MAX 200u          /* bytes of a state's text that are kept */
#define RP_SITE_TEXT_MAX 2000u          /* bytes of each text of a site that are kept */
#define RP_SITE_TEXTS 5                 /* of a site */
#define RP_SITE_TEXTS_LEAST 4           /* of a site in a file of 3.1 or 3.2 */
#define RP_SITE_MAX 65535u              /* largest number of a site */
#define RP_THREAD_MAX 65535u            /* largest thread number */
#define RP_THREAD_NONE UINT32_MAX       /* a loss that belongs to no thread */

/* X(enumerator, value): records of a block */
#define RP_FILE_RECORDS(X) \
    X(PROCESS, 1)          \
    X(COMM, 2)             \
    X(MODULE, 3)           \
    X(OP, 4)               \
    X(LAUNCHES, 5)         \
    X(FINGERPRINT, 6)      \
    X(KERNEL, 7)           \
    X(STATE, 8)            \
    X(LOSS, 9)             \
    X(CLOCK, 10)           \
    X(END, 11)             \
    X(SITE, 12)            \
    X(SITE_COUNT, 13)      \
    X(LAUNCH, 14)          \
    X(ISSUE, 15)           \
    X(ISSUE_USE, 16)

enum rp_file_record_type {
#define X(name, value) RP_FILE_##name = (value),
    RP_FILE_RECORDS(X)
#undef X
};

struct rp_file_header {
    char magic[8];
    uint16_t major;
    uint16_t minor;
    uint32_t header_bytes; /* offset of the first block */
    uint32_t byte_order;
    int32_t rank;
    int32_t nranks;
    uint32_t unused;
    uint64_t pid;
    uint64_t start_wall_ns;
    uint64_t start_ticks;
    uint64_t hash; /* XXH64 of the 56 bytes before it */
};

struct rp_file_block {
    uint32_t magic;
    uint32_t bytes;  /* of the payload that follows */
    uint64_t hash;   /* XXH64 of the payload */
    uint32_t number; /* of the block in its file, counting from 0 */
    uint32_t check;  /* low half of the XXH64 of the 20 bytes before it */
};

struct rp_file_record {
    uint16_t type;
    uint16_t flags; /* 0 */
    uint32_t bytes; /* of the whole record, a multiple of 8 */
};

struct rp_file_process {
    struct rp_file_record record;
    uint64_t ticks_per_second;
    char host[64];
    char program[256];
};

struct rp_file_comm {
    struct rp_file_record record;
    uint32_t number;
    int32_t nranks;
    int32_t rank;
    uint32_t parent;
    uint64_t key;
    uint64_t made;
    uint32_t origin;
    uint32_t unused;
    char name[RP_COMM_NAME_MAX];
};

struct rp_file_module {
    struct rp_file_record record;
    uint32_t number;
    char name[]; /* terminated */
};

struct rp_file_op {
    struct rp_file_record record;
    uint32_t thread;
    uint32_t unused;
    struct rp_op op;
};

struct rp_file_launches {
    struct rp_file_record record;
    uint32_t thread;
    uint32_t unused;
    uint64_t after_begin;
    uint64_t count;
    uint64_t digest;
};

/* A LAUNCHES that says more. */
struct rp_file_part {
    struct rp_file_launches stretch;
    uint64_t before;
    uint64_t first;
    uint32_t module;
    uint32_t phase;
};

struct rp_file_fingerprint {
    struct rp_file_record record;
    uint32_t comm;
    uint32_t unused;
    uint64_t position;
    uint64_t value[2];
};

struct rp_file_kernel {
    struct rp_file_record record;
    uint64_t name_hash;
    char name[]; /* terminated */
};

struct rp_file_state {
    struct rp_file_record record;
    uint32_t state;
    uint32_t comm;
    uint64_t ticks;
    char text[]; /* terminated */
};

struct rp_file_loss {
    struct rp_file_record record;
    uint32_t thread;
    uint32_t unused;
    uint64_t launches;
    uint64_t ops;
    uint64_t fingerprints;
};

struct rp_file_clock {
    struct rp_file_record record;
    uint64_t ticks;
    uint64_t wall_ns;
};

struct rp_file_site {
    struct rp_file_record record;
    uint32_t number;
    uint32_t source;
    char texts[]; /* RP_SITE_TEXTS, each terminated: text, where, module rule, phase rule, step rule */
};

struct rp_file_site_count {
    struct rp_file_record record;
    uint32_t number;
    uint32_t unused;
    uint64_t count;
};

struct rp_file_launch {
    struct rp_file_record record;
    uint32_t thread;
    uint32_t module;
    uint64_t after_begin;
    uint64_t ticks;
    uint64_t name_hash;
    uint64_t stream;
    uint32_t grid[3];
    uint32_t shared_bytes;
    uint16_t block[3];
    uint16_t phase;
};

struct rp_file_issue {
    struct rp_file_record record;
    struct rp_issue issue;
};

struct rp_file_issue_use {
    struct rp_file_record record;
    struct rp_issue_use use;
};

_Static_assert(sizeof(struct rp_file_header) == 64, "as drawn");
_Static_assert(sizeof(struct rp_file_block) == 24, "as drawn");
_Static_assert(sizeof(struct rp_file_process) == 336, "as drawn");
_Static_assert(sizeof(struct rp_file_comm) == 112, "as drawn");
_Static_assert(sizeof(struct rp_file_op) == 80, "as drawn");
_Static_assert(sizeof(struct rp_file_launches) == 40, "as drawn");
_Static_assert(sizeof(struct rp_file_part) == 64, "as drawn");
_Static_assert(sizeof(struct rp_file_fingerprint) == 40, "as drawn");
_Static_assert(sizeof(struct rp_file_loss) == 40, "as drawn");
_Static_assert(offsetof(struct rp_file_site, texts) == 16, "as drawn");
_Static_assert(sizeof(struct rp_file_site_count) == 24, "as drawn");
_Static_assert(sizeof(struct rp_file_launch) == 72, "as drawn");
_Static_assert(sizeof(struct rp_file_issue) == 64, "as drawn");
_Static_assert(sizeof(struct rp_file_issue_use) == 32, "as drawn");

#endif
