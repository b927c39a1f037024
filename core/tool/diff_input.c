#include "core/tool/diff_input.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/compare/launch_parts.h"
#include "core/tool/summary.h"

#define BESIDE_MOST (96 << 20) /* bytes of a file */

enum rp_status rp_diff_input_open(const char *path, char name, struct rp_diff_input *input_out)
{
    struct rp_diff_input input = {.path = path, .name = name, .loaded_last = INT32_MIN};
    enum rp_status status = rp_trace_files_list(path, &input.files);
    if (status == RP_OK)
        *input_out = input;
    return status;
}

static void unload(struct rp_diff_input *input)
{
    if (input->trace == NULL)
        return;
    rp_timeline_free(&input->timeline);
    rp_packed_free(&input->packed);
    rp_trace_free(input->trace);
    input->trace = NULL;
}

void rp_diff_input_close(struct rp_diff_input *input)
{
    unload(input);
    rp_trace_files_free(&input->files);
    free(input->gaps);
    *input = (struct rp_diff_input){0};
}

static const char *find_file(const struct rp_diff_input *input, int32_t rank)
{
    for (size_t i = 0; i < input->files.count; i++) {
        if (input->files.of[i].rank == rank)
            return input->files.of[i].path;
    }
    return NULL;
}

bool rp_diff_input_has(const struct rp_diff_input *input, int32_t rank)
{
    return find_file(input, rank) != NULL;
}

static bool is_whole(const struct rp_trace *trace)
{
    return trace->complete && trace->lost_ops == 0 && trace->lost_launches == 0 && trace->lost_fingerprints == 0;
}

/* A gap, or NULL: no memory. */
static struct rp_diff_gap *add_gap(struct rp_diff_input *input, int32_t rank)
{
    struct rp_diff_gap *gaps = realloc(input->gaps, (input->gap_count + 1) * sizeof(*gaps));
    if (gaps == NULL)
        return NULL;
    input->gaps = gaps;
    gaps[input->gap_count] = (struct rp_diff_gap){.rank = rank};
    return &gaps[input->gap_count++];
}

/* Notes what is missing, the first time; `cause`: why the rank could not be read, or NULL. */
static enum rp_status note_gap(struct rp_diff_input *input, int32_t rank, const char *cause)
{
    if (rank <= input->loaded_last || (cause == NULL && is_whole(input->trace)))
        return RP_OK;
    struct rp_diff_gap *gap = add_gap(input, rank);
    if (gap == NULL)
        return RP_NO_MEMORY;
    gap->unread = cause != NULL;
    if (cause != NULL)
        snprintf(gap->state, sizeof(gap->state), "unreadable: %s", cause);
    else
        rp_summary_state(input->trace, gap->state, sizeof(gap->state));
    return RP_OK;
}

size_t rp_diff_input_unread(const struct rp_diff_input *input)
{
    size_t count = 0;
    for (size_t i = 0; i < input->gap_count; i++)
        count += input->gaps[i].unread;
    return count;
}

size_t rp_diff_inputs_unread(const struct rp_diff_input inputs[2])
{
    return rp_diff_input_unread(&inputs[0]) + rp_diff_input_unread(&inputs[1]);
}

/* From what was read to what is compared. */
static enum rp_status pack(struct rp_diff_input *input)
{
    rp_launch_parts_shrink(input->trace);
    enum rp_status status = rp_packed_create(input->trace, &input->packed);
    return status == RP_OK ? rp_timeline_create_packed(&input->packed, &input->timeline) : status;
}

/* Reads the file into what is empty. */
static enum rp_status read_rank(struct rp_diff_input *input, int32_t rank, const char *file)
{
    char cause[RP_TRACE_CAUSE_MAX];
    enum rp_status status = rp_trace_read_lean(file, cause, sizeof(cause), &input->trace);
    if (status != RP_OK) {
        input->trace = NULL;
        return status == RP_NO_MEMORY || note_gap(input, rank, cause) != RP_OK ? RP_NO_MEMORY : status;
    }
    input->trace->identity.rank = rank;
    status = note_gap(input, rank, NULL);
    return status == RP_OK ? pack(input) : status;
}

static enum rp_status load(struct rp_diff_input *input, int32_t rank)
{
    if (input->trace != NULL && input->trace->identity.rank == rank)
        return RP_OK;
    const char *file = find_file(input, rank);
    unload(input);
    if (file == NULL)
        return RP_NOT_FOUND;
    enum rp_status status = read_rank(input, rank, file);
    if (status != RP_OK) {
        unload(input);
        return status;
    }
    if (rank > input->loaded_last)
        input->loaded_last = rank;
    return RP_OK;
}

struct loading {
    struct rp_diff_input *input;
    int32_t rank;
    enum rp_status status;
};

static void *load_one(void *argument)
{
    struct loading *loading = argument;
    loading->status = load(loading->input, loading->rank);
    return NULL;
}

/* What is read takes twice the memory of what is kept of it: only small files are read both at once. */
static bool is_small(const struct rp_diff_input *input, int32_t rank)
{
    struct stat info;
    const char *file = find_file(input, rank);
    return file == NULL || (stat(file, &info) == 0 && info.st_size <= BESIDE_MOST);
}

void rp_diff_inputs_load(struct rp_diff_input inputs[2], int32_t rank, enum rp_status status_out[2])
{
    struct loading left = {.input = &inputs[0], .rank = rank}, right = {.input = &inputs[1], .rank = rank};
    pthread_t thread;
    bool beside =
        is_small(&inputs[0], rank) && is_small(&inputs[1], rank) && pthread_create(&thread, NULL, load_one, &left) == 0;
    if (!beside)
        load_one(&left);
    load_one(&right);
    if (beside)
        pthread_join(thread, NULL);
    status_out[0] = left.status;
    status_out[1] = right.status;
}
