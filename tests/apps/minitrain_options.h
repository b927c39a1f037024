/* What a run of minitrain is to do, read from its command line. */
#ifndef MINITRAIN_OPTIONS_H
#define MINITRAIN_OPTIONS_H

#include "minitrain_schedule.h"

#include <stdbool.h>

enum mt_gather { MT_GATHER_IN_PLACE, MT_GATHER_PERSISTENT };
enum mt_sites { MT_SITES_OFF, MT_SITES_NVTX, MT_SITES_NATIVE, MT_SITES_PYTHON };
enum mt_recompute { MT_RECOMPUTE_NONE, MT_RECOMPUTE_FSDP2, MT_RECOMPUTE_FSDP1 };

/* "RANK:VALUE" of the command line; rank -1: nobody. */
struct mt_at_rank {
    int rank, value;
};

/* Steps count from 1; 0 means never. */
struct mt_options {
    int ranks, stages, copies, chunks, layers, dim, tokens, microbatches, steps, seed, timeout;
    int zero_lr_steps, eval_every, edit_weights, edit_rank, skip_layer, log_every, fork_every, compute_us;
    double lr;
    int gather;    /* enum mt_gather */
    int recompute; /* enum mt_recompute */
    int schedule;  /* enum mt_schedule_kind */
    int sites;     /* enum mt_sites */
    bool shared_block, sendrecv, collect, host_wait, recv_first, group, late_gathers, two_comms, nonblocking, threads,
        default_stream;
    bool realtime, checksums, times;
    struct mt_at_rank kill, lag, allocate;
    const char *python, *calls; /* or NULL */
};

/* A wrong command line is named in one line on standard error and ends the program with exit code 2; --help ends it
 * with 0. */
void mt_options_read(int argc, char **argv, struct mt_options *options_out);
/* The same for options that do not go together in a job of `ranks`. */
void mt_options_check(const struct mt_options *options, int ranks);

#endif
