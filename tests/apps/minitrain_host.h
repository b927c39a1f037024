/*
 * What a rank of minitrain needs on the host: errors that end it, messages between ranks through small files, and the
 * watchdog.
 */
#ifndef MINITRAIN_HOST_H
#define MINITRAIN_HOST_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum mt_exit { MT_EXIT_FAILED = 1, MT_EXIT_USAGE = 2, MT_EXIT_TIMEOUT = 3 };

/* Before anything else of this file. `folder_file` is the path that the messages' names start with. */
void mt_host_start(int rank, const char *folder_file);

/* One line on standard error, then the process ends with MT_EXIT_FAILED. */
void mt_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void mt_cuda_check(cudaError_t error, const char *call);
void mt_nccl_check(ncclResult_t result, const char *call);
#define MT_CUDA(call) mt_cuda_check((call), #call)
#define MT_NCCL(call) mt_nccl_check((call), #call)

/* A message has one reader, `name` tells it from all others of the job. Waiting longer than `seconds` ends the
 * process. */
void mt_post(const char *name, const void *data, size_t bytes);
void mt_wait(const char *name, void *data, size_t bytes, int seconds);
/* The same with many readers: the file stays. */
void mt_peek(const char *name, void *data, size_t bytes, int seconds);

/* From now on the process ends with MT_EXIT_TIMEOUT when mt_watchdog_feed is not called for `seconds`; it aborts the
 * communicators known by then first. */
void mt_watchdog_start(int seconds);
void mt_watchdog_know(ncclComm_t comm);
void mt_watchdog_feed(void);
void mt_watchdog_stop(void);

#ifdef __cplusplus
}
#endif

#endif
