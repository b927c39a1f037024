/*
 * Writes one JSON value (RFC 8259), two spaces a level. Text of a trace is made safe (tool.h) before it is escaped.
 *
 * Threads: a writer belongs to one.
 */
#ifndef RP_TOOL_JSON_H
#define RP_TOOL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* One string, in quotes: for who lays out the rest by himself. */
void rp_json_string(FILE *out, const char *text);

/* Zero-initialised but for `out`. */
struct rp_json {
    FILE *out;
    int depth;
    bool filled; /* the innermost object or array has a member */
};

/* `key` is the member's name, or NULL in an array and for the outermost value. */
void rp_json_object(struct rp_json *json, const char *key);
void rp_json_array(struct rp_json *json, const char *key);
void rp_json_end_object(struct rp_json *json);
void rp_json_end_array(struct rp_json *json);
void rp_json_text(struct rp_json *json, const char *key, const char *text);
void rp_json_number(struct rp_json *json, const char *key, int64_t number);
void rp_json_real(struct rp_json *json, const char *key, double number); /* rounded to a whole one */
void rp_json_flag(struct rp_json *json, const char *key, bool flag);
void rp_json_null(struct rp_json *json, const char *key);

#endif
