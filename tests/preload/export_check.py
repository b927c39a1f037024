"""Reads what `reprise export` wrote and checks it: export_check.py chrome|perfetto FILE.

Of a Perfetto trace it reads the wire format itself, by the numbers of fields in perfetto_trace.proto. Whatever the format:
a track is told of before anything is on it; slices of a track are nested or apart, in order of time, and all of them end.
Then it prints one line a slice, an instant and a count, in the same words for both formats, so that they can be compared.
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
    """{field: [values]}: numbers, and bytes."""
    fields, at = defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
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
                yield self.event(packet[8][0], message(data))

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
            if kind == "E":
                yield kind, track, at, None, None, None
                continue
            yield "B" if kind == "X" else kind, track, at, event["cat"], event["name"], event.get("args", {})
            if kind == "X":
                yield "E", track, at + round(event["dur"] * 1000), None, None, None


# ---------------------------------------------------------------- both


def lines(events):
    """A line each. Slices must be nested or apart; a call has nothing in it, an event calls, a step events and calls."""
    stacks, last = defaultdict(list), {}
    inside = {"step": [None], "event": ["step"], "call": ["step", "event"]}
    for kind, track, at, category, name, more in events:
        check(at >= 0, f"{track}: time {at}")
        if kind == "C":
            check(at >= last.get((track, "C"), 0), f"{track}: a counter goes back in time")
            last[track, "C"] = at
            yield f"count {track} {at} {more}"
        elif kind == "i":
            yield f"instant {track} {at} {category} {name} {sorted(more.items())}"
        else:
            check(at >= last.get(track, 0), f"{track}: {name} at {at}, but the slice before ends at {last.get(track)}")
            last[track] = at
            stack = stacks[track]
            if kind == "B":
                check((stack[-1][0] if stack else None) in inside[category], f"{track}: a {category} in {stack[-1:]}")
                stack.append((category, name, at, more))
            else:
                check(stack, f"{track}: an end at {at} of nothing")
                category, name, begin, more = stack.pop()
                yield f"slice {track} {begin} to {at} {category} {name} {sorted(more.items())}"
    for track, stack in stacks.items():
        check(not stack, f"{track}: {stack} without an end")


def main():
    with open(sys.argv[2], "rb") as file:
        data = file.read()
    reader = {"chrome": Chrome, "perfetto": Perfetto}[sys.argv[1]](data)
    for line in lines(reader.events()):
        print(line)
    for process in sorted(reader.processes.values()):
        print("process", *process)
    for track in sorted(reader.tracks.values()):
        if sys.argv[1] == "chrome" or "a step" not in track[1] and "behind a call" not in track[1]:
            print("track", *track)


main()
