"""Prints runs of DualPI2 as the pseudo-code of RFC 9332, appendix A.2, has it.

    python3 dualpi2.py > dualpi2.txt

Written from the RFC alone, in floating point; `weir-core/tests/it/dualpi2.rs` holds Weir's queue to
what it prints. Where the appendix leaves a choice: the scheduler is a weighted round robin by a
credit in bytes times per cent, which begins anew with a packet that finds both queues empty, likelihoods count as 1 at most, the base probability stays within
0 and 1, and the first update follows `TUPDATE` after the first packet.

A line is a run: STEP RAMP PROTECTION COUPLING, in microseconds and per cent, ` | `, and the events in
their order: `AT:ECN:LENGTH` for a packet that arrives, `AT>NUMBER` or `AT>NUMBER!` for one that
leaves, the latter marked, and `AT>-` if all that wait are dropped. Times are in nanoseconds.
"""

import random
from collections import deque

MTU = 1514
TARGET, TUPDATE = 0.015, 0.016
ALPHA, BETA = 41 / 256, 819 / 256
P_LMAX = 1.0
TH_LEN = 1
PACKETS = 450


class DualQ:
    def __init__(self, step, ramp, protection, coupling):
        self.min_th, self.range, self.k = step / 1e6, ramp / 1e6, coupling
        self.weight = protection
        self.initial = self.credit = MTU * (protection - (100 - protection))
        self.lq, self.cq = deque(), deque()
        self.count = {"l": 0.0, "c": 0.0}
        self.base, self.prev = 0.0, 0.0

    def recur(self, queue, likelihood):
        self.count[queue] += min(likelihood, 1.0)
        if self.count[queue] > 1:
            self.count[queue] -= 1
            return True
        return False

    def laqm(self, delay):
        if delay >= self.min_th + self.range:
            return 1.0
        return (delay - self.min_th) / self.range if delay > self.min_th else 0.0

    def update(self, now):
        waits = [(now - queue[0][1]) / 1e9 for queue in (self.lq, self.cq) if queue]
        current = max(waits, default=0.0)
        self.base += ALPHA * (current - TARGET) + BETA * (current - self.prev)
        self.base = min(max(self.base, 0.0), 1.0)
        self.prev = current

    def scheduler(self):
        if not self.lq or not self.cq:
            return "l" if self.lq else "c"
        return "c" if self.credit > 0 else "l"

    def dequeue(self, now):
        """Returns the number of the packet that leaves, and whether it is marked."""
        while self.lq or self.cq:
            which = self.scheduler()
            both = bool(self.lq and self.cq)
            number, arrived, ecn, length = (self.lq if which == "l" else self.cq).popleft()
            p_cl, p_c = self.k * self.base, self.base**2
            marked = False
            if which == "l":
                if p_cl < P_LMAX:
                    own = self.laqm((now - arrived) / 1e9) if len(self.lq) > TH_LEN else 0.0
                    marked = self.recur("l", max(own, p_cl))
                elif self.recur("l", p_c):
                    continue
                else:
                    marked = self.recur("l", p_cl)
            elif self.recur("c", p_c):
                if ecn == 0 or p_c >= min(1 / self.k**2, 1):
                    continue
                marked = True
            if both:
                self.credit += (self.weight if which == "l" else self.weight - 100) * length
            return number, marked and ecn != 3, length
        return None


def run(seed, step, ramp, protection, coupling, rates):
    """Packets at random times to a line of 8 Mbit/s, where a byte takes a microsecond."""
    draw = random.Random(seed)
    dual, events = DualQ(step, ramp, protection, coupling), []
    now, free, due, number = 0, 0, None, 0
    arrival = 0
    while number < PACKETS or dual.lq or dual.cq:
        waits = bool(dual.lq or dual.cq)
        arrival_at = arrival if number < PACKETS else float("inf")
        serve_at = max(free, now) if waits else float("inf")
        at = min(arrival_at, serve_at)
        while due is not None and due <= at:
            dual.update(due)
            due += int(TUPDATE * 1e9)
        now = at
        if serve_at < arrival_at:
            left = dual.dequeue(now)
            if not left:
                events.append(f"{now}>-")
            else:
                events.append(f"{now}>{left[0]}{'!' if left[1] else ''}")
                free = now + left[2] * 1000
            continue
        # A phase is a mix of ECN fields and a load, in parts of the line.
        ecns, load = rates[number * len(rates) // PACKETS]
        ecn, length = draw.choice(ecns), draw.choice((100, 600, 1200, 1514))
        events.append(f"{now}:{ecn}:{length}")
        if not waits:
            dual.credit = dual.initial
        (dual.lq if ecn % 2 else dual.cq).append((number, now, ecn, length))
        if due is None:
            due = now + int(TUPDATE * 1e9)
        number += 1
        arrival = now + 1 + int(draw.expovariate(load / (length * 1000)))
    return f"{step} {ramp} {protection} {coupling} | {' '.join(events)}"


MIXES = [
    [((0, 1), 1.2), ((0, 1, 2, 3), 0.7), ((1,), 1.1)],
    [((0, 2), 1.6), ((1,), 0.9), ((0, 1), 2.5)],
    [((1, 1, 0), 3.0), ((0, 1, 2), 0.8), ((2,), 1.3)],
]
for seed, (step, ramp, protection, coupling) in enumerate(
    [(1000, 0, 10, 2), (800, 400, 10, 2), (5000, 20000, 25, 2), (1000, 0, 50, 3), (800, 400, 0, 1)]
):
    for at, mix in enumerate(MIXES):
        print(run(f"{seed} {at}", step, ramp, protection, coupling, mix))
