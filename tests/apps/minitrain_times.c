/*
 * A wait for a gather has three events on the compute stream:
 *
 *   called   when the first gather since the last such wait is about to be called. All work before the wait is on the
 *            stream by then, so from here on it has nothing to do but wait
 *   before   when the host has come to the wait: later than `called` only if the host was held up, as by a library that
 *            waits for something inside ncclAllGather
 *   behind   when the gather has delivered
 *
 * Exposed is from `called` to `behind`, whoever waits; late is the part before `before`. A wait for a reduction that
 * comes between ends the late part, and `called` is recorded again behind it, so that no time is counted twice.
 *
 * Events of a step are used again MT_STEPS_AHEAD + 1 steps later, when they have been read.
 */
#include "minitrain_times.h"

#include "minitrain_host.h"

#include <stdio.h>
#include <stdlib.h>

#define RING (MT_STEPS_AHEAD + 1)

/* X(enumerator, name): of all columns, in ms but for the percentage. */
#define COLUMNS(X)                 \
    X(STEP, "step_ms")             \
    X(EXPOSED, "exposed_ms")       \
    X(PERCENT, "exposed_percent")  \
    X(LATE, "late_ms")             \
    X(FIRST_GAP, "first_gap_ms")   \
    X(LATER_GAPS, "later_gaps_ms") \
    X(REDUCTION, "reduction_ms")   \
    X(COMPUTE, "compute_ms")

enum column {
#define X(name, text) name,
    COLUMNS(X)
#undef X
        COUNT
};

static const char *const names[COUNT] = {
#define X(name, text) text,
    COLUMNS(X)
#undef X
};

struct wait {
    enum mt_wait kind;
    bool starts;     /* the first gather of a microbatch */
    bool has_called; /* `called` is recorded: always for a gather */
    cudaEvent_t called, before, behind;
};

struct marks {
    cudaEvent_t begin;
    int count, capacity;
    struct wait *wait; /* capacity; events are made for all of them */
};

struct mt_times {
    struct marks ring[RING], *now; /* now: NULL between steps */
    bool called, starts;           /* of the next wait for a gather */
    double (*rows)[COUNT];         /* of each step */
};

static cudaEvent_t event_new(void)
{
    cudaEvent_t event;
    MT_CUDA(cudaEventCreate(&event));
    return event;
}

struct mt_times *mt_times_open(const struct mt_trainer *t)
{
    if (!t->options->times)
        return NULL;
    struct mt_times *times = calloc(1, sizeof *times);
    if (!times || !(times->rows = calloc((size_t)t->options->steps, sizeof *times->rows)))
        mt_die("no memory for times");
    for (int i = 0; i < RING; i++)
        times->ring[i].begin = event_new();
    return times;
}

static void marks_close(struct marks *marks)
{
    MT_CUDA(cudaEventDestroy(marks->begin));
    for (int i = 0; i < marks->capacity; i++) {
        MT_CUDA(cudaEventDestroy(marks->wait[i].called));
        MT_CUDA(cudaEventDestroy(marks->wait[i].before));
        MT_CUDA(cudaEventDestroy(marks->wait[i].behind));
    }
    free(marks->wait);
}

void mt_times_close(struct mt_times *times)
{
    if (!times)
        return;
    for (int i = 0; i < RING; i++)
        marks_close(&times->ring[i]);
    free(times->rows);
    free(times);
}

/* Recording ------------------------------------------------------------------------------------------------------- */

static struct mt_times *recording(const struct mt_trainer *t)
{
    return t->times && t->times->now ? t->times : NULL;
}

/* The wait that comes next. */
static struct wait *next_wait(struct marks *marks)
{
    if (marks->count == marks->capacity) {
        int capacity = marks->capacity ? 2 * marks->capacity : 64;
        marks->wait = realloc(marks->wait, (size_t)capacity * sizeof *marks->wait);
        if (!marks->wait)
            mt_die("no memory for times");
        for (int i = marks->capacity; i < capacity; i++)
            marks->wait[i] = (struct wait){.called = event_new(), .before = event_new(), .behind = event_new()};
        marks->capacity = capacity;
    }
    return &marks->wait[marks->count];
}

