"""Prints runs of the acknowledgement filter of Linux's CAKE, for one queue that holds all packets.

    python3 ack_filter.py > ack_filter.txt

Written from the rules alone, over fields and not over bytes; `weir-core/tests/it/ack_filter.rs` makes
packets of them, and holds Weir's queue to what this prints. The rules, for a segment that has just
joined the end of the queue and has ACK and no SYN:

1. Waiting segments of the same addresses and ports, on the way from the first, are candidates if
   they have no payload, no flags but ACK, ECE and CWR, no reserved bits, no options but NOP, MD5,
   timestamps that are no newer than those of the new one, and ranges of SACK; if they acknowledge
   no more than the new one; and if the ranges of the new one cover theirs, none of which begins
   below what they acknowledge. A candidate that acknowledges as much as the new one needs to have
   fewer bytes in ranges.
2. A segment of the connection whose ECE and CWR differ from those of the candidate that was found
   keeps that one.
3. The first candidate is dropped as soon as there is a second one. With `aggressive`, it is also
   dropped if it is alone, stands right before the new one, and has its ECE and CWR.

A line is a run: `spare` or `aggressive`, ` | `, and events: `WAY:FLAGS:ACK:PAYLOAD:OPTIONS` for a packet
that arrives, with `=N` behind it if it makes packet N go, and `>N` for one that leaves. WAY is a
connection and how it is carried: 0 and 1 IPv4, 2 IPv6, 3 IPv6 in IPv4, 4 UDP.
"""

import random
import struct

EVENTS = 160


def after(one, other):
    return 0 < ((one - other) & 0xFFFFFFFF) < 0x80000000


def covers(new, old):
    """Returns whether the ranges of `new` cover those of `old`, and whether they have more bytes."""
    size = lambda ranges: sum((end - start) & 0xFFFFFFFF for start, end in ranges)
    for start, end in old["sack"]:
        if after(old["ack"], start):
            return False, False
        if not any(not after(s, start) and not after(end, e) for s, e in new["sack"]):
            return False, False
    return True, size(new["sack"]) > size(old["sack"])


def is_candidate(old, new):
    if old["flags"] & ~0xC0 != 0x10 or old["payload"] or old["odd"]:
        return False
    if old["stamps"]:
        theirs = new["stamps"] or (0, 0)
        if any(after(a, b) for a, b in zip(old["stamps"], theirs)):
            return False
    if after(old["ack"], new["ack"]):
        return False
    all_covered, more = covers(new, old)
    return all_covered and (more or old["ack"] != new["ack"])


def redundant(queue, mode):
    """Returns the place of the packet that the last one makes redundant."""
    new = queue[-1]
    if new["way"] == 4 or new["flags"] & 0x12 != 0x10:
        return None
    found = None
    for place, old in enumerate(queue[:-1]):
        if old["way"] != new["way"]:
            continue
        if found is not None and old["flags"] & 0xC0 != queue[found]["flags"] & 0xC0:
            found = None
        if not is_candidate(old, new):
            continue
        if found is not None:
            return found
        found = place
    if found is not None and mode == "aggressive" and found == len(queue) - 2:
        if queue[found]["flags"] & 0xC0 == new["flags"] & 0xC0:
            return found
    return None


def options(packet, draw):
    parts = []
    if packet["stamps"]:
        parts.append(b"\x01\x01\x08\x0a" + struct.pack(">II", *packet["stamps"]))
    if packet["sack"]:
        body = b"".join(struct.pack(">II", *row) for row in packet["sack"])
        parts.append(b"\x01\x01\x05" + bytes([2 + len(body)]) + body)
    if packet["odd"]:
        parts.append(draw.choice([b"\x02\x04\x05\xb4", b"\xfe\x04\x12\x34"]))
    draw.shuffle(parts)
    return b"".join(parts)


def run(seed, mode):
    draw = random.Random(seed)
    base = draw.choice([1000, 0xFFFFF000])
    acks, clock, queue, events, number = [base] * 5, [5] * 5, [], [], 0
    for _ in range(EVENTS):
        if queue and draw.random() < 0.2:
            events.append(f">{queue.pop(0)['number']}")
            continue
        way = draw.choices(range(5), (8, 3, 3, 2, 1))[0]
        acks[way] = (acks[way] + draw.choice([0, 0, 1448, 2896])) & 0xFFFFFFFF
        clock[way] += draw.randrange(3)
        ack = (acks[way] - draw.choice([0] * 9 + [1448])) & 0xFFFFFFFF
        sack = []
        if draw.random() < 0.3:
            at = ack + draw.choice([-1448, 1448, 1448, 1448])
            for _ in range(draw.randrange(1, 4)):
                length = 1448 * draw.randrange(1, 3)
                sack.append((at & 0xFFFFFFFF, (at + length) & 0xFFFFFFFF))
                at += length + 1448
        flags = 0x10 | draw.choices([0, 0x40, 0x80, 0x08, 0x01, 0x100, 0x02], (30, 3, 3, 3, 1, 1, 1))[0]
        if draw.random() < 0.02:
            flags = 0x04
        packet = {
            "number": number,
            "way": way,
            "flags": flags,
            "ack": ack,
            "payload": 1448 if draw.random() < 0.1 else 0,
            "stamps": (clock[way], clock[way] // 2) if draw.random() < 0.8 else None,
            "sack": sack,
            "odd": draw.random() < 0.03,
        }
        text = f"{way}:{flags:x}:{ack:x}:{packet['payload']}:{options(packet, draw).hex()}"
        number += 1
        queue.append(packet)
        place = redundant(queue, mode)
        if place is not None:
            text += f"={queue.pop(place)['number']}"
        events.append(text)
    return f"{mode} | {' '.join(events)}"


for seed in range(4):
    for mode in ("spare", "aggressive"):
        print(run(seed, mode))
