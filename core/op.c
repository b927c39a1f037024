/*
 * Names, sizes and the signature of ops. Pure functions, called from any thread and, for the signature, inside
 * hooks: no allocation, no lock, no I/O.
 */
#include "core/op.h"

#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

const char *rp_op_kind_name(enum rp_op_kind kind)
{
    switch (kind) {
#define X(name, text, on_lane) \
    case RP_OP_##name:         \
        return text;
        RP_OP_KINDS(X)
#undef X
    case RP_OP_KIND_COUNT:
        break;
    }
    return "?";
}

const char *rp_dtype_name(enum rp_dtype dtype)
{
    switch (dtype) {
#define X(name, text, bytes) \
    case RP_DTYPE_##name:    \
        return text;
        RP_DTYPES(X)
#undef X
    case RP_DTYPE_COUNT:
        break;
    }
    return "?";
}

const char *rp_redop_name(enum rp_redop redop)
{
    switch (redop) {
#define X(name, text)     \
    case RP_REDOP_##name: \
        return text;
        RP_REDOPS(X)
#undef X
    case RP_REDOP_COUNT:
        break;
    }
    return "?";
}

size_t rp_dtype_size(enum rp_dtype dtype)
{
    static const unsigned char sizes[] = {
#define X(name, text, bytes) bytes,
        RP_DTYPES(X)
#undef X
    };
    return (unsigned)dtype < RP_DTYPE_COUNT ? sizes[dtype] : 1;
}

bool rp_op_kind_is_allocation(enum rp_op_kind kind)
{
    return kind == RP_OP_MALLOC || kind == RP_OP_FREE;
}

bool rp_op_kind_on_lane(enum rp_op_kind kind)
{
    static const bool on_lanes[] = {
#define X(name, text, on_lane) on_lane,
        RP_OP_KINDS(X)
#undef X
    };
    return (unsigned)kind < RP_OP_KIND_COUNT && on_lanes[kind];
}

uint64_t rp_op_bytes(const struct rp_op *op)
{
    return op->count * rp_dtype_size((enum rp_dtype)op->dtype);
}

static bool is_point_to_point(const struct rp_op *op)
{
    return op->kind == RP_OP_SEND || op->kind == RP_OP_RECV;
}

uint64_t rp_op_signature(const struct rp_op *op)
{
    uint64_t root = is_point_to_point(op) ? 0 : (uint64_t)(uint32_t)op->root;
    uint64_t words[3] = {
        rp_op_bytes(op),
        root,
        (uint64_t)op->kind | (uint64_t)op->dtype << 8 | (uint64_t)op->redop << 16,
    };
    return XXH3_64bits(words, sizeof(words));
}

/* A value that would round up to 1024.0 takes the next unit. */
char *rp_bytes_print(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(text, size, "%llu B", (unsigned long long)bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, "%.1f %s", value, units[unit]);
    return text;
}

static void print_root(const struct rp_op *op, char *text, size_t size)
{
    const char *word = op->kind == RP_OP_SEND ? "to" : op->kind == RP_OP_RECV ? "from" : "root";
    if (op->root >= 0)
        snprintf(text, size, " %s %d", word, (int)op->root);
}

char *rp_op_print(const struct rp_op *op, char *text, size_t size)
{
    const char *kind = rp_op_kind_name((enum rp_op_kind)op->kind);
    bool on_comm = rp_op_kind_on_lane((enum rp_op_kind)op->kind) || is_point_to_point(op);
    char bytes[32], root[32] = "";

    rp_bytes_print(rp_op_bytes(op), bytes, sizeof(bytes));
    if (on_comm) {
        bool reduces = op->redop != RP_REDOP_NONE;
        print_root(op, root, sizeof(root));
        snprintf(text, size, "%s %s %s%s%s%s", kind, bytes, rp_dtype_name((enum rp_dtype)op->dtype), reduces ? " " : "",
                 reduces ? rp_redop_name((enum rp_redop)op->redop) : "", root);
    } else if (op->kind == RP_OP_MALLOC) {
        snprintf(text, size, "%s %s", kind, bytes);
    } else {
        snprintf(text, size, "%s", kind);
    }
    return text;
}
