/*
 * The reader of the REPRISE_* variables.
 *
 * An input is an environment: strings with zero bytes between.
 *
 * Threads: one.
 */
#include <stdlib.h>
#include <string.h>

#include "config/options.h"
#include "core/log.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "options";

#define STRINGS 64

/* A value that was read lies in its range, and so does a default. */
static void check(const struct rp_options *options)
{
    must(options->timeout_ns >= RP_DURATION_LEAST_NS && options->timeout_ns <= RP_DURATION_MOST_NS);
    must(options->mode <= RP_MODE_REPLAY && options->detail <= RP_DETAIL_LAUNCHES);
    must(options->fingerprint <= RP_FINGERPRINTING_OFF && options->verify <= RP_VERIFY_INLINE);
    must(options->log_level < RP_LOG_LEVEL_COUNT);
    must(options->trace == NULL || options->trace[0] != '\0');
}

/* Strings live for the process, in which there is one environment. */
static void free_strings(const struct rp_options *options)
{
    free((char *)options->trace);
    free((char *)options->order);
    free((char *)options->annotations);
    free((char *)options->log_pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *environment[STRINGS + 1];
    struct rp_options options;
    size_t count = 0;
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    rp_log_setup(RP_LOG_NONE, NULL);
    for (char *at = text; at < text + size && count < STRINGS; at += strlen(at) + 1)
        environment[count++] = at;
    environment[count] = NULL;
    rp_options_read(environment, &options);
    check(&options);
    for (size_t i = 0; i < count; i++)
        rp_options_mode(environment[i]);
    free_strings(&options);
    free(text);
    return 0;
}
