/*
 * What the environment asks of the stand-in: the cost model and the faults. Read once, by the first caller, on any
 * thread. A value that cannot be read ends the program: a test that believes in a fault it never got is worse.
 */
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_FAULTS_MAX 32

struct fault {
    enum fake_fault_kind kind;
    uint64_t number;
    uint64_t us;
};

static struct fake_config config;
static struct fault faults[FAKE_FAULTS_MAX];
static int fault_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void fake_say(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const char *rank = getenv("RANK");
    fprintf(stderr, "fake: [rank %s] %s\n", rank ? rank : "-", line);
}

static double number_of(const char *name, const char *text, double least)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= least)) {
        fake_say("%s: not a number of at least %g: %s", name, least, text);
        abort();
    }
    return value;
}

static double variable(const char *name, double least, double fallback)
{
    const char *text = getenv(name);
    return text && *text ? number_of(name, text, least) : fallback;
}

/* Whole pages of the host. */
static size_t granule_bytes(double kib)
{
    size_t bytes = (size_t)kib << 10;
    if (bytes % 4096 != 0 || (double)(bytes >> 10) != kib) {
        fake_say("FAKE_GRANULE_KB: not a multiple of 4: %g", kib);
        abort();
    }
    return bytes;
}

static bool fault_kind(const char *name, enum fake_fault_kind *kind_out)
{
    static const char *const names[] = {
#define X(name, text) text,
        FAKE_FAULTS(X)
#undef X
    };
    for (int i = 0; i < FAKE_FAULT_KINDS; i++)
        if (strcmp(names[i], name) == 0) {
            *kind_out = (enum fake_fault_kind)i;
            return true;
        }
    return false;
}

static _Noreturn void fault_refuse(const char *token)
{
    fake_say("FAKE_FAULT: cannot read '%s'", token);
    abort();
}

/* One key=value of a fault. */
static void fault_field(struct fault *fault, char *token, long *rank)
{
    char *value = strchr(token, '=');
    *value++ = '\0';
    uint64_t number = (uint64_t)number_of("FAKE_FAULT", value, 0);
    if (strcmp(token, "rank") == 0)
        *rank = (long)number;
    else if (strcmp(token, "op") == 0 || strcmp(token, "n") == 0)
        fault->number = number;
    else if (strcmp(token, "us") == 0)
        fault->us = number;
    else
        fault_refuse(token);
}

static void fault_keep(const struct fault *fault, long rank)
{
    const char *mine = getenv("RANK");
    if (rank < 0 || fault->number == 0 || fault_count == FAKE_FAULTS_MAX)
        fault_refuse("a fault without rank or number");
    if (rank == (mine ? strtol(mine, NULL, 10) : 0))
        faults[fault_count++] = *fault;
}

/* A word without '=' begins the next fault; colons and commas separate alike. */
static void faults_read(void)
{
    const char *text = getenv("FAKE_FAULT");
    if (!text || !*text)
        return;
    char *copy = strdup(text), *save;
    struct fault fault = {0};
    long rank = -1;
    bool begun = false;
    for (char *token = strtok_r(copy, ",:", &save); token; token = strtok_r(NULL, ",:", &save)) {
        if (strchr(token, '=')) {
            fault_field(&fault, token, &rank);
            continue;
        }
        if (begun)
            fault_keep(&fault, rank);
        begun = true;
        rank = -1;
        fault = (struct fault){0};
        if (!fault_kind(token, &fault.kind))
            fault_refuse(token);
    }
    if (!begun)
        fault_refuse(text);
    fault_keep(&fault, rank);
    free(copy);
}

static void config_read(void)
{
    config.devices = (int)variable("FAKE_DEVICES", 0, 8);
    config.memory_bytes = (uint64_t)(variable("FAKE_MEMORY_MB", 1, 81920) * (1 << 20));
    config.kernel_ns = (uint64_t)(variable("FAKE_KERNEL_US", 0, 10) * 1e3);
    config.latency_ns = (uint64_t)(variable("FAKE_LINK_LATENCY_US", 0, 10) * 1e3);
    config.link_gbps = variable("FAKE_LINK_GBPS", 1e-6, 400);
    config.granule = granule_bytes(variable("FAKE_GRANULE_KB", 4, 2048));
    config.hbm_gbps = variable("FAKE_HBM_GBPS", 1e-6, 4800);
    config.host_gbps = variable("FAKE_HOST_GBPS", 1e-6, 50);
    config.realtime = variable("FAKE_REALTIME", 0, 0) > 0;
    config.jitter_us = (unsigned)variable("FAKE_JITTER_US", 0, 0);
    config.preconnect = variable("FAKE_PRECONNECT", 0, 0) > 0;
    faults_read();
}

const struct fake_config *fake_config(void)
{
    pthread_once(&once, config_read);
    return &config;
}

uint64_t fake_transfer_ns(uint64_t bytes, double gbps)
{
    return (uint64_t)((double)bytes / gbps + 0.5);
}

bool fake_fault(enum fake_fault_kind kind, uint64_t number, uint64_t *value_out)
{
    fake_config();
    for (int i = 0; i < fault_count; i++)
        if (faults[i].kind == kind && faults[i].number == number) {
            if (value_out)
                *value_out = faults[i].us;
            return true;
        }
    return false;
}

bool fake_fault_next(enum fake_fault_kind kind)
{
    static _Atomic uint64_t numbers[FAKE_FAULT_KINDS];
    return fake_fault(kind, atomic_fetch_add(&numbers[kind], 1) + 1, NULL);
}
