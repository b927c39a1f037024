/*
 * The REPRISE_* variables, read once. options.def is the one list: reading, help, README's table and the spelling
 * advice are made from it.
 */
#ifndef RP_OPTIONS_H
#define RP_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "core/log.h"

enum rp_mode { RP_MODE_OFF, RP_MODE_RECORD };

struct rp_options {
    enum rp_mode mode;
    const char *trace; /* REPRISE_TRACE; NULL: unset */
    enum rp_log_level log_level;
    const char *log_pattern; /* file pattern of REPRISE_LOG; NULL: standard error */
};

/*
 * Reads `environment` ("NAME=value" strings, NULL-terminated, normally environ) into `options`; strings are copied
 * and live for the process. A malformed value keeps the default; it and every unknown REPRISE_* name are reported
 * through rp_log_job() with what is expected or the nearest valid name. Never fails.
 */
void rp_options_read(char *const *environment, struct rp_options *options);

/* The table of options, for `reprise help` (text) and README (markdown). */
void rp_options_print(FILE *out, bool markdown);

#endif
