/*
 * The directory of a run: made whole, or joined, never overwritten. It holds the file `job` with the job's key.
 *
 * Threads: one at a time; several processes at once, also on several hosts over a shared file system.
 */
#ifndef RP_RUN_DIRECTORY_H
#define RP_RUN_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/status.h"

#define RP_RUN_PATH_MAX 4096
#define RP_RUN_JOB_MAX 512 /* bytes of a job's key that are read, with the zero at its end */

/*
 * Makes `path` with `job` in it, under another name and then renamed, or joins one whose `job` holds the same key.
 * RP_EXISTS: it is another job's, or no run's. RP_IO. Both said for the job, as the end of the recording.
 */
enum rp_status rp_run_directory_claim(const char *path, int32_t rank, const char *job_key);

/*
 * A rank's recording has failed: leaves the mark `failed` in the run's directory, a link whose text says which rank and
 * why (a link takes no room on a full disk). False: another rank has left it before, and has said the cause; where no
 * mark can be left (the directory is gone, no inodes), another rank of this host.
 */
bool rp_run_directory_mark(const char *directory, int32_t rank, const char *cause);

/* The key in the directory's file `job`, without its line end. RP_NOT_FOUND. Nothing is said. */
enum rp_status rp_run_directory_job(const char *directory, char key[RP_RUN_JOB_MAX]);

/* What the mark says, cut at `size` (at least 1). RP_NOT_FOUND: there is none. Nothing is said. */
enum rp_status rp_run_directory_failure(const char *directory, char *text, size_t size);

/* The reprise-* in `parent` whose `job` holds the key. RP_NOT_FOUND: none yet. Nothing is said. */
enum rp_status rp_run_directory_find(const char *parent, const char *job_key, char path_out[RP_RUN_PATH_MAX]);

/*
 * `parent`/reprise-<YYYYMMDD>-<hhmmss>-<pid>, in universal time; with "-rank<rank>" behind if rank > 0.
 * RP_INVALID: too long.
 */
enum rp_status rp_run_directory_name(const char *parent, uint64_t wall_ns, pid_t pid, int32_t rank,
                                     char path_out[RP_RUN_PATH_MAX]);

#endif
