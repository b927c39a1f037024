/*
 * Names of slices, each made once and numbered from 1: of a million calls most are called alike. Texts are safe for a
 * terminal (rp_tool_safe()).
 *
 * Threads: one at a time.
 */
#ifndef RP_TOOL_EXPORT_NAMES_H
#define RP_TOOL_EXPORT_NAMES_H

#include <stdint.h>

#include "core/status.h"
#include "core/trace/trace.h"

struct rp_export_names;

/* RP_NO_MEMORY. */
enum rp_status rp_export_names_create(struct rp_export_names **names_out);
void rp_export_names_destroy(struct rp_export_names *names);

/* From here on names are of this trace: numbers of modules and hashes of kernels are its own. Numbers go on. */
void rp_export_names_of(struct rp_export_names *names, const struct rp_trace *trace);

/* The number of a name, 0 when memory is out. A call's, an event's ("layers.0 forward"), a kernel's, or any text. */
uint32_t rp_export_name_op(struct rp_export_names *names, const struct rp_op *op);
uint32_t rp_export_name_event(struct rp_export_names *names, struct rp_event event);
uint32_t rp_export_name_kernel(struct rp_export_names *names, uint64_t kernel);
uint32_t rp_export_name_text(struct rp_export_names *names, const char *text);

/* The text of a number; "?" for 0. Owned by the table. */
const char *rp_export_name(const struct rp_export_names *names, uint32_t number);

#endif
