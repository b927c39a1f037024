"""Reads what `reprise export` wrote and checks it: export_check.py chrome|perfetto FILE.

Of a Perfetto trace it reads the wire format itself, by the numbers of fields in perfetto_trace.proto. Whatever the format:
a track is told of before anything is on it; slices of a track are nested or apart, in order of time, and all of them end.
A flow has one begin, in a gather ahead, and one end, in a call, no earlier.
Then it prints one line a slice, an instant, a count and a flow, in the same words for both formats, so that they can be compared.
"""

import json
import sys
from collections import defaultdict


def fail(text):
    sys.exit(f"export_check: {text}")


def check(holds, text):
    if not holds:
        fail(text)


# ---------------------------------------------------------------- protobuf


def varint(data, at):
    value = shift = 0
    while True:
        check(at < len(data) and shift < 70, "a varint has no end")
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7


def message(data):
    """{field: [values]}: numbers, those of 64 bits too, and bytes."""
    fields, at = defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 1:
            check(at + 8 <= len(data), "a number is beyond its message")
            value, at = int.from_bytes(data[at : at + 8], "little"), at + 8
        else:
            check(tag & 7 == 2, f"wire type {tag & 7}")
            length, at = varint(data, at)
            check(at + length <= len(data), "a length is beyond its message")
            value, at = data[at : at + length], at + length
        fields[tag >> 3].append(value)
    return fields


class Perfetto:
    def __init__(self, data):
        self.names = {1: {}, 2: {}, 3: {}}  # InternedData: categories, names, annotations
        self.processes, self.tracks = {}, {}
        self.cleared = False
        for number, packets in message(data).items():
            check(number == 1, f"field {number} of a Trace")
            self.packets = [message(packet) for packet in packets]

    def intern(self, data):
        for field, entries in message(data).items():
            for entry in map(message, entries):
                number = entry[1][0]
                check(number not in self.names[field], f"name {number} is told twice")
                self.names[field][number] = entry[2][0].decode()

    def descriptor(self, data):
        fields = message(data)
        uuid = fields[1][0]
        check(uuid not in self.tracks and uuid not in self.processes, f"track {uuid} is told twice")
        if 3 in fields:
            process = message(fields[3][0])
            self.processes[uuid] = (process[1][0], process[6][0].decode())
        else:
            self.tracks[uuid] = (self.processes[fields[5][0]][0], fields[2][0].decode())

    def events(self):
        for packet in self.packets:
            check(packet[10] == [1], "another sequence")
            if packet[13][0] & 1:
                check(not self.cleared, "the state is cleared twice")
                self.cleared = True
            check(self.cleared, "the first packet does not clear the state")
            for data in packet[12]:
                self.intern(data)
            for data in packet[60]:
                self.descriptor(data)
            for data in packet[11]:
                fields = message(data)
                yield self.event(packet[8][0], fields)
                for kind, field in (("s", 47), ("f", 48)):  # flow_ids, terminating_flow_ids: in the slice that begins
                    check(field not in fields or fields[9] == [1], "a flow at no beginning of a slice")
                    for flow in fields.get(field, []):
                        yield kind, self.tracks[fields[11][0]], packet[8][0], None, None, flow

    def event(self, at, fields):
        track = self.tracks[fields[11][0]]
        kind = {1: "B", 2: "E", 3: "i", 4: "C"}[fields[9][0]]
        if kind == "C":
            return kind, track, at, None, track[1], fields[30][0]
        if kind == "E":
            return kind, track, at, None, None, None
        arguments = {}
        for annotation in map(message, fields[4]):
            value = annotation[3][0] if 3 in annotation else annotation[6][0].decode()
            arguments[self.names[3][annotation[1][0]]] = value
        return kind, track, at, self.names[1][fields[3][0]], self.names[2][fields[10][0]], arguments


# ---------------------------------------------------------------- JSON


