/*
 * The traces of a run: every rank-<N>.rpt of a directory, or one file.
 *
 * Threads: one at a time.
 */
#include "core/trace/trace.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/log.h"

/* True for "rank-<digits>.rpt". */
static bool is_rank_file(const char *name)
{
    static const char prefix[] = "rank-", suffix[] = ".rpt";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *number = name + sizeof prefix - 1;
    size_t digits = strspn(number, "0123456789");
    return digits > 0 && strcmp(number + digits, suffix) == 0;
}

static enum rp_status add_trace(struct rp_trace_run *run, const char *path)
{
    struct rp_trace **ranks = realloc(run->ranks, (run->count + 1) * sizeof(struct rp_trace *));
    if (ranks == NULL) {
        rp_log(RP_LOG_ERROR, "trace", "%s: %s", path, rp_status_text(RP_NO_MEMORY));
        return RP_NO_MEMORY;
    }
    run->ranks = ranks;
    enum rp_status status = rp_trace_read(path, &run->ranks[run->count]);
    if (status == RP_OK)
        run->count++;
    return status;
}

static int by_rank(const void *left, const void *right)
{
    const struct rp_trace *a = *(struct rp_trace *const *)left, *b = *(struct rp_trace *const *)right;
    return (a->identity.rank > b->identity.rank) - (a->identity.rank < b->identity.rank);
}

static enum rp_status add_directory(struct rp_trace_run *run, DIR *directory, const char *path)
{
    const struct dirent *entry;
    enum rp_status status = RP_OK;
    bool left_out = false;
    while (status == RP_OK && (entry = readdir(directory)) != NULL) {
        char file[PATH_MAX];
        if (!is_rank_file(entry->d_name))
            continue;
        int length = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof file) {
            rp_log(RP_LOG_ERROR, "trace", "%s: the path is too long", path);
            status = RP_IO;
        } else {
            status = add_trace(run, file);
        }
        if (status == RP_TRUNCATED) { /* not even a header: the rank is left out, which has been said */
            left_out = true;
            status = RP_OK;
        }
    }
    if (status == RP_OK && run->count == 0 && left_out) {
        status = RP_TRUNCATED;
    } else if (status == RP_OK && run->count == 0) {
        rp_log(RP_LOG_ERROR, "trace", "%s: holds no trace (no rank-*.rpt)", path);
        status = RP_NOT_FOUND;
    }
    if (run->count > 1)
        qsort(run->ranks, run->count, sizeof(struct rp_trace *), by_rank);
    return status;
}

enum rp_status rp_trace_run_read(const char *path, struct rp_trace_run *run_out)
{
    struct rp_trace_run run = {0};
    enum rp_status status;
    DIR *directory = opendir(path);
    if (directory != NULL) {
        status = add_directory(&run, directory, path);
        closedir(directory);
    } else if (errno == ENOTDIR) {
        status = add_trace(&run, path);
    } else {
        rp_log(RP_LOG_ERROR, "trace", "%s: cannot be opened: %s", path, strerrordesc_np(errno));
        status = errno == ENOENT ? RP_NOT_FOUND : RP_IO;
    }
    if (status == RP_OK)
        *run_out = run;
    else
        rp_trace_run_free(&run);
    return status;
}

void rp_trace_run_free(struct rp_trace_run *run)
{
    for (size_t i = 0; i < run->count; i++)
        rp_trace_free(run->ranks[i]);
    free(run->ranks);
    *run = (struct rp_trace_run){0};
}
