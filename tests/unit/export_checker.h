/*
 * A format of exports that writes nothing and asks what every format needs: a track is told of before anything is on
 * it, slices of a track are nested or apart, in order of time, a call lies in a step or an event, and all of them end;
 * a flow begins once, at a gather ahead, and ends at most once, at a call that begins no earlier. It counts what it is
 * given. CHECK(condition) must be defined before. Included once per program.
 */
#ifndef RP_TESTS_EXPORT_CHECKER_H
#define RP_TESTS_EXPORT_CHECKER_H

#include <string.h>

#include "core/tool/export.h"

enum { CHECKED_COUNTERS = 8, CHECKED_FLOWS = 1024 };

static struct {
    bool process;
    const struct rp_export_track *track; /* of a thread, that is being filled */
    uint32_t thread;
    enum rp_export_category open[2];
    unsigned depth;
    int64_t last, last_count[CHECKED_COUNTERS];
    uint32_t streams;
    uint32_t aheads_tracks;
    int64_t last_ahead;
    struct { /* those beyond are not looked at */
        uint64_t number;
        int64_t begin;
        bool ended;
    } flows[CHECKED_FLOWS];
    size_t steps, events, calls, instants, counts, tracks, aheads, flow_begins, flow_ends;
} checked;

static void checker_begin(struct rp_export *export)
{
    (void)export;
    memset(&checked, 0, sizeof(checked));
}

static void checker_process(struct rp_export *export, uint32_t process, const char *name)
{
    (void)export;
    (void)process;
    CHECK(checked.depth == 0 && name[0] != '\0');
    checked.process = true;
    checked.streams = checked.aheads_tracks = 0;
    checked.track = NULL;
    memset(checked.last_count, 0, sizeof(checked.last_count));
}

static void checker_track(struct rp_export *export, const struct rp_export_track *track)
{
    (void)export;
    CHECK(checked.process && checked.depth == 0 && track->name[0] != '\0');
    checked.tracks++;
    if (track->kind == RP_EXPORT_STREAMS)
        CHECK(track->number == checked.streams++);
    if (track->kind == RP_EXPORT_AHEADS) {
        CHECK(track->number == checked.aheads_tracks++);
        checked.last_ahead = 0;
    }
    if (track->kind != RP_EXPORT_THREADS)
        return;
    CHECK(checked.track == NULL || track->number > checked.thread);
    checked.track = track;
    checked.thread = track->number;
    checked.last = 0;
}

static void checker_open(struct rp_export *export, const struct rp_export_slice *slice)
{
    CHECK(slice->track == checked.track && slice->begin >= checked.last && checked.depth < 2);
    CHECK(slice->category == (checked.depth == 0 ? RP_EXPORT_STEP : RP_EXPORT_EVENT));
    CHECK(strcmp(rp_export_name(export->names, slice->name), "?") != 0);
    checked.open[checked.depth++] = slice->category;
    *(slice->category == RP_EXPORT_STEP ? &checked.steps : &checked.events) += 1;
    checked.last = slice->begin;
}

static void checker_close(struct rp_export *export, const struct rp_export_track *track, int64_t end)
{
    (void)export;
    CHECK(track == checked.track && checked.depth > 0 && end >= checked.last);
    checked.depth--;
    checked.last = end;
}

static void checker_ahead(const struct rp_export_slice *slice)
{
    CHECK(slice->track->kind == RP_EXPORT_AHEADS && slice->track->number + 1 == checked.aheads_tracks);
    CHECK(slice->begin >= checked.last_ahead && slice->end >= slice->begin);
    CHECK(slice->arguments->count <= RP_EXPORT_ARGUMENTS_MAX);
    checked.last_ahead = slice->end;
    checked.aheads++;
    for (size_t i = 0; i < checked.flow_begins && i < CHECKED_FLOWS && slice->flow != 0; i++)
        CHECK(checked.flows[i].number != slice->flow);
    if (slice->flow != 0 && checked.flow_begins++ < CHECKED_FLOWS) {
        checked.flows[checked.flow_begins - 1].number = slice->flow;
        checked.flows[checked.flow_begins - 1].begin = slice->begin;
    }
}

static void checker_flow_end(const struct rp_export_slice *slice)
{
    checked.flow_ends++;
    for (size_t i = 0; i < checked.flow_begins && i < CHECKED_FLOWS; i++) {
        if (checked.flows[i].number != slice->flow)
            continue;
        CHECK(!checked.flows[i].ended && checked.flows[i].begin <= slice->begin);
        checked.flows[i].ended = true;
        return;
    }
    CHECK(checked.flow_begins > CHECKED_FLOWS);
}

static void checker_call(struct rp_export *export, const struct rp_export_slice *slice)
{
    (void)export;
    if (slice->category == RP_EXPORT_AHEAD) {
        checker_ahead(slice);
        return;
    }
    CHECK(slice->track == checked.track && checked.depth > 0 && slice->category == RP_EXPORT_CALL);
    CHECK(slice->begin >= checked.last && slice->end >= slice->begin);
    CHECK(slice->arguments->count <= RP_EXPORT_ARGUMENTS_MAX);
    checked.calls++;
    checked.last = slice->end;
    if (slice->flow != 0)
        checker_flow_end(slice);
}

static void checker_instant(struct rp_export *export, const struct rp_export_slice *slice)
{
    (void)export;
    CHECK(checked.depth == 0 && slice->begin >= 0 && slice->end == slice->begin);
    CHECK(slice->track->kind == RP_EXPORT_STATES || slice->track->number < checked.streams);
    checked.instants++;
}

static void checker_count(struct rp_export *export, const struct rp_export_track *track, int64_t at, uint64_t value)
{
    (void)export;
    (void)value;
    CHECK(track->kind == RP_EXPORT_COUNTERS && track->number < CHECKED_COUNTERS);
    CHECK(at >= checked.last_count[track->number]);
    checked.last_count[track->number] = at;
    checked.counts++;
}

static void checker_end(struct rp_export *export)
{
    (void)export;
    CHECK(checked.depth == 0);
    CHECK(checked.flow_begins == checked.flow_ends);
}

static const struct rp_export_format checker_format = {checker_begin,   checker_process, checker_track,
                                                       checker_open,    checker_close,   checker_call,
                                                       checker_instant, checker_count,   checker_end};

#endif
