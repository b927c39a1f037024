/*
 * From the rings into the trace: launches are folded into a count and a digest for the stretch between two ops of
 * their thread, cut where the event that they belong to changes; names go before their first use, losses, fingerprints
 * and what was seen go in as they become known.
 *
 * Threads: the background thread.
 */
#ifndef RP_RECORDER_FOLD_H
#define RP_RECORDER_FOLD_H

#include "core/record/kernel_names.h"
#include "core/record/producer.h"
#include "core/record/recorder.h"
#include "core/record/recorder_mail.h"
#include "core/record/recorder_sites.h"

#define RP_FINGERPRINTS_UNDER_WAY 16384u /* more are counted as lost */

struct rp_fingerprint_wanted {
    uint64_t position;
    uint32_t comm;
};

struct rp_fold {
    const struct rp_recorder_options *options;
    struct rp_mail *mail;
    struct rp_trace_writer *writer;
    struct rp_kernel_names kernels;
    struct rp_sites sites;
    uint32_t modules_written; /* numbers up to and with it are in the trace */
    bool broken;              /* the writer is: nothing more can be recorded */
    uint64_t fingerprints_lost_unsaid;
    uint32_t wanted_count;
    struct rp_fingerprint_wanted wanted[RP_FINGERPRINTS_UNDER_WAY]; /* in order of their ops */
};

/*
 * Reads what the producer's ring holds now; frees the producer if its thread has ended. Returns how many records
 * there were. Notes are written before the ops that came after them.
 */
uint64_t rp_fold_producer(struct rp_fold *fold, struct rp_producer *producer);

/* Writes the stretch as far as it is known, if the trace does not have that yet. */
void rp_fold_stretch(struct rp_fold *fold, struct rp_producer *producer);

/* Writes the communicators and states that were announced. */
void rp_fold_notes(struct rp_fold *fold);

/* Writes what is new of what was seen, and if `counts` how often. */
void rp_fold_sites(struct rp_fold *fold, bool counts);

/* Asks for the fingerprints under way, without waiting. */
void rp_fold_fingerprints(struct rp_fold *fold);

/* Those still under way are lost. */
void rp_fold_fingerprints_give_up(struct rp_fold *fold);

#endif
