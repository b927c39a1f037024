/*
 * Perfetto's trace: a message Trace of TracePackets, each written by hand in protobuf's wire format (protobuf.dev,
 * "Encoding"): a field is its number and type as a varint, then a varint, or a length and that many bytes, or eight.
 * The numbers of fields are those of perfetto_trace.proto, version 59 (google/perfetto, protos/perfetto/trace); numbers
 * of a field are never used anew there, so later versions read them too.
 *
 * One sequence, so that names are interned once: a packet that uses a new one brings it along. A track is known by a
 * 64-bit number that is made of its process, kind and number.
 */
#include "core/tool/export.h"

#include <string.h>

enum { /* Trace */
       TRACE_PACKET = 1,
};
enum { /* TracePacket */
       PACKET_TIMESTAMP = 8,
       PACKET_SEQUENCE = 10, /* trusted_packet_sequence_id */
       PACKET_EVENT = 11,
       PACKET_INTERNED = 12,
       PACKET_SEQUENCE_FLAGS = 13,
       PACKET_TRACK = 60,
};
enum { STATE_CLEARED = 1, NEEDS_STATE = 2 }; /* TracePacket.SequenceFlags */
enum {                                       /* TrackDescriptor */
       TRACK_UUID = 1,
       TRACK_NAME = 2,
       TRACK_PROCESS = 3,
       TRACK_PARENT = 5,
       TRACK_COUNTER = 8,
};
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { COUNTER_UNIT_NAME = 6 };
enum { INTERNED_CATEGORIES = 1, INTERNED_EVENTS = 2, INTERNED_ARGUMENTS = 3 };
enum { NAME_NUMBER = 1, NAME_TEXT = 2 }; /* EventCategory, EventName, DebugAnnotationName */
enum {                                   /* TrackEvent */
       EVENT_CATEGORY = 3,
       EVENT_ARGUMENT = 4,
       EVENT_TYPE = 9,
       EVENT_NAME = 10,
       EVENT_TRACK = 11,
       EVENT_COUNT = 30,
       EVENT_FLOW = 47,
       EVENT_FLOW_END = 48, /* terminating_flow_ids */
};
enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };  /* TrackEvent.Type */
enum { ARGUMENT_NAME = 1, ARGUMENT_NUMBER = 3, ARGUMENT_TEXT = 6 }; /* DebugAnnotation */

/* ---------------------------------------------------------------- messages */

#define MESSAGE_BYTES 8192 /* a name has at most 1000 bytes, an event a dozen arguments of some tens */

/* A message while it is made. What has no room is left out whole. */
struct message {
    size_t used;
    unsigned char bytes[MESSAGE_BYTES];
};

static size_t varint(unsigned char *to, uint64_t value)
{
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        to[count++] = (unsigned char)(value | 0x80);
    to[count++] = (unsigned char)value;
    return count;
}

static void put_number(struct message *message, unsigned field, uint64_t value)
{
    unsigned char *to = message->bytes + message->used;
    if (sizeof(message->bytes) - message->used < 20)
        return;
    size_t tag = varint(to, (uint64_t)field << 3);
    message->used += tag + varint(to + tag, value);
}

static void put_fixed(struct message *message, unsigned field, uint64_t value)
{
    unsigned char *to = message->bytes + message->used;
    if (sizeof(message->bytes) - message->used < 20)
        return;
    size_t tag = varint(to, (uint64_t)field << 3 | 1);
    for (unsigned i = 0; i < 8; i++)
        to[tag + i] = (unsigned char)(value >> 8 * i);
    message->used += tag + 8;
}

static void put_bytes(struct message *message, unsigned field, const void *bytes, size_t count)
{
    unsigned char *to = message->bytes + message->used;
    if (sizeof(message->bytes) - message->used < 20 + count)
        return;
    size_t head = varint(to, (uint64_t)field << 3 | 2);
    head += varint(to + head, count);
    memcpy(to + head, bytes, count);
    message->used += head + count;
}

static void put_text(struct message *message, unsigned field, const char *text)
{
    put_bytes(message, field, text, strlen(text));
}

static void put_message(struct message *message, unsigned field, const struct message *part)
{
    put_bytes(message, field, part->bytes, part->used);
}

static void put_packet(struct rp_export *export, const struct message *packet)
{
    unsigned char head[20];
    size_t count = varint(head, TRACE_PACKET << 3 | 2);
    count += varint(head + count, packet->used);
    rp_export_bytes(export->out, head, count);
    rp_export_bytes(export->out, packet->bytes, packet->used);
}

static void begin_packet(struct message *packet, unsigned flags)
{
    packet->used = 0;
    put_number(packet, PACKET_SEQUENCE, 1);
    put_number(packet, PACKET_SEQUENCE_FLAGS, flags);
}

/* ---------------------------------------------------------------- names */

static void put_name(struct message *interned, unsigned field, uint64_t number, const char *text)
{
    struct message name;
    name.used = 0;
    put_number(&name, NAME_NUMBER, number);
    put_text(&name, NAME_TEXT, text);
    put_message(interned, field, &name);
}

/* The names up to that number of which no packet has told, each in a packet of its own. */
static void tell_names(struct rp_export *export, uint32_t number)
{
    struct message packet, interned;
    while (export->written < number) {
        uint32_t next = (uint32_t)++ export->written;
        interned.used = 0;
        put_name(&interned, INTERNED_EVENTS, next, rp_export_name(export->names, next));
        begin_packet(&packet, NEEDS_STATE);
        put_message(&packet, PACKET_INTERNED, &interned);
        put_packet(export, &packet);
    }
}

