/*
 * Which rank of which job this process is, from what launchers leave in the environment: torchrun (RANK, WORLD_SIZE),
 * Slurm, Open MPI, PMI.
 */
#ifndef RP_JOB_H
#define RP_JOB_H

#include <stddef.h>
#include <stdint.h>

struct rp_job {
    int rank;   /* -1: no launcher says */
    int nranks; /* 0: no launcher says */
};

struct rp_job rp_job_read(void);

/*
 * A text that is the same on all ranks of this job and differs from job to job. `comm_key`: the key of the largest
 * communicator, of `comm_nranks` ranks: fresh in each run, and shared by all if it holds the whole job. If it does
 * not, the launcher's own id is taken (with the restart count), if there is one.
 */
void rp_job_key(uint64_t comm_key, int comm_nranks, char *text, size_t size);

#endif