void mt_times_begin(const struct mt_trainer *t, int step)
{
    struct mt_times *times = t->times;
    if (!times)
        return;
    times->now = &times->ring[step % RING];
    times->now->count = 0;
    MT_CUDA(cudaEventRecord(times->now->begin, t->compute));
}

void mt_times_end(const struct mt_trainer *t)
{
    if (t->times)
        t->times->now = NULL;
}

void mt_times_forward(const struct mt_trainer *t)
{
    if (recording(t))
        t->times->starts = true;
}

void mt_times_called(const struct mt_trainer *t)
{
    struct mt_times *times = recording(t);
    if (!times || times->called)
        return;
    MT_CUDA(cudaEventRecord(next_wait(times->now)->called, t->compute));
    times->called = true;
}

void mt_compute_wait(const struct mt_trainer *t, enum mt_wait kind, cudaEvent_t event)
{
    struct mt_times *times = recording(t);
    if (!times) {
        MT_CUDA(cudaStreamWaitEvent(t->compute, event, 0));
        return;
    }
    bool has_called = times->called || kind == MT_WAIT_GATHER;
    if (kind == MT_WAIT_GATHER)
        mt_times_called(t);
    struct wait *wait = next_wait(times->now);
    MT_CUDA(cudaEventRecord(wait->before, t->compute));
    MT_CUDA(cudaStreamWaitEvent(t->compute, event, 0));
    MT_CUDA(cudaEventRecord(wait->behind, t->compute));
    wait->kind = kind;
    wait->has_called = has_called;
    wait->starts = kind == MT_WAIT_GATHER && times->starts;
    times->now->count++;
    times->called = false;
    if (kind == MT_WAIT_GATHER)
        times->starts = false;
    else if (has_called)
        mt_times_called(t);
}

/* Reading --------------------------------------------------------------------------------------------------------- */

static double between(cudaEvent_t from, cudaEvent_t to)
{
    float ms;
    MT_CUDA(cudaEventElapsedTime(&ms, from, to));
    return (double)ms;
}

static void add_wait(double *row, const struct wait *wait, bool first)
{
    double late = wait->has_called ? between(wait->called, wait->before) : 0;
    double waited = between(wait->before, wait->behind);
    row[LATE] += late;
    row[EXPOSED] += late + (wait->kind == MT_WAIT_GATHER ? waited : 0);
    row[REDUCTION] += wait->kind == MT_WAIT_REDUCTION ? waited : 0;
    if (wait->starts)
        row[first ? FIRST_GAP : LATER_GAPS] += late + waited;
}

void mt_times_read(const struct mt_trainer *t, int step)
{
    if (!t->times)
        return;
    const struct marks *marks = &t->times->ring[step % RING];
    double *row = t->times->rows[step - 1];
    bool first = true;
    for (int i = 0; i < marks->count; i++) {
        add_wait(row, &marks->wait[i], first);
        first = first && !marks->wait[i].starts;
    }
    row[STEP] = between(marks->begin, t->step_marks[step]);
    row[COMPUTE] = row[STEP] - row[EXPOSED] - row[REDUCTION];
    row[PERCENT] = 100 * row[EXPOSED] / row[STEP];
}

/* The table ------------------------------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a column over the rows from `first` to the last. */
static double median(const struct mt_trainer *t, int column, int first)
{
    int count = t->options->steps - first;
    double *values = calloc((size_t)count, sizeof *values);
    if (!values)
        mt_die("no memory for times");
    for (int i = 0; i < count; i++)
        values[i] = t->times->rows[first + i][column];
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    double middle = (values[(count - 1) / 2] + values[count / 2]) / 2;
    free(values);
    return middle;
}

void mt_times_print(const struct mt_trainer *t)
{
    if (!t->times)
        return;
    int steps = t->options->steps, first = steps / 2;
    printf("%5s", "step");
    for (int column = 0; column < COUNT; column++)
        printf(" %15s", names[column]);
    for (int i = 0; i < steps; i++) {
        printf("\n%5d", i + 1);
        for (int column = 0; column < COUNT; column++)
            printf(" %15.3f", t->times->rows[i][column]);
    }
    printf("\ntimes of rank %d, medians of steps %d to %d:", t->rank, first + 1, steps);
    for (int column = 0; column < COUNT; column++)
        printf(" %s %.3f", names[column], median(t, column, first));
    putchar('\n');
}