static void begin(struct rp_export *export)
{
    struct message packet, interned;
    interned.used = 0;
    for (unsigned i = 0; i < RP_EXPORT_CATEGORY_COUNT; i++)
        put_name(&interned, INTERNED_CATEGORIES, i + 1, rp_export_category_name((enum rp_export_category)i));
    for (unsigned i = 0; i < RP_EXPORT_ARGUMENT_COUNT; i++)
        put_name(&interned, INTERNED_ARGUMENTS, i + 1, rp_export_argument_name((enum rp_export_argument_name)i));
    begin_packet(&packet, STATE_CLEARED | NEEDS_STATE);
    put_message(&packet, PACKET_INTERNED, &interned);
    put_packet(export, &packet);
}

/* ---------------------------------------------------------------- tracks */

static uint64_t process_uuid(uint32_t process)
{
    return ((uint64_t)process + 1) << 36;
}

static uint64_t track_uuid(const struct rp_export_track *track)
{
    return process_uuid(track->process) | ((uint64_t)track->kind + 1) << 32 | track->number;
}

static void put_track(struct rp_export *export, const struct message *descriptor)
{
    struct message packet;
    begin_packet(&packet, NEEDS_STATE);
    put_message(&packet, PACKET_TRACK, descriptor);
    put_packet(export, &packet);
}

/* Its number counts from 1: process 0 is the idle one. */
static void process(struct rp_export *export, uint32_t number, const char *name)
{
    struct message process, descriptor;
    process.used = descriptor.used = 0;
    put_number(&process, PROCESS_PID, (uint64_t)number + 1);
    put_text(&process, PROCESS_NAME, name);
    put_number(&descriptor, TRACK_UUID, process_uuid(number));
    put_message(&descriptor, TRACK_PROCESS, &process);
    put_track(export, &descriptor);
}

static void track(struct rp_export *export, const struct rp_export_track *made)
{
    struct message counter, descriptor;
    counter.used = descriptor.used = 0;
    put_number(&descriptor, TRACK_UUID, track_uuid(made));
    put_number(&descriptor, TRACK_PARENT, process_uuid(made->process));
    put_text(&descriptor, TRACK_NAME, made->name);
    if (made->kind == RP_EXPORT_COUNTERS) {
        put_text(&counter, COUNTER_UNIT_NAME, made->unit);
        put_message(&descriptor, TRACK_COUNTER, &counter);
    }
    put_track(export, &descriptor);
}

/* ---------------------------------------------------------------- events */

static void put_argument(struct message *event, const struct rp_export_argument *argument)
{
    struct message annotation;
    annotation.used = 0;
    put_number(&annotation, ARGUMENT_NAME, (uint64_t)argument->name + 1);
    if (argument->text != NULL)
        put_text(&annotation, ARGUMENT_TEXT, argument->text);
    else
        put_number(&annotation, ARGUMENT_NUMBER, argument->number);
    put_message(event, EVENT_ARGUMENT, &annotation);
}

static void begin_event(struct message *event, unsigned type, const struct rp_export_track *of)
{
    event->used = 0;
    put_number(event, EVENT_TYPE, type);
    put_number(event, EVENT_TRACK, track_uuid(of));
}

static void put_event(struct rp_export *export, const struct message *event, int64_t at)
{
    struct message packet;
    begin_packet(&packet, NEEDS_STATE);
    put_number(&packet, PACKET_TIMESTAMP, (uint64_t)at);
    put_message(&packet, PACKET_EVENT, event);
    put_packet(export, &packet);
}

static void put_slice(struct rp_export *export, unsigned type, const struct rp_export_slice *slice)
{
    struct message event;
    tell_names(export, slice->name);
    begin_event(&event, type, slice->track);
    put_number(&event, EVENT_CATEGORY, (uint64_t)slice->category + 1);
    if (slice->name != 0)
        put_number(&event, EVENT_NAME, slice->name);
    for (unsigned i = 0; i < slice->arguments->count; i++)
        put_argument(&event, &slice->arguments->all[i]);
    if (slice->flow != 0)
        put_fixed(&event, slice->category == RP_EXPORT_AHEAD ? EVENT_FLOW : EVENT_FLOW_END, slice->flow);
    put_event(export, &event, slice->begin);
}

static void open_slice(struct rp_export *export, const struct rp_export_slice *slice)
{
    put_slice(export, SLICE_BEGIN, slice);
}

static void close_slice(struct rp_export *export, const struct rp_export_track *of, int64_t end)
{
    struct message event;
    begin_event(&event, SLICE_END, of);
    put_event(export, &event, end);
}

static void call(struct rp_export *export, const struct rp_export_slice *slice)
{
    put_slice(export, SLICE_BEGIN, slice);
    close_slice(export, slice->track, slice->end);
}

static void instant(struct rp_export *export, const struct rp_export_slice *slice)
{
    put_slice(export, INSTANT, slice);
}

static void count(struct rp_export *export, const struct rp_export_track *of, int64_t at, uint64_t value)
{
    struct message event;
    begin_event(&event, COUNTER, of);
    put_number(&event, EVENT_COUNT, value);
    put_event(export, &event, at);
}

static void end(struct rp_export *export)
{
    (void)export;
}

const struct rp_export_format rp_export_perfetto = {begin, process, track, open_slice, close_slice,
                                                    call,  instant, count, end};
