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

/*
 * True for "rank-<N>.rpt" as it is written: no zero before other digits, and no more than a rank can be. So no two
 * files are of one rank.
 */
static bool is_rank_file(const char *name, int32_t *rank_out)
{
    static const char prefix[] = "rank-", suffix[] = ".rpt";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *number = name + sizeof prefix - 1;
    size_t digits = strspn(number, "0123456789");
    if (digits == 0 || (number[0] == '0' && digits > 1) || strcmp(number + digits, suffix) != 0)
        return false;
    unsigned long rank = strtoul(number, NULL, 10);
    *rank_out = (int32_t)rank;
    return rank <= INT32_MAX;
}

/* ---------------------------------------------------------------- its files */

static enum rp_status add_file(struct rp_trace_files *files, const char *path, int32_t rank)
{
    struct rp_trace_file *of = realloc(files->of, (files->count + 1) * sizeof *of);
    if (of != NULL)
        files->of = of;
    char *copy = of == NULL ? NULL : strdup(path);
    if (copy == NULL) {
        rp_log(RP_LOG_ERROR, "trace", "%s: %s", path, rp_status_text(RP_NO_MEMORY));
        return RP_NO_MEMORY;
    }
    of[files->count++] = (struct rp_trace_file){rank, copy};
    return RP_OK;
}

static int by_rank(const void *left, const void *right)
{
    const struct rp_trace_file *a = left, *b = right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static enum rp_status list_directory(struct rp_trace_files *files, DIR *directory, const char *path)
{
    const struct dirent *entry;
    enum rp_status status = RP_OK;
    while (status == RP_OK && (entry = readdir(directory)) != NULL) {
        char file[PATH_MAX];
        int32_t rank;
        if (!is_rank_file(entry->d_name, &rank))
            continue;
        int length = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof file) {
            rp_log(RP_LOG_ERROR, "trace", "%s: the path is too long", path);
            status = RP_IO;
        } else {
            status = add_file(files, file, rank);
        }
    }
    if (status == RP_OK && files->count == 0) {
        rp_log(RP_LOG_ERROR, "trace", "%s: holds no trace (no rank-*.rpt)", path);
        status = RP_NOT_FOUND;
    }
    if (files->count > 1)
        qsort(files->of, files->count, sizeof *files->of, by_rank);
    return status;
}

/* What is wrong with the file is said when it is read whole. */
static enum rp_status list_file(struct rp_trace_files *files, const char *path)
{
    char cause[120];
    int32_t rank = 0;
    struct rp_trace *head;
    if (rp_trace_read_head(path, 0, cause, sizeof cause, &head) == RP_OK) {
        rank = head->identity.rank;
        rp_trace_free(head);
    }
    return add_file(files, path, rank);
}

enum rp_status rp_trace_files_list(const char *path, struct rp_trace_files *files_out)
{
    struct rp_trace_files files = {0};
    enum rp_status status;
    DIR *directory = opendir(path);
    if (directory != NULL) {
        status = list_directory(&files, directory, path);
        closedir(directory);
    } else if (errno == ENOTDIR) {
        status = list_file(&files, path);
    } else {
        rp_log(RP_LOG_ERROR, "trace", "%s: cannot be opened: %s", path, strerrordesc_np(errno));
        status = errno == ENOENT ? RP_NOT_FOUND : RP_IO;
    }
    if (status == RP_OK)
        *files_out = files;
    else
        rp_trace_files_free(&files);
    return status;
}

void rp_trace_files_free(struct rp_trace_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->of[i].path);
    free(files->of);
    *files = (struct rp_trace_files){0};
}

/* ---------------------------------------------------------------- all of them, read */

/* Takes the trace of a file, or why there is none. RP_NO_MEMORY; else RP_OK, and `*first` keeps the first error. */
static enum rp_status read_file(struct rp_trace_run *run, const struct rp_trace_file *file, enum rp_status *first)
{
    struct rp_trace_unread *unread = &run->unread[run->unread_count];
    enum rp_status status =
        rp_trace_read_cause(file->path, unread->cause, sizeof unread->cause, &run->ranks[run->count]);
    if (status == RP_NO_MEMORY)
        return status;
    if (status == RP_OK) {
        run->count++;
        return RP_OK;
    }
    unread->rank = file->rank;
    run->unread_count++;
    if (*first == RP_OK)
        *first = status;
    return RP_OK;
}

static enum rp_status make_room(const struct rp_trace_files *files, struct rp_trace_run *run)
{
    run->ranks = calloc(files->count, sizeof *run->ranks);
    run->unread = calloc(files->count, sizeof *run->unread);
    if (run->ranks != NULL && run->unread != NULL)
        return RP_OK;
    rp_log(RP_LOG_ERROR, "trace", "%s: %s", files->of[0].path, rp_status_text(RP_NO_MEMORY));
    return RP_NO_MEMORY;
}

enum rp_status rp_trace_run_read_watched(const char *path, void (*watch)(void *argument, size_t done, size_t total),
                                         void *argument, struct rp_trace_run *run_out)
{
    struct rp_trace_files files;
    struct rp_trace_run run = {0};
    enum rp_status status = rp_trace_files_list(path, &files), first = RP_OK;
    if (status != RP_OK)
        return status;
    status = make_room(&files, &run);
    for (size_t i = 0; i < files.count && status == RP_OK; i++) {
        watch(argument, i, files.count);
        status = read_file(&run, &files.of[i], &first);
    }
    rp_trace_files_free(&files);
    if (status == RP_OK && run.count == 0)
        status = first;
    if (status == RP_OK)
        *run_out = run;
    else
        rp_trace_run_free(&run);
    return status;
}

static void watch_nothing(void *argument, size_t done, size_t total)
{
    (void)argument;
    (void)done;
    (void)total;
}

enum rp_status rp_trace_run_read(const char *path, struct rp_trace_run *run_out)
{
    return rp_trace_run_read_watched(path, watch_nothing, NULL, run_out);
}

void rp_trace_run_free(struct rp_trace_run *run)
{
    for (size_t i = 0; i < run->count; i++)
        rp_trace_free(run->ranks[i]);
    free(run->ranks);
    free(run->unread);
    *run = (struct rp_trace_run){0};
}
