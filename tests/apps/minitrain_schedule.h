/*
 * In which order one pipeline stage runs forward and backward of the step's microbatches.
 *
 * The model's chunks are dealt to the stages in turn: chunk c of all is chunk c / stages of stage c % stages. Between
 * two ticks a stage exchanges activations and gradients with its neighbours.
 */
#ifndef MINITRAIN_SCHEDULE_H
#define MINITRAIN_SCHEDULE_H

enum mt_schedule_kind { MT_SCHEDULE_1F1B, MT_SCHEDULE_INTERLEAVED };

/* `chunk` counts the stage's own; -1: no task. */
struct mt_task {
    int chunk, microbatch;
};

/* What is done between two exchanges: forward, then backward, or one of them. */
struct mt_tick {
    struct mt_task forward, backward;
};

/* Ends with a tick without tasks, which `count` leaves out. */
struct mt_schedule {
    int count;
    struct mt_tick tick[];
};

/*
 * A training step of `stage`. With MT_SCHEDULE_1F1B `chunks` is 1; with MT_SCHEDULE_INTERLEAVED `microbatches` is a
 * multiple of `stages`. Sources: Narayanan et al. 2021 (arXiv:2104.04473), section 2.2, figures 3 and 4; numbers of
 * warm-up passes as Megatron-LM has them. The caller frees it; NULL without memory.
 */
struct mt_schedule *mt_schedule_train(enum mt_schedule_kind kind, int stages, int stage, int chunks, int microbatches);

/* Forward of one microbatch only, through all chunks. */
struct mt_schedule *mt_schedule_forward(int chunks, int microbatch);

/* How many microbatches are in chunk `chunk` at most: between the begin of forward and the end of backward. */
int mt_schedule_in_flight(const struct mt_schedule *schedule, int chunk);

#endif
