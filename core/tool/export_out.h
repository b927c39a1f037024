/*
 * A file that is written in many small pieces: numbers and texts go to a buffer without printf(), which would take most
 * of an export's time. A failed write is kept, and what comes after it dropped.
 *
 * Threads: one at a time.
 */
#ifndef RP_TOOL_EXPORT_OUT_H
#define RP_TOOL_EXPORT_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

#define RP_EXPORT_OUT_BYTES ((size_t)1 << 18)

struct rp_export_out {
    FILE *file;
    size_t used;
    int error; /* errno of the first write that failed, or 0 */
    unsigned char buffer[RP_EXPORT_OUT_BYTES];
};

void rp_export_out_begin(struct rp_export_out *out, FILE *file);

/* Writes what is left. RP_IO: this or a write before it failed; `error` says why. */
enum rp_status rp_export_out_end(struct rp_export_out *out);

void rp_export_bytes(struct rp_export_out *out, const void *bytes, size_t count);
void rp_export_text(struct rp_export_out *out, const char *text);
void rp_export_u64(struct rp_export_out *out, uint64_t number);
void rp_export_i64(struct rp_export_out *out, int64_t number);

/* Lower-case hexadecimal, filled up with zeros to `digits`. */
void rp_export_hex(struct rp_export_out *out, uint64_t number, int digits);

/* A string of JSON (RFC 8259) with its quotes. The text must be rp_tool_safe(). */
void rp_export_json_text(struct rp_export_out *out, const char *text);

#endif
