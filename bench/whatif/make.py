"""make.py FILE BYTES FLOWS [SNAP]: a capture of about so many bytes with so many connections of TCP.

Each connection has requests with responses and pauses, in rounds of a window that grows; one segment
in 500 is lost behind the point and sent again. With SNAP each frame is cut to so many bytes, so that
more frames make the file. The same arguments make the same file.
"""

import random
import struct
import sys

SECONDS = 300
SEGMENT = 1448
# Ethernet, IPv4, and TCP with timestamps.
HEADERS = 14 + 20 + 32
LOST = 0.002
SYN, ACK, PSH_ACK, FIN_ACK = 2, 16, 24, 17


class Flow:
    """A connection: its frames with their times, one after the other."""

    def __init__(self, number, payload, snap, chance):
        self.chance, self.snap = chance, snap
        self.start = chance.uniform(0, SECONDS * 0.9)
        # From the point to the client and back, and to the server and back.
        self.near, self.far = chance.uniform(0.001, 0.01), chance.uniform(0.005, 0.12)
        client = bytes((10, number >> 16 & 255, number >> 8 & 255, number & 255))
        server = bytes((198, 18, number * 7 & 255, number * 13 & 255))
        port = 1024 + number % 60000
        self.heads = [
            (client + server, struct.pack(">HH", port, 443)),
            (server + client, struct.pack(">HH", 443, port)),
        ]
        self.sent = [chance.getrandbits(32), chance.getrandbits(32)]
        count = chance.choice((1, 1, 2, 4, 8))
        self.responses = [max(200, int(payload * chance.uniform(0.5, 1.5) / count)) for _ in range(count)]

    def frame(self, at, way, flags, length=0, seq=None, ack=None):
        """Returns a frame with the header of its record."""
        whole = HEADERS + length
        seq = self.sent[way] if seq is None else seq
        ack = 0 if flags == SYN else self.sent[1 - way] if ack is None else ack
        addresses, ports = self.heads[way]
        stamp = int(at * 1000) & 0xFFFFFFFF
        packet = b"".join((
            bytes(12), b"\x08\x00\x45\x00", struct.pack(">H", whole - 14), b"\0\0\x40\0\x40\x06\0\0",
            addresses, ports,
            struct.pack(">IIBBHHHBBBBII", seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x80, flags, 65535, 0, 0,
                        1, 1, 8, 10, stamp, stamp),
        ))
        kept = min(whole, self.snap)
        second = int(at)
        head = struct.pack("<IIII", second, int((at - second) * 1e6), kept, whole)
        return at, head + packet + bytes(kept - HEADERS)

    def frames(self):
        """Yields all frames, nearly in the order of time."""
        at, trip = self.start, self.near + self.far
        yield self.frame(at, 0, SYN)
        self.sent[0] += 1
        yield self.frame(at + self.far, 1, SYN | ACK)
        self.sent[1] += 1
        at += trip
        yield self.frame(at, 0, ACK)
        window = 10
        for response in self.responses:
            request = self.chance.randrange(80, 900)
            yield self.frame(at, 0, PSH_ACK, request)
            self.sent[0] += request
            at += self.far + self.chance.uniform(0.001, 0.05)
            left = response
            while left > 0:
                lost = None
                for number in range(window):
                    length = min(left, SEGMENT)
                    if length <= 0:
                        break
                    if lost is None and self.chance.random() < LOST:
                        lost = (self.sent[1], length)
                    moment = at + number * 0.0001
                    yield self.frame(moment, 1, ACK, length)
                    self.sent[1] += length
                    left -= length
                    if number % 2 or left <= 0:
                        known = self.sent[1] if lost is None else lost[0]
                        yield self.frame(moment + self.near, 0, ACK, ack=known)
                at += trip
                if lost is None:
                    window = min(window * 2, 128)
                    continue
                yield self.frame(at, 1, ACK, lost[1], seq=lost[0])
                yield self.frame(at + self.near, 0, ACK)
                at, window = at + trip, max(window * 7 // 10, 2)
            at += self.chance.expovariate(1.0)
        yield self.frame(at, 0, FIN_ACK)
        self.sent[0] += 1
        yield self.frame(at + self.far, 1, FIN_ACK)


def main():
    path, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    snap = int(sys.argv[4]) if len(sys.argv) > 4 else 65535
    chance = random.Random(1)
    # A segment of data, and half of an acknowledgement.
    pair = 16 + min(snap, HEADERS + SEGMENT) + (16 + HEADERS) / 2
    payload = size / count / pair * SEGMENT
    flows = [Flow(number, payload, snap, chance) for number in range(count)]
    flows.sort(key=lambda flow: flow.start)
    waiting, active = iter(flows), []
    following = next(waiting, None)
    frames = 0
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, 1))
        end = 0
        while active or following:
            end += 1
            while following and following.start < end:
                active.append((following.frames(), []))
                following = next(waiting, None)
            now, still = [], []
            for source, held in active:
                rest = []
                for row in held:
                    (now if row[0] < end else rest).append(row)
                for row in source:
                    if row[0] < end:
                        now.append(row)
                    else:
                        rest.append(row)
                        # Acknowledgements are at most 10 ms behind what follows them.
                        if row[0] > end + 0.1:
                            break
                if rest:
                    still.append((source, rest))
            active = still
            now.sort(key=lambda row: row[0])
            frames += len(now)
            file.write(b"".join(row[1] for row in now))
        print(f"{file.tell()} bytes, {frames} frames, {count} connections")


if __name__ == "__main__":
    main()
