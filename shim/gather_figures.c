#include "shim/gather_figures.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/log.h"
#include "core/record/recorder.h"

/* The trace's word for a state of the engine. */
static enum rp_trace_state trace_state(enum rp_replay_state state)
{
    switch (state) {
    case RP_REPLAY_ARMED:
        return RP_STATE_REPLAY_ARMED;
    case RP_REPLAY_RESTING:
        return RP_STATE_REPLAY_RESTING;
    case RP_REPLAY_PASSIVE:
        return RP_STATE_REPLAY_PASSIVE;
    case RP_REPLAY_LEARNING:
    case RP_REPLAY_ARMING:
        break;
    }
    return RP_STATE_REPLAY_LEARNING;
}

void rp_figures_tell(uint32_t number, int lane_rank, enum rp_replay_state state, const char *text)
{
    rp_recorder_state(trace_state(state), number, text);
    if (lane_rank == 0)
        rp_log(state == RP_REPLAY_ARMING ? RP_LOG_DEBUG : RP_LOG_INFO, "replay", "communicator %" PRIu32 ": %s", number,
               text);
}

/*
 * "812 hits, 5 repaired, 0 withdrawn, 300 of the hits prefetched, 12.3 GiB not sent, a cycle 505.1 ms before, 321.2 ms
 * after"; where any were, ", 500 packed" behind those prefetched. Programs read the first four numbers.
 */
static void print(const struct rp_replay_figures *figures, char *text, size_t size)
{
    char kept[32], packed[40] = "";
    if (figures->packed != 0)
        snprintf(packed, sizeof packed, ", %" PRIu64 " packed", figures->packed);
    int length = snprintf(text, size,
                          "%" PRIu64 " hits, %" PRIu64 " repaired, %" PRIu64 " withdrawn, %" PRIu64
                          " of the hits prefetched%s, %s not sent",
                          figures->hits, figures->misses, figures->withdrawn, figures->ahead, packed,
                          rp_bytes_print(figures->bytes_kept, kept, sizeof kept));
    if (figures->replay_cycle_ns == 0 || length < 0 || (size_t)length >= size)
        return;
    if (figures->plain_cycle_ns != 0)
        snprintf(text + length, size - (size_t)length, ", a cycle %.1f ms before, %.1f ms after",
                 (double)figures->plain_cycle_ns / 1e6, (double)figures->replay_cycle_ns / 1e6);
    else
        snprintf(text + length, size - (size_t)length, ", a cycle %.1f ms", (double)figures->replay_cycle_ns / 1e6);
}

void rp_figures_record(uint32_t number, const struct rp_replay_figures *figures)
{
    char text[240];
    print(figures, text, sizeof text);
    rp_recorder_state(RP_STATE_REPLAY_FIGURES, number, text);
}

void rp_figures_add(struct rp_replay_figures *total, const struct rp_replay_figures *figures)
{
    if (figures->bytes_kept >= total->bytes_kept && figures->replay_cycle_ns != 0) {
        total->plain_cycle_ns = figures->plain_cycle_ns;
        total->replay_cycle_ns = figures->replay_cycle_ns;
    }
    total->hits += figures->hits;
    total->misses += figures->misses;
    total->withdrawn += figures->withdrawn;
    total->ahead += figures->ahead;
    total->packed += figures->packed;
    total->stored += figures->stored;
    total->passed += figures->passed;
    total->bytes_kept += figures->bytes_kept;
    total->divergences += figures->divergences;
    total->armings += figures->armings;
}

void rp_figures_say(const struct rp_replay_figures *total)
{
    char text[240];
    print(total, text, sizeof text);
    rp_log_end(RP_LOG_INFO, "replay", "rank 0: %s", text);
}
