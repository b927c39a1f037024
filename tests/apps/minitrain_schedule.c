/*
 * The schedules of a pipeline stage. Tasks of one kind come in one order on all stages; a stage differs in how many
 * forward passes it runs before its first backward one (warm-up), so that as many are left over for the end
 * (cool-down). Between them one of each alternate.
 */
#include "minitrain_schedule.h"

#include <stdlib.h>

static const struct mt_task none = {-1, 0};

static struct mt_schedule *schedule_new(int ticks)
{
    struct mt_schedule *schedule = calloc(1, sizeof *schedule + ((size_t)ticks + 1) * sizeof schedule->tick[0]);
    if (schedule)
        schedule->tick[0] = (struct mt_tick){none, none};
    return schedule;
}

static void append(struct mt_schedule *schedule, struct mt_task forward, struct mt_task backward)
{
    schedule->tick[schedule->count++] = (struct mt_tick){forward, backward};
    schedule->tick[schedule->count] = (struct mt_tick){none, none};
}

/* The `number`-th forward task: as many microbatches as there are stages go through a chunk, then through the next. */
static struct mt_task forward_task(int stages, int chunks, int number)
{
    if (chunks == 1)
        return (struct mt_task){0, number};
    int round = number / (stages * chunks);
    return (struct mt_task){number / stages % chunks, round * stages + number % stages};
}

static struct mt_task backward_task(int stages, int chunks, int number)
{
    struct mt_task task = forward_task(stages, chunks, number);
    task.chunk = chunks - 1 - task.chunk;
    return task;
}

static int warm_up(enum mt_schedule_kind kind, int stages, int stage, int chunks, int total)
{
    int later = stages - 1 - stage;
    int passes = kind == MT_SCHEDULE_1F1B ? later : 2 * later + (chunks - 1) * stages;
    return passes < total ? passes : total;
}

struct mt_schedule *mt_schedule_train(enum mt_schedule_kind kind, int stages, int stage, int chunks, int microbatches)
{
    int total = chunks * microbatches, ahead = warm_up(kind, stages, stage, chunks, total);
    struct mt_schedule *schedule = schedule_new(2 * total);
    for (int i = 0; schedule && i < total + ahead; i++) {
        struct mt_task forward = i < total ? forward_task(stages, chunks, i) : none;
        struct mt_task backward = i >= ahead ? backward_task(stages, chunks, i - ahead) : none;
        if (kind == MT_SCHEDULE_INTERLEAVED || forward.chunk < 0 || backward.chunk < 0) {
            append(schedule, forward, backward);
        } else {
            append(schedule, forward, none);
            append(schedule, none, backward);
        }
    }
    return schedule;
}

struct mt_schedule *mt_schedule_forward(int chunks, int microbatch)
{
    struct mt_schedule *schedule = schedule_new(chunks);
    for (int chunk = 0; schedule && chunk < chunks; chunk++)
        append(schedule, (struct mt_task){chunk, microbatch}, none);
    return schedule;
}

int mt_schedule_in_flight(const struct mt_schedule *schedule, int chunk)
{
    int now = 0, most = 0;
    for (int i = 0; i < schedule->count; i++) {
        now += schedule->tick[i].forward.chunk == chunk;
        most = now > most ? now : most;
        now -= schedule->tick[i].backward.chunk == chunk;
    }
    return most;
}
