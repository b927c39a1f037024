/*
 * Chrome's JSON: "Trace Event Format", an object with "traceEvents" (document
 * 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU of docs.google.com, read by chrome://tracing and ui.perfetto.dev). Of
 * it: M names of processes and threads, B and E steps and events, X calls and gathers ahead, s and f a flow between
 * those, i instants, C counters. Times are microseconds with three decimals. A process is a rank; its number counts
 * from 1, since viewers take process 0 for the idle one.
 */
#include "core/tool/export.h"

#include <inttypes.h>

static struct rp_export_out *next_event(struct rp_export *export)
{
    rp_export_text(export->out, export->written++ == 0 ? "\n" : ",\n");
    return export->out;
}

static void put_time(struct rp_export_out *out, int64_t ns)
{
    char decimals[4] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10), (char)('0' + ns % 10)};
    rp_export_i64(out, ns / 1000);
    rp_export_bytes(out, decimals, sizeof(decimals));
}

/* Threads, streams and states are told apart by their number's first digit. */
static uint64_t thread_of(const struct rp_export_track *track)
{
    return 1 + track->number + 100000000u * (uint64_t)track->kind;
}

static void put_place(struct rp_export_out *out, const char *phase, const struct rp_export_track *track)
{
    rp_export_text(out, "{\"ph\":\"");
    rp_export_text(out, phase);
    rp_export_text(out, "\",\"pid\":");
    rp_export_u64(out, 1 + track->process);
    rp_export_text(out, ",\"tid\":");
    rp_export_u64(out, thread_of(track));
}

static void put_at(struct rp_export_out *out, int64_t at)
{
    rp_export_text(out, ",\"ts\":");
    put_time(out, at);
}

static void put_argument(struct rp_export_out *out, const struct rp_export_argument *argument)
{
    rp_export_text(out, "\"");
    rp_export_text(out, rp_export_argument_name(argument->name));
    rp_export_text(out, "\":");
    if (argument->text != NULL)
        rp_export_json_text(out, argument->text);
    else
        rp_export_u64(out, argument->number);
}

static void put_slice(struct rp_export *export, const char *phase, const struct rp_export_slice *slice)
{
    struct rp_export_out *out = next_event(export);
    put_place(out, phase, slice->track);
    put_at(out, slice->begin);
    if (phase[0] == 'i')
        rp_export_text(out, ",\"s\":\"t\""); /* an instant's scope: its thread */
    if (phase[0] == 'X') {
        rp_export_text(out, ",\"dur\":");
        put_time(out, slice->end - slice->begin);
    }
    rp_export_text(out, ",\"cat\":\"");
    rp_export_text(out, rp_export_category_name(slice->category));
    rp_export_text(out, "\",\"name\":");
    rp_export_json_text(out, rp_export_name(export->names, slice->name));
    for (unsigned i = 0; i < slice->arguments->count; i++) {
        rp_export_text(out, i == 0 ? ",\"args\":{" : ",");
        put_argument(out, &slice->arguments->all[i]);
    }
    rp_export_text(out, slice->arguments->count > 0 ? "}}" : "}");
}

static void put_name(struct rp_export *export, const char *event, const struct rp_export_track *track, const char *name)
{
    struct rp_export_out *out = next_event(export);
    put_place(out, "M", track);
    rp_export_text(out, ",\"name\":\"");
    rp_export_text(out, event);
    rp_export_text(out, "\",\"args\":{\"name\":");
    rp_export_json_text(out, name);
    rp_export_text(out, "}}");
}

/* ---------------------------------------------------------------- the format */

static void begin(struct rp_export *export)
{
    rp_export_text(export->out,
                   "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":\"reprise\",\"wall_ns_of_0\":\"");
    rp_export_u64(export->out, export->base_wall_ns);
    rp_export_text(export->out, "\"},\"traceEvents\":[");
}

static void process(struct rp_export *export, uint32_t number, const char *name)
{
    const struct rp_export_track track = {.process = number};
    put_name(export, "process_name", &track, name);
}

static void track(struct rp_export *export, const struct rp_export_track *made)
{
    if (made->kind != RP_EXPORT_COUNTERS) /* a counter is known by its name */
        put_name(export, "thread_name", made, made->name);
}

static void open_slice(struct rp_export *export, const struct rp_export_slice *slice)
{
    put_slice(export, "B", slice);
}

static void close_slice(struct rp_export *export, const struct rp_export_track *of, int64_t end)
{
    struct rp_export_out *out = next_event(export);
    put_place(out, "E", of);
    put_at(out, end);
    rp_export_text(out, "}");
}

/* Told behind its slice, at whose begin it is. */
static void put_flow(struct rp_export *export, const struct rp_export_slice *slice)
{
    bool begins = slice->category == RP_EXPORT_AHEAD;
    struct rp_export_out *out = next_event(export);
    put_place(out, begins ? "s" : "f", slice->track);
    put_at(out, slice->begin);
    rp_export_text(out, begins ? "" : ",\"bp\":\"e\""); /* it ends in the slice that is around, not in the next one */
    rp_export_text(out, ",\"cat\":\"");
    rp_export_text(out, rp_export_category_name(RP_EXPORT_AHEAD));
    rp_export_text(out, "\",\"name\":\"gathered ahead\",\"id\":");
    rp_export_u64(out, slice->flow);
    rp_export_text(out, "}");
}

static void call(struct rp_export *export, const struct rp_export_slice *slice)
{
    put_slice(export, "X", slice);
    if (slice->flow != 0)
        put_flow(export, slice);
}

static void instant(struct rp_export *export, const struct rp_export_slice *slice)
{
    put_slice(export, "i", slice);
}

static void count(struct rp_export *export, const struct rp_export_track *of, int64_t at, uint64_t value)
{
    struct rp_export_out *out = next_event(export);
    put_place(out, "C", of);
    put_at(out, at);
    rp_export_text(out, ",\"name\":");
    rp_export_json_text(out, of->name);
    rp_export_text(out, ",\"args\":{\"");
    rp_export_text(out, of->unit);
    rp_export_text(out, "\":");
    rp_export_u64(out, value);
    rp_export_text(out, "}}");
}

static void end(struct rp_export *export)
{
    rp_export_text(export->out, "\n]}\n");
}

const struct rp_export_format rp_export_chrome = {begin, process, track, open_slice, close_slice,
                                                  call,  instant, count, end};
