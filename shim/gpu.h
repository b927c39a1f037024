/*
 * Our own work on the device, through the driver API only, found at run time (libcuda.so.1, already loaded by the
 * application): so that programs with a static CUDA runtime are served, and processes without CUDA stay free of it.
 *
 * Everything that may load code or map memory is done in the hook of communicator creation; nothing ever waits for
 * the device: lazy loading waits for an idle device, and a collective that waits for a peer then never ends.
 *
 * Threads: any; a short lock inside, under which neither the driver nor the loader is called.
 */
#ifndef RP_GPU_H
#define RP_GPU_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/recorder.h"
#include "core/status.h"

/*
 * Fingerprints of one communicator: a ring of entries in pinned host memory, indexed by serial, and as many sums in
 * device memory. RP_PRINTS entries: more than a step's collectives, since the host runs ahead of the device.
 * The memory outlives the communicator and serves a later one, whose serials go on from `first`.
 */
#define RP_PRINTS 4096u
struct rp_prints;

/*
 * For a communicator on `device` (ordinal); its ops take the serials `*first_out`, `*first_out` + 1, ... Loads our
 * kernels into the device's primary context at the first call and starts one there. RP_UNSUPPORTED: no driver, or one
 * that is too old for our code; RP_NO_MEMORY: the caller says so, with rp_gpu_error().
 */
enum rp_status rp_prints_acquire(int device, struct rp_prints **prints_out, uint64_t *first_out);

/* The communicator has ended; `next` is above all serials that it used. Reads of those stay allowed. */
void rp_prints_release(struct rp_prints *prints, uint64_t next);

/* Why the last call of this thread failed, as text: "cuModuleLoadData: no kernel image (209)". Static per thread. */
const char *rp_gpu_error(void);

/*
 * Enqueues the fingerprint of `bytes` bytes at `data` (device memory) on `stream`. False: not enqueued (the driver
 * said no); nothing else changes.
 */
bool rp_prints_take(struct rp_prints *prints, cudaStream_t stream, const void *data, uint64_t bytes, uint64_t serial);

/* PENDING, READY with the value, or LOST: its entry belongs to a later serial by now. Never waits. */
enum rp_fingerprint_state rp_prints_read(const struct rp_prints *prints, uint64_t serial, uint64_t value_out[2]);

/* True if the stream is being captured into a graph. False where there is no driver. */
bool rp_gpu_capturing(cudaStream_t stream);

/* In the child of a fork: the parent's contexts do not exist here. */
void rp_gpu_forked(void);

#endif
