/*
 * The REPRISE_* variables, read once. options.def is the one list: the fields below, reading, help, README's table
 * and the spelling advice are made from it. A new option is a row there and, if none fits, a type here.
 */
#ifndef RP_OPTIONS_H
#define RP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/log.h"

/* X(enumerator, name) */
#define RP_MODES(X)     \
    X(OFF, "off")       \
    X(RECORD, "record") \
    X(REPLAY, "replay") /* records too */

enum rp_mode {
#define X(name, text) RP_MODE_##name,
    RP_MODES(X)
#undef X
};

/* X(enumerator, name): how much recording hashes of what a gather sends or a reduction delivers */
#define RP_FINGERPRINTINGS(X) \
    X(SAMPLE, "sample")       \
    X(FULL, "full")           \
    X(OFF, "off")

enum rp_fingerprinting {
#define X(name, text) RP_FINGERPRINTING_##name,
    RP_FINGERPRINTINGS(X)
#undef X
};

/* X(enumerator, name): what recording keeps of kernel launches */
#define RP_DETAILS(X)         \
    X(STRETCHES, "stretches") \
    X(LAUNCHES, "launches") /* beside the stretches */

enum rp_detail {
#define X(name, text) RP_DETAIL_##name,
    RP_DETAILS(X)
#undef X
};

/* X(enumerator, name): how replay checks that a shard still equals what was kept of it */
#define RP_VERIFIES(X) \
    X(AUTO, "auto")    \
    X(INLINE, "inline")

enum rp_verify {
#define X(name, text) RP_VERIFY_##name,
    RP_VERIFIES(X)
#undef X
};

/* What an option of each type keeps. Strings are NULL when the variable is unset. */
#define RP_FIELD_MODE(field) enum rp_mode field;
#define RP_FIELD_FINGERPRINT(field) enum rp_fingerprinting field;
#define RP_FIELD_DETAIL(field) enum rp_detail field;
#define RP_FIELD_VERIFY(field) enum rp_verify field;
#define RP_FIELD_SIZE(field) uint64_t field;          /* bytes; 0: auto */
#define RP_FIELD_DURATION(field) uint64_t field##_ns; /* RP_DURATION_LEAST_NS to RP_DURATION_MOST_NS */
#define RP_FIELD_SWITCH(field) bool field;
#define RP_FIELD_PATH(field) const char *field;
#define RP_FIELD_FILES(field) const char *field; /* paths with commas between, none of them empty */
#define RP_FIELD_LOG(field)          \
    enum rp_log_level field##_level; \
    const char *field##_pattern; /* file pattern as in rp_log_setup(); NULL: standard error */

#define RP_DURATION_LEAST_NS 1000000u
#define RP_DURATION_MOST_NS 60000000000u

struct rp_options {
#define OPTION(name, field, type, default_value, values, help) RP_FIELD_##type(field)
#include "config/options.def"
#undef OPTION
};

/*
 * Reads `environment` ("NAME=value" strings, NULL-terminated, normally environ) into `options`; strings are copied
 * and live for the process. A malformed value keeps the default; it and every unknown REPRISE_* name are reported
 * through rp_log_job() with what is expected or the nearest valid name. Never fails.
 */
void rp_options_read(char *const *environment, struct rp_options *options);

/* What a value of REPRISE_MODE means, NULL for unset: off if it is none. For those who come before the options are
 * read. */
enum rp_mode rp_options_mode(const char *value);

/* False if a value of REPRISE_MODE is malformed: neither unset nor empty nor a mode. */
bool rp_options_is_mode(const char *value);

/* The value of REPRISE_MODE that means `mode`. */
const char *rp_options_mode_name(enum rp_mode mode);

/* The table of options, for `reprise help` (text) and README (markdown). */
void rp_options_print(FILE *out, bool markdown);

#endif