class Chrome:
    def __init__(self, data):
        self.json = json.loads(data)
        self.processes, self.tracks = {}, {}

    def name(self, event):
        if event["name"] == "process_name":
            self.processes[event["pid"]] = (event["pid"], event["args"]["name"])
            return
        check(event["name"] == "thread_name", f"metadata {event['name']}")
        key = event["pid"], event["tid"]
        check(key not in self.tracks, f"track {key} is told twice")
        self.tracks[key] = (event["pid"], event["args"]["name"])

    def events(self):
        for event in self.json["traceEvents"]:
            kind = event["ph"]
            if kind == "M":
                self.name(event)
                continue
            check(event["pid"] in self.processes, f"no process {event['pid']}")
            at = round(event["ts"] * 1000)
            if kind == "C":
                (value,) = event["args"].values()
                yield kind, (event["pid"], event["name"]), at, None, event["name"], value
                continue
            track = self.tracks[event["pid"], event["tid"]]
            if kind in "sf":
                check(kind == "s" or event["bp"] == "e", "a flow ends in the slice that comes next")
                check((event["cat"], event["name"]) == ("ahead", "gathered ahead"), f"a flow is {event['name']}")
                yield kind, track, at, None, None, event["id"]
                continue
            if kind == "E":
                yield kind, track, at, None, None, None
                continue
            yield "B" if kind == "X" else kind, track, at, event["cat"], event["name"], event.get("args", {})
            if kind == "X":
                yield "E", track, at + round(event["dur"] * 1000), None, None, None


# ---------------------------------------------------------------- both


class Flows:
    """What begins where, and ends where."""

    def __init__(self):
        self.ends = {"s": {}, "f": {}}

    def bind(self, kind, flow, slice_of):
        """In the slice of its track that has begun last."""
        track, category, name, begin, end, at = slice_of
        check(begin <= at <= end, f"flow {flow} at {at} is not in the slice {begin} to {end}")
        check(category == {"s": "ahead", "f": "call"}[kind], f"flow {flow}: {kind} is in a {category}")
        check(flow not in self.ends[kind], f"flow {flow}: two of {kind}")
        self.ends[kind][flow] = (track, name, begin)

    def lines(self):
        begins, ends = self.ends["s"], self.ends["f"]
        check(begins.keys() == ends.keys(), f"flows with one end: {begins.keys() ^ ends.keys()}")
        for flow, (track, name, begin) in begins.items():
            check(track[0] == ends[flow][0][0], f"flow {flow} goes from rank to rank")
            check(begin <= ends[flow][2], f"flow {flow} ends at {ends[flow][2]}, before it begins")
            yield f"flow {track} {begin} {name} to {ends[flow][0]} {ends[flow][2]} {ends[flow][1]}"


def lines(events):
    """A line each. Slices must be nested or apart; a call has nothing in it, an event calls, a step events and calls."""
    stacks, last, flows, leaves = defaultdict(list), {}, Flows(), {}
    inside = {"step": [None], "event": ["step"], "call": ["step", "event"], "ahead": [None]}
    marks = []  # flows, looked at when all slices have ended
    for kind, track, at, category, name, more in events:
        check(at >= 0, f"{track}: time {at}")
        if kind == "C":
            check(at >= last.get((track, "C"), 0), f"{track}: a counter goes back in time")
            last[track, "C"] = at
            yield f"count {track} {at} {more}"
        elif kind == "i":
            yield f"instant {track} {at} {category} {name} {sorted(more.items())}"
        elif kind in "sf":
            leaf = leaves.get(track)
            check(leaf is not None, f"flow {more} is in no slice")
            marks.append((kind, more, leaf, at))
        else:
            check(at >= last.get(track, 0), f"{track}: {name} at {at}, but the slice before ends at {last.get(track)}")
            last[track] = at
            stack = stacks[track]
            if kind == "B":
                check((stack[-1][0] if stack else None) in inside[category], f"{track}: a {category} in {stack[-1:]}")
                stack.append((category, name, at, more))
                leaves[track] = leaf = [track, category, name, at, None]
                stack[-1] += (leaf,)
            else:
                check(stack, f"{track}: an end at {at} of nothing")
                category, name, begin, more, leaf = stack.pop()
                leaf[4] = at
                yield f"slice {track} {begin} to {at} {category} {name} {sorted(more.items())}"
    for track, stack in stacks.items():
        check(not stack, f"{track}: {stack} without an end")
    for kind, flow, leaf, at in marks:
        flows.bind(kind, flow, (*leaf, at))
    yield from flows.lines()


def main():
    with open(sys.argv[2], "rb") as file:
        data = file.read()
    reader = {"chrome": Chrome, "perfetto": Perfetto}[sys.argv[1]](data)
    for line in lines(reader.events()):
        print(line)
    for process in sorted(reader.processes.values()):
        print("process", *process)
    for track in sorted(reader.tracks.values()):
        if sys.argv[1] == "chrome" or not any(text in track[1] for text in ("a step", "behind a call", "not yet used")):
            print("track", *track)


main()
