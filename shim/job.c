#include "shim/job.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of preference: torchrun knows best, since it may run inside a Slurm or MPI job step. */
static const struct {
    const char *rank, *nranks;
} launchers[] = {
    {"RANK", "WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
};

/* A whole number of at least 0, or -1. */
static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return -1;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    return errno == 0 && *end == '\0' && value <= INT_MAX ? (int)value : -1;
}

struct rp_job rp_job_read(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        int rank = number_of(launchers[i].rank);
        int nranks = number_of(launchers[i].nranks);
        if (rank >= 0)
            return (struct rp_job){rank, nranks > rank ? nranks : 0};
    }
    return (struct rp_job){-1, 0};
}

/* Ids that a launcher makes anew for each job. torchrun's default id is the word "none". */
static const char *const job_ids[] = {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "OMPI_MCA_ess_base_jobid",
                                      "PMIX_NAMESPACE", "FLUX_JOB_ID"};

/* The first job id that is set, or NULL. */
static const char *job_id(const char **variable_out)
{
    for (size_t i = 0; i < sizeof job_ids / sizeof job_ids[0]; i++) {
        const char *id = getenv(job_ids[i]);
        if (id == NULL || id[0] == '\0' || strcmp(id, "none") == 0)
            continue;
        *variable_out = job_ids[i];
        return id;
    }
    return NULL;
}

void rp_job_key(uint64_t comm_key, int comm_nranks, char *text, size_t size)
{
    const char *variable = "";
    const char *id = comm_nranks < rp_job_read().nranks ? job_id(&variable) : NULL;
    if (id == NULL) {
        snprintf(text, size, "comm=%016" PRIx64, comm_key);
        return;
    }
    const char *step = getenv("SLURM_STEP_ID"), *restart = getenv("TORCHELASTIC_RESTART_COUNT");
    snprintf(text, size, "%s=%s step=%s restart=%s", variable, id, step != NULL ? step : "",
             restart != NULL ? restart : "");
}
