/*
 * Fingerprints of one communicator, taken on the device: fingerprint.h says of what, kernels.cu how.
 *
 * Threads: any; a short lock inside acquire and release.
 */
#ifndef RP_FINGERPRINTS_H
#define RP_FINGERPRINTS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/options.h"
#include "core/record/recorder.h"
#include "core/status.h"

/*
 * Fingerprints of one communicator: a ring of entries in pinned host memory, indexed by serial, and as many sums in
 * device memory. RP_FINGERPRINTS entries: more than a step's collectives, since the host runs ahead of the device.
 * The memory outlives the communicator and serves a later one; serials go on and are never given twice.
 */
#define RP_FINGERPRINTS 4096u
struct rp_fingerprints;

/* Larger buffers are sampled where not all is asked for: at most so much is read of each, at least half of it. */
#define RP_FINGERPRINT_SAMPLE_BYTES (UINT64_C(64) << 20)

/* Of how many pages one is read of a buffer of `bytes` bytes, if it is to be sampled (fingerprint.h). */
static inline uint64_t rp_fingerprint_sample_every(uint64_t bytes)
{
    return bytes == 0 ? 1 : (bytes - 1) / RP_FINGERPRINT_SAMPLE_BYTES + 1;
}

/* How much is hashed, before the first communicator; without it, samples. */
void rp_fingerprints_configure(enum rp_fingerprinting how);

/* False: nothing is; no communicator has fingerprints. */
bool rp_fingerprints_configured(void);

/* Of how many pages one is to be read of a buffer of `bytes` bytes: 1 if all is hashed. */
uint64_t rp_fingerprints_every(uint64_t bytes);

/*
 * For a communicator on `device` (ordinal). Loads our kernels into the device's primary context at the first call and
 * starts one there. RP_UNSUPPORTED: no driver, or one that is too old for our code; RP_NO_MEMORY: the caller says so,
 * with rp_gpu_error() (gpu.h).
 */
enum rp_status rp_fingerprints_acquire(int device, struct rp_fingerprints **prints_out);

/* The communicator has ended. Reads of its serials stay allowed. */
void rp_fingerprints_release(struct rp_fingerprints *prints);

/*
 * Enqueues the fingerprint of `bytes` bytes at `data` (device memory), of which one page in `every` is read, on
 * `stream`; `*serial_out` names it. False: not enqueued (the driver said no); nothing else changes.
 */
bool rp_fingerprints_take(struct rp_fingerprints *prints, cudaStream_t stream, const void *data, uint64_t bytes,
                          uint64_t every, uint64_t *serial_out);

/* PENDING, READY with the value, or LOST: its entry belongs to a later serial by now. Never waits. */
enum rp_fingerprint_state rp_fingerprints_read(const struct rp_fingerprints *prints, uint64_t serial,
                                               uint64_t value_out[2]);

/* In the child of a fork: none is free. */
void rp_fingerprints_forked(void);

#endif
