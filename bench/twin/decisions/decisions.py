"""Compares the decisions of Linux's qdiscs with Weir's, packet by packet.

    decisions.py DIR WEIR [--again] [--spread N] [CASE...]

DIR is what ../build.sh made, WEIR the program; with `--again` only Weir runs, beside what the kernel
did in the run before. With `--spread N` the kernel runs each case N times, each with random numbers of its
own, and Weir with N seeds; drops and marks of all are printed, and no goal counts. Each case is a tc script and packets with their times.
The kernel runs it in an emulated machine whose clock counts instructions; Weir reads the same script
with `weir import tc` and replays the same packets, at the times at which the kernel was given them,
with `weir replay`. Prints for each case the part of places in the order of departures that hold a
packet of the same flow, whether the whole order of flows is equal, how far departures are apart, drops and marks;
exits 1 if a goal is missed, 2 if something could not be run.
"""

import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
CONSOLE = "console.txt"
MS = 1_000_000
LINE = 3_000_000
# Cases of schedulers are as many times slower, so that what the kernel takes for a packet or to wake
# up, some microseconds, seldom lies between two events. Those that draw at random run as they are.
SLOW = 50
# Ports from here on have ECT(0), as in paced.c.
ECT_FROM = 6000


@dataclass
class Flow:
    """Packets to one port, at random times: their mean rate in bit/s, and their lengths."""

    port: int
    rate: float
    lengths: tuple = (1514,)
    start: float = 0.0
    stop: float = 1e9
    # The traffic class, and the last parts of the addresses.
    tos: int = 0
    source: int = 1
    target: int = 2


@dataclass
class Case:
    """A script for v0, and what is sent. Rates and times are those before it is slowed."""

    name: str
    script: str
    flows: list
    # The qdisc shapes by itself, on a device that takes no time; else the device has LINE bit/s.
    shapes: bool = False
    # Least part of places with the same flow; None where only drops or rates are compared.
    places: float | None = 0.99
    # The whole order is equal.
    equal: bool = False
    # Most difference of drops, as a part of the kernel's.
    drops: float | None = None
    # Most difference of a flow's share of what was sent, in points; where drops are compared only if set.
    shares: float | None = None
    # Most difference of marks, as a part of the kernel's.
    marks: float | None = None
    seconds: float = 30.0
    slow: int = SLOW
    # Most that departures are apart, in ms; None where packets that one drops move all others.
    apart: float | None = None
    # Why the case has no goal of its own.
    no_goal: str = ""
    # Lines that only the kernel gets, before the script.
    kernel: str = ""
    # Each packet leaves with the same DSCP.
    codes: bool = False
    # What is replaced in the policy: texts and their replacements.
    policy: tuple = ()
    # Which of several runs it is.
    run: int = 0

    def label(self):
        """The name of the run."""
        return f"{self.name}@{self.run}" if self.run else self.name

    def slowed(self):
        """The script with lower rates and longer times."""
        units = {"kbit": 1000, "mbit": 1_000_000}
        rate = lambda found: f"{int(found[1]) * units[found[2]] // self.slow}bit"
        script = re.sub(r"\b(\d+)([km]bit)\b", rate, self.script)
        times = lambda found: f"{found[1]} {int(found[2]) * self.slow}ms"
        return re.sub(r"\b(d|target|interval|rtt|refill_delay|ce_threshold) (\d+)ms\b", times, script)


def by_port(handle, *classes):
    """Filters that lead ports 5001, 5002, ... to the classes."""
    return "".join(
        f"filter add dev v0 parent {handle} protocol ip prio 1 u32 match ip dport {5001 + at} 0xffff flowid {klass}\n"
        for at, klass in enumerate(classes)
    )


def caught(handle, klass):
    """The filter that leads all else to a class, which the kernel would drop and Weir give a class of its own."""
    return f"filter add dev v0 parent {handle} protocol all prio 9 u32 match u32 0 0 flowid {klass}\n"


def deep(*classes):
    """Queues without end at the leaves, so that only the scheduler decides."""
    return "".join(
        f"qdisc add dev v0 parent {klass} handle {10 + at}: pfifo limit 60000\n" for at, klass in enumerate(classes)
    )


MIXED = (64, 200, 576, 1000, 1514)


def cakes(on_and_off, sparse):
    """CAKE: its flows, hosts and tins, by itself, under a device with a line, and below a class.

    The kernel rounds quanta at random, by a byte now and then. So lengths are such that no flow is
    ever within some bytes of the end of its quantum: of 300 bytes, or of a part of it with hosts. Times are
    mostly 20 times slower, since the kernel computes intervals in 32 bits. Where memory is full BLUE drops at random,
    so but for one case there is enough."""
    shaped = "qdisc add dev v0 root handle 1: cake bandwidth 3mbit rtt 80ms {}\n"
    slower = shaped.replace("80ms", "60ms memlimit 32mb")
    fast = shaped.replace("3mbit", "12mbit").replace("80ms", "160ms")
    lined = "qdisc add dev v0 root handle 1: cake rtt 80ms {}\n"
    below = "qdisc add dev v0 root handle 1: htb default 10\nclass add dev v0 parent 1: classid 1:10 htb rate 3mbit ceil 3mbit\n"
    below += "qdisc add dev v0 parent 1:10 handle 10: cake unlimited rtt 80ms besteffort flows\n"
    even, thirds = (100, 200, 600, 1000, 1400), (300, 600, 900, 1200, 1500)
    six = lambda rate, **more: [Flow(p, rate, even, **more) for p in range(5001, 5007)]
    ect = [Flow(p, 7e5, even, tos=p % 2 * 2) for p in range(5001, 5007)]
    # A host with five flows beside one with two and one with one; pairs of hosts.
    hosts = [Flow(5001 + at, 6e5, thirds, source=source) for at, source in enumerate([1, 1, 1, 1, 1, 3, 3, 4])]
    pairs = [Flow(5001 + at, 6e5, thirds, source=1 + at % 3, target=10 + at % 2) for at in range(6)]
    # Most DSCPs once, and some that send more than their tin's part; then each DSCP.
    codes = [0, 1, 4, 8, 10, 16, 18, 24, 26, 32, 34, 40, 44, 46, 48, 56]
    coded = [Flow(5001 + at, 1.6e5, even, tos=code << 2) for at, code in enumerate(codes)]
    coded += [Flow(5031, 2e6, even), Flow(5032, 1.2e6, even, tos=46 << 2), Flow(5033, 1.2e6, even, tos=8 << 2)]
    all_codes = [Flow(5001 + code, 6e4, (200, 1000), tos=code << 2) for code in range(64)]
    burst = [Flow(5001, 2e7, (1500,), start=1.0 + n * 2, stop=1.15 + n * 2) for n in range(4)]
    burst += [Flow(p, 4e5, even) for p in (5002, 5003, 5004)]
    trains = [Flow(5001, 1e7, (1000,), start=1.0 + n / 10, stop=1.03 + n / 10) for n in range(60)]
    hungry = [Flow(5001, 4e6, (1000,)), Flow(5002, 1.4e6, (1000,)), Flow(5003, 1e5, (200,))]
    returns = [Flow(f.port, f.rate, even, f.start, f.stop) for f in on_and_off]
    of = lambda name, script, flows, **more: Case(f"cake-{name}", script, flows, **{"places": 0.999, "seconds": 8, "drops": 0.01, "marks": 0.01, "slow": 20} | more)
    shapes = {"shapes": True}
    return [
        of("one", shaped.format("besteffort flows"), [Flow(5001, 4e6, MIXED)], **shapes),
        of("flows", shaped.format("besteffort flows"), six(7e5), **shapes),
        of("sparse", shaped.format("besteffort flows"), [Flow(f.port, f.rate * 1.1, even if f.rate > 1e6 else (200,)) for f in sparse], **shapes),
        of("ecn", shaped.format("besteffort flows"), ect, **shapes),
        of("returns", shaped.format("besteffort flows"), returns, **shapes),
        of("bursts", shaped.format("besteffort flows"), burst, **shapes),
        of("blind", shaped.format("besteffort flowblind"), ect, **shapes),
        of("sources", shaped.format("besteffort dual-srchost"), hosts, **shapes),
        of("targets", shaped.format("besteffort dual-dsthost"), pairs, **shapes),
        of("triple", shaped.format("besteffort triple-isolate"), pairs, **shapes),
        of("hosts", shaped.format("besteffort hosts"), pairs, **shapes),
        # Pauses are far from the usual one, so that microseconds end no window.
        of("autorate", shaped.replace("3mbit", "1mbit").format("besteffort flows autorate-ingress"), trains, **shapes),
        of("precedence", slower.format("precedence flows"), coded, slow=50, **shapes),
        of("diffserv3", shaped.format("diffserv3 flows"), coded, **shapes),
        of("diffserv4", shaped.format("diffserv4 flows"), coded, **shapes),
        of("diffserv8", slower.format("diffserv8 flows"), coded, slow=50, **shapes),
        of("codes", shaped.format("diffserv8 flows wash"), all_codes, **shapes),
        of("atm", fast.format("besteffort flowblind overhead 44 atm"), six(2.4e6), seconds=3, **shapes),
        of("line", lined.format("diffserv4 flows"), coded, slow=50, seconds=2),
        of("line-flows", lined.format("besteffort flows"), six(6e5)),
        of("below-htb", below, six(7e5), slow=50, **shapes),
        # Whom BLUE hits is drawn at random.
        of("full", shaped.format("besteffort flows memlimit 100kb"), hungry, **shapes | {"places": None}),
    ]


def fqs(on_and_off, sparse):
    """Linux's fq: turns on a device with a line, and flows with a largest rate on one that takes no time, on one with
    a line, and below a band. Hashes do not collide."""
    fq = "fq {} refill_delay 40ms orphan_mask 65535 {}"
    root = lambda limits, more="": f"qdisc add dev v0 root handle 1: {fq.format(limits, more)}\n"
    wide = "limit 60000 flow_limit 60000"
    five = lambda rate, first=5001: [Flow(p, rate, MIXED) for p in range(first, first + 5)]
    band = "qdisc add dev v0 root handle 1: prio bands 3\n" + by_port("1:", "1:1", "1:3", "1:2", "1:2", "1:2")
    band += f"qdisc add dev v0 parent 1:2 handle 30: {fq.format(wide, 'maxrate 500kbit low_rate_threshold 100kbit')}\n"
    of = lambda name, script, flows, **more: Case(f"fq-{name}", script, flows, **{"places": 0.999, "seconds": 8} | more)
    return [
        of("turns", root(wide), five(7e5)),
        of("sparse", root(wide), sparse),
        of("returns", root(wide), on_and_off),
        of("limits", root("limit 300 flow_limit 100"), five(8e5), drops=0.01),
        of("marks", root(wide, "ce_threshold 20ms"), five(7e5, 6001), marks=0.01),
        # The kernel counts `refill_delay` in ticks of 4 ms.
        of("paced", root(wide, "maxrate 600kbit low_rate_threshold 100kbit"), five(7e5), shapes=True),
        of("paced-low", root(wide, "maxrate 500kbit low_rate_threshold 550kbit"), five(6e5), shapes=True),
        of("paced-line", root(wide, "maxrate 900kbit low_rate_threshold 100kbit"), five(1e6)),
        of("paced-returns", root(wide, "maxrate 1500kbit low_rate_threshold 100kbit"), on_and_off),
        of("paced-below", band, [Flow(5001, 4e5, (200,)), Flow(5002, 1.5e6, MIXED), *(Flow(p, 6e5, MIXED) for p in (5003, 5004, 5005))]),
    ]


def greds():
    """GRED with three virtual queues, alone, by priority, and with one average. A filter of the hook behind
    the sockets sets the mark that chooses a queue; Weir chooses by the precedence."""
    hook = "qdisc add dev v0 clsact\n" + "".join(
        f"filter add dev v0 egress protocol ip prio 1 u32 match ip tos {n << 5:#x} 0xe0 classid 1:{n}\n" for n in (1, 2, 3)
    )
    def script(setup, priorities, flags=""):
        text = f"qdisc add dev v0 root handle 1: gred setup vqs 4 default 1 {setup}\n"
        rows = zip((1, 2, 3), ((20, 60, 0.02), (15, 45, 0.05), (10, 30, 0.1)), priorities)
        return text + "".join(
            f"qdisc change dev v0 root handle 1: gred vq {n} limit 200kb min {low}kb max {high}kb avpkt 1000 burst 50 "
            f"probability {part} bandwidth 3mbit prio {priority}{flags}\n"
            for n, (low, high, part), priority in rows
        )
    flows = lambda ecn: [Flow(5000 + n, 1.25e6, (1014,), tos=n << 5 | ecn) for n in (1, 2, 3)]
    of = lambda name, text, ecn=0, **more: Case(name, text, flows(ecn), places=None, drops=0.01, shares=1.0, seconds=120, slow=1, kernel=hook, **more)
    return [
        of("gred", script("", (1, 2, 3))),
        of("gred-rio", script("grio", (1, 2, 3))),
        of("gred-wred", script("grio", (1, 1, 2))),
        of("gred-marks", script("", (1, 2, 3), " ecn"), 2, marks=0.01),
    ]


def cases():
    # As `weir export tc` writes rules with `set_dscp`, `pcp` and `tcp_flags`: the kernel has to take each line.
    dscp = """qdisc add dev v0 root handle 1: htb default 4
class add dev v0 parent 1: classid 1:1 htb rate 3mbit ceil 3mbit
class add dev v0 parent 1:1 classid 1:2 htb rate 1mbit ceil 3mbit prio 0 quantum 3028
class add dev v0 parent 1:1 classid 1:3 htb rate 1mbit ceil 3mbit prio 0 quantum 3028
class add dev v0 parent 1:1 classid 1:4 htb rate 1mbit ceil 3mbit prio 0 quantum 3028
""" + deep("1:2", "1:3", "1:4") + """filter add dev v0 parent 1: protocol ip prio 1 flower ip_proto udp dst_port 5001 action pedit ex munge ip dsfield set 0xb8 retain 0xfc pipe action csum ip4h classid 1:2
filter add dev v0 parent 1: protocol 802.1Q prio 2 flower vlan_prio 5 vlan_ethtype ip action pedit ex munge ip dsfield set 0x88 retain 0xfc pipe action csum ip4h classid 1:2
filter add dev v0 parent 1: protocol ip prio 3 flower ip_proto tcp tcp_flags 0x10/0x10 classid 1:2
filter add dev v0 parent 1: protocol ip prio 4 flower ip_proto udp dst_port 5002 action pedit ex munge ip dsfield set 0x20 retain 0xfc pipe action csum ip4h classid 1:3
filter add dev v0 parent 1: protocol ipv6 prio 5 flower ip_proto udp dst_port 5002 action pedit ex munge ip6 traffic_class set 0x20 retain 0xfc classid 1:3
"""

    def two(rate, **more):
        return [Flow(5001, rate, **more), Flow(5002, rate, **more)]

    htb = """qdisc add dev v0 root handle 1: htb default 20
class add dev v0 parent 1: classid 1:1 htb rate 3mbit ceil 3mbit
class add dev v0 parent 1:1 classid 1:10 htb rate 2mbit ceil 3mbit quantum 3028
class add dev v0 parent 1:1 classid 1:20 htb rate 1mbit ceil 3mbit quantum 1514
""" + by_port("1:", "1:10", "1:20") + deep("1:10", "1:20")
    prio = """qdisc add dev v0 root handle 1: htb default 20
class add dev v0 parent 1: classid 1:1 htb rate 3mbit ceil 3mbit
class add dev v0 parent 1:1 classid 1:10 htb rate 500kbit ceil 3mbit prio 0 quantum 1514
class add dev v0 parent 1:1 classid 1:20 htb rate 1mbit ceil 3mbit prio 1 quantum 1514
class add dev v0 parent 1:1 classid 1:30 htb rate 1mbit ceil 2mbit prio 2 quantum 1514
""" + by_port("1:", "1:10", "1:20", "1:30") + deep("1:10", "1:20", "1:30")
    bursts = htb.replace("rate 2mbit ceil 3mbit", "rate 2mbit ceil 3mbit burst 15k cburst 6k")
    nested = """qdisc add dev v0 root handle 1: htb default 20
class add dev v0 parent 1: classid 1:1 htb rate 3mbit ceil 3mbit
class add dev v0 parent 1:1 classid 1:2 htb rate 2mbit ceil 3mbit
class add dev v0 parent 1:2 classid 1:10 htb rate 1500kbit ceil 2500kbit quantum 3000
class add dev v0 parent 1:2 classid 1:20 htb rate 500kbit ceil 3mbit quantum 1514
class add dev v0 parent 1:1 classid 1:30 htb rate 1mbit ceil 3mbit quantum 1514
""" + by_port("1:", "1:10", "1:20", "1:30") + deep("1:10", "1:20", "1:30")
    hfsc = """qdisc add dev v0 root handle 1: hfsc default 20
class add dev v0 parent 1: classid 1:1 hfsc sc rate 3mbit ul rate 3mbit
class add dev v0 parent 1:1 classid 1:10 hfsc ls rate 2mbit
class add dev v0 parent 1:1 classid 1:20 hfsc ls rate 1mbit
""" + by_port("1:", "1:10", "1:20") + deep("1:10", "1:20")
    curves = """qdisc add dev v0 root handle 1: hfsc default 20
class add dev v0 parent 1: classid 1:1 hfsc ls rate 3mbit ul rate 3mbit
class add dev v0 parent 1:1 classid 1:10 hfsc rt m1 2mbit d 10ms m2 500kbit ls rate 500kbit
class add dev v0 parent 1:1 classid 1:20 hfsc ls rate 1500kbit ul rate 2mbit
class add dev v0 parent 1:1 classid 1:30 hfsc ls rate 1mbit
""" + by_port("1:", "1:10", "1:20", "1:30") + deep("1:10", "1:20", "1:30")
    # Leaves and a class above them that idle and return, with all kinds of curves, and limits above
    # and below.
    returns = """qdisc add dev v0 root handle 1: hfsc default 20
class add dev v0 parent 1: classid 1:1 hfsc ls rate 3mbit ul rate 3mbit
class add dev v0 parent 1:1 classid 1:2 hfsc ls rate 2mbit
class add dev v0 parent 1:2 classid 1:10 hfsc ls rate 1500kbit
class add dev v0 parent 1:2 classid 1:20 hfsc ls rate 500kbit
class add dev v0 parent 1:1 classid 1:30 hfsc ls rate 1mbit
""" + by_port("1:", "1:10", "1:20", "1:30") + deep("1:10", "1:20", "1:30")
    bent = """qdisc add dev v0 root handle 1: hfsc default 20
class add dev v0 parent 1: classid 1:1 hfsc ls rate 3mbit ul rate 3mbit
class add dev v0 parent 1:1 classid 1:10 hfsc rt m1 1500kbit d 20ms m2 500kbit ls m1 2mbit d 30ms m2 500kbit
class add dev v0 parent 1:1 classid 1:20 hfsc rt m1 0bit d 30ms m2 800kbit ls m1 100kbit d 50ms m2 1mbit
class add dev v0 parent 1:1 classid 1:30 hfsc sc rate 600kbit
""" + by_port("1:", "1:10", "1:20", "1:30") + deep("1:10", "1:20", "1:30")
    limits = """qdisc add dev v0 root handle 1: hfsc default 20
class add dev v0 parent 1: classid 1:1 hfsc ls rate 3mbit ul rate 3mbit
class add dev v0 parent 1:1 classid 1:2 hfsc ls rate 2mbit ul rate 1800kbit
class add dev v0 parent 1:2 classid 1:10 hfsc ls rate 1mbit ul m1 1500kbit d 40ms m2 800kbit
class add dev v0 parent 1:2 classid 1:20 hfsc ls rate 1mbit ul rate 1900kbit
class add dev v0 parent 1:1 classid 1:30 hfsc ls rate 500kbit ul rate 1mbit
class add dev v0 parent 1:1 classid 1:40 hfsc rt rate 200kbit ls rate 200kbit
""" + by_port("1:", "1:10", "1:20", "1:30", "1:40")
    shallow = "".join(f"qdisc add dev v0 parent 1:{n} handle {n}: pfifo limit 40\n" for n in (10, 20, 30, 40))
    qfq = """qdisc add dev v0 root handle 1: qfq
class add dev v0 parent 1: classid 1:10 qfq weight 2
class add dev v0 parent 1: classid 1:20 qfq weight 1
class add dev v0 parent 1: classid 1:30 qfq weight 5
""" + by_port("1:", "1:10", "1:20", "1:30") + caught("1:", "1:30") + deep("1:10", "1:20", "1:30")
    # Nine of a kind are more than an aggregate holds; others have longer packets than they say.
    aggregates = "qdisc add dev v0 root handle 1: qfq\n" + "".join(
        f"class add dev v0 parent 1: classid 1:{10 + at} qfq weight {weight} {longest}\n"
        for at, (weight, longest) in enumerate([(3, "")] * 9 + [(7, "maxpkt 600"), (7, "maxpkt 600"), (40, "")])
    )
    many = [f"1:{10 + at}" for at in range(12)]
    aggregates += by_port("1:", *many) + caught("1:", "1:10") + deep(*many)
    drr = """qdisc add dev v0 root handle 1: drr
class add dev v0 parent 1: classid 1:10 drr quantum 3028
class add dev v0 parent 1: classid 1:20 drr quantum 1514
""" + by_port("1:", "1:10", "1:20") + deep("1:10", "1:20")
    ets = "qdisc add dev v0 root handle 1: ets strict 1 quanta 3028 1514 600\n" + by_port("1:", "1:1", "1:2", "1:3", "1:4")
    ets += deep("1:1", "1:2", "1:3", "1:4")
    bands = "qdisc add dev v0 root handle 1: prio bands 3\n" + by_port("1:", "1:1", "1:2", "1:3")
    tbf = "qdisc add dev v0 root handle 1: tbf rate 3mbit burst 10kb limit 30mb\n"
    sfq = "qdisc add dev v0 root handle 1: sfq quantum 1514\n"
    fair = "qdisc add dev v0 root handle 1: fq_codel flows 16384 target 5ms interval 100ms\n"
    below = ["1:1", "1:2", *["1:3"] * 5]
    under = "qdisc add dev v0 root handle 1: prio bands 3\n" + by_port("1:", *below)
    under += "qdisc add dev v0 parent 1:3 handle 30: {}\n"
    red = "qdisc add dev v0 root handle 1: red limit 300kb min 30kb max 90kb avpkt 1000 burst 50 probability 0.1 bandwidth 3mbit\n"
    codel = "qdisc add dev v0 root handle 1: codel limit 1000 target 5ms interval 100ms\n"
    pie = "qdisc add dev v0 root handle 1: pie limit 1000 target 15ms tupdate 15ms\n"
    choke = "qdisc add dev v0 root handle 1: choke limit 300 min 20 max 60 burst 40 bandwidth 3mbit"
    sfb = "qdisc add dev v0 root handle 1: sfb limit 300 increment 0.005 decrement 0.0005\n"
    # Its timer walks through all flows and holds up packets meanwhile, longer than the line forgives where they
    # are many; so turns are compared with many flows and next to no steps, and steps with few flows.
    fq_pie_turns = "qdisc add dev v0 root handle 1: fq_pie flows 16384 target 4000ms tupdate 1000s\n"
    fq_pie = "qdisc add dev v0 root handle 1: fq_pie flows 256 target 15ms {}\n"
    # A step of 15 ms is one of 20 ms in a kernel of 250 Hz: 4 ticks, and one by which the timer wheel rounds up.
    steps = (('dropper = "fq-pie"', 'dropper = "fq-pie", update = "20 ms"'),)
    # With the default seed two of the flows share a queue in Weir.
    seeded = (*steps, ("[link]", "[link]\nseed = 2"))
    uneven = [Flow(5001, 2e6, (1014,)), *(Flow(p, 6e5, (1014,)) for p in (5002, 5003, 5004))]
    capable = [Flow(p + 1000, f.rate, f.lengths) for f, p in zip(uneven, (5001, 5002, 5003, 5004))]
    three = [Flow(5001, 4e5, (200,)), Flow(5002, 3e6, MIXED), Flow(5003, 3e6, MIXED)]
    on_off = [Flow(5001, 3e6, MIXED, stop=10.0), Flow(5002, 3e6, MIXED, start=5.0), Flow(5003, 1e6, MIXED)]
    # Each sends for some time and then pauses, all in their own rhythm.
    on_and_off = [
        Flow(5001 + at, rate, lengths, start=n * (0.5 + 0.13 * at), stop=n * (0.5 + 0.13 * at) + 0.2 + 0.07 * at)
        for at, (rate, lengths) in enumerate([(4e6, MIXED), (3e6, MIXED), (2.5e6, (1514,)), (1e6, (200,))])
        for n in range(60)
    ]
    sparse = [Flow(p, 1.2e6, MIXED) for p in (5003, 5004)] + [Flow(p, 5e4, (200,)) for p in range(5005, 5021)]
    full = [Flow(5001, 2e5, (200,)), *(Flow(p, 1.1e6, MIXED) for p in range(5003, 5006)), Flow(5006, 1e5, (200,))]
    fq_codel = "fq_codel flows 16384 target 5ms interval 100ms"
    limited = "fq_codel limit 60 flows 16384 target 2000ms interval 9000ms"
    at_three = "qdisc add dev v0 root handle 1: prio bands 3\n" + by_port("1:", "1:1", "1:2", *["1:3"] * 18)
    at_three += "qdisc add dev v0 parent 1:3 handle 30: {}\n"
    at_two = "qdisc add dev v0 root handle 1: prio bands 3\n" + by_port("1:", "1:1", "1:3", *["1:2"] * 5)
    at_two += "qdisc add dev v0 parent 1:2 handle 30: fq_codel flows 16384\n"
    return [
        Case("idle", "qdisc add dev v0 root handle 1: pfifo limit 1000\n", [Flow(5001, 3e5)], shapes=True, equal=True, slow=1),
        Case("htb-equal", htb, two(2.5e6), shapes=True, equal=True, places=0.999),
        Case("htb-mixed", htb, two(2.5e6, lengths=MIXED), shapes=True, places=0.999),
        Case("htb-bursts", bursts, two(2.5e6, lengths=MIXED), shapes=True, places=0.999),
        Case("htb-prio", prio, three, shapes=True, places=0.999),
        Case("htb-deep", nested, on_off, shapes=True, places=0.999),
        Case("hfsc-equal", hfsc, two(2.5e6), shapes=True, equal=True, places=0.995),
        Case("hfsc-mixed", hfsc, two(2.5e6, lengths=MIXED), shapes=True, places=0.995),
        Case("hfsc-curves", curves, three, shapes=True, places=0.995),
        Case("hfsc-returns", returns, on_and_off[:180], shapes=True, places=0.999, seconds=10),
        Case("hfsc-bent", bent, on_and_off[:180], shapes=True, places=0.999, seconds=10),
        Case("hfsc-limits", limits + deep("1:10", "1:20", "1:30", "1:40"), on_and_off, shapes=True, places=0.999, seconds=10),
        Case("hfsc-drops", limits + shallow, on_and_off, shapes=True, places=0.999, seconds=10),
        Case("qfq", qfq, three, places=0.999, seconds=8),
        Case("qfq-equal", qfq, [Flow(p, 2e6) for p in (5001, 5002, 5003)], places=0.999, seconds=8),
        Case("qfq-aggregates", aggregates, [Flow(5001 + at, 4e5, MIXED) for at in range(12)], places=0.999, seconds=8),
        Case("tbf-drops", tbf.replace("30mb", "30kb"), two(2e6, lengths=MIXED), shapes=True, places=0.999, seconds=8),
        Case("tbf-latency", tbf.replace("10kb limit 30mb", "4kb latency 400ms"), two(2e6), shapes=True, places=0.999, seconds=8),
        Case("tbf-fq-codel", tbf.replace("30mb", "60kb") + "qdisc add dev v0 parent 1:1 handle 10: fq_codel flows 16384 target 5ms interval 100ms\n", [Flow(p, 8e5, MIXED) for p in range(5001, 5006)], shapes=True, places=0.999, seconds=8),
        Case("prio-sparse", at_three.format(fq_codel), sparse, places=0.999, seconds=8),
        Case("prio-full", at_three.format(limited), full, places=0.999, seconds=8),
        Case("prio-middle", at_two, [Flow(5001, 4e5, (200,)), Flow(5002, 1.5e6, MIXED), *(Flow(p, 4e5, MIXED) for p in range(5003, 5006))], places=0.999, seconds=8),
        Case("fq-codel-sparse", "qdisc add dev v0 root handle 1: fq_codel flows 16384\n", sparse, places=0.999, seconds=8),
        Case("fq-codel-full", f"qdisc add dev v0 root handle 1: {limited}\n", full, places=0.999, seconds=8),
        Case("drr-equal", drr, two(2.5e6), equal=True, places=0.999),
        Case("drr-mixed", drr, two(2.5e6, lengths=MIXED), places=0.999),
        Case("ets-equal", ets, [Flow(5001, 5e5), *(Flow(p, 1.2e6) for p in (5002, 5003, 5004))], places=0.999, seconds=10),
        Case("ets-mixed", ets, [Flow(5001, 5e5, (200,)), *(Flow(p, 1.2e6, MIXED) for p in (5002, 5003, 5004))], places=0.999, seconds=10),
        Case("ets-returns", ets, on_and_off, places=0.999, seconds=10),
        Case("prio", bands + deep("1:1", "1:2", "1:3"), three),
        Case("tbf", tbf, two(2e6, lengths=MIXED), shapes=True, equal=True, apart=0.1),
        Case("sfq-under-prio", under.format("sfq quantum 1514"), [Flow(5001, 4e5, (200,)), *(Flow(p, 7e5, MIXED) for p in range(5003, 5008))]),
        Case("fq-codel-under-prio", under.format("fq_codel flows 16384 target 5ms interval 100ms"), [Flow(5001, 4e5, (200,)), *(Flow(p, 6e5, MIXED) for p in range(5003, 5008))]),
        Case("sfq", sfq, [Flow(p, 8e5, MIXED) for p in range(5001, 5006)]),
        Case("fq-codel", fair, [*(Flow(p, 7e5, MIXED) for p in range(5001, 5006)), Flow(5001, 6e6, stop=0.3)], places=0.999),
        Case("dscp", dscp, [Flow(5001, 1e6, tos=2), Flow(5002, 2e6, tos=0x49), Flow(5003, 1e6, tos=0x28)], shapes=True, places=0.999, seconds=5, codes=True),
        *cakes(on_and_off, sparse),
        *fqs(on_and_off, sparse),
        Case("red", red, two(1.8e6, lengths=(1014,)), places=None, drops=0.01, seconds=120, slow=1),
        Case("codel", codel, two(1.7e6, lengths=(1014,)), seconds=60),
        # Bursts, and a trickle that finds the queue empty while the average is still high. Linux starts a
        # pause when the queue is asked for a packet and has none, which a class above it never does; so
        # it drops some more, and the goal is wider.
        Case("red-pauses", red, [Flow(5001, 1e5, (1014,))] + [
            Flow(5002, 12e6, (1014,), start=cycle * 12 + 1, stop=cycle * 12 + 3) for cycle in range(10)
        ], places=None, drops=0.03, seconds=120, slow=1),
        Case("choke", choke + "\n", uneven, places=None, drops=0.01, shares=1.0, seconds=120, slow=1),
        # Flows of which two packets seldom meet, since of those that do both are dropped.
        Case("choke-marks", choke + " ecn\n", [Flow(6001 + at, 1.25e5, (1014,)) for at in range(30)], places=None, drops=0.01, marks=0.01, shares=1.0, seconds=120, slow=1),
        # By as much as runs of the kernel, and seeds of Weir, differ among themselves.
        Case("sfb", sfb, uneven, places=None, drops=0.03, shares=1.0, seconds=120, slow=1),
        Case("sfb-even", sfb, [Flow(p, 5e5, (1014,)) for p in range(5001, 5008)], places=None, drops=0.03, shares=1.0, seconds=120, slow=1),
        Case("sfb-marks", sfb, capable, places=None, drops=0.01, marks=0.03, shares=1.0, seconds=120, slow=1),
        Case("fq-pie-turns", fq_pie_turns, [Flow(p, 7e5, MIXED) for p in range(5001, 5006)], places=0.999, equal=True, seconds=8),
        Case("fq-pie-sparse", fq_pie_turns, sparse, places=0.999, equal=True, seconds=8),
        Case("fq-pie", fq_pie.format(""), [Flow(p, 8e5, MIXED) for p in range(5001, 5006)], places=None, drops=0.01, shares=1.0, seconds=120, slow=1, policy=steps),
        Case("fq-pie-marks", fq_pie.format("ecn ecn_prob 50"), [Flow(p, 7e5, MIXED) for p in range(6001, 6006)], places=None, drops=0.03, marks=0.2, shares=1.0, seconds=120, slow=1, policy=seeded),
        *greds(),
        Case("pie", pie, two(1.7e6, lengths=(1014,)), places=None, drops=0.01, seconds=480, slow=1),
    ]


def arrivals(case):
    """The packets of a case, in the order of their times: (ns, port, length, class, source, target)."""
    rows = []
    for flow in case.flows:
        draw = random.Random(f"{case.name} {flow.port}")
        at = flow.start
        while at < min(case.seconds, flow.stop):
            length = draw.choice(flow.lengths)
            rows.append((int(at * case.slow * 1e9), flow.port, length, flow.tos or 2 * (flow.port >= ECT_FROM), flow.source, flow.target))
            at += draw.expovariate(flow.rate / (length * 8))
    return sorted(rows)


def boot(folder, chosen):
    """Boots the guest once with the cases; keeps what it prints."""
    guest = folder / "ird"
    subprocess.run(["gcc", "-O2", "-Wall", "-static", "-o", guest / "bin/paced", HERE / "paced.c"], check=True)
    modules = next((folder / "unpacked/lib/modules").glob("*/kernel"))
    for name in ("sch_hfsc", "sch_tbf", "sch_codel", "sch_pie", "sch_fq_codel", "sch_ets", "sch_choke", "sch_fq_pie", "sch_sfb", "sch_cake", "sch_fq", "sch_gred", "sch_ingress", "act_pedit", "act_csum", "libcrc32c"):
        for module in modules.rglob(f"{name}.ko"):
            shutil.copy(module, guest / "mod")
    shutil.copy(folder / "line/line.ko", guest / "mod")
    shutil.copy(HERE / "init", guest / "init")
    (guest / "init").chmod(0o755)
    scripts = guest / "scripts"
    shutil.rmtree(scripts, ignore_errors=True)
    scripts.mkdir()
    for number, case in enumerate(chosen):
        base = scripts / f"{number:02}-{case.label()}"
        base.with_suffix(".tc").write_text(case.kernel + case.slowed())
        base.with_suffix(".rate").write_text(str(0 if case.shapes else LINE // case.slow))
        rows = arrivals(case)
        base.with_suffix(".packets").write_text("".join("%d %d %d %d %d %d\n" % row for row in rows))
    environment = os.environ | {"WEIR_TWIN_SHIFT": "1", "WEIR_TWIN_SECONDS": "5400"}
    booted = subprocess.run([HERE.parent / "boot.sh", folder], capture_output=True, text=True, env=environment)
    (folder / CONSOLE).write_text(booted.stdout + booted.stderr)
    if booted.returncode:
        raise SystemExit(f"the guest ended with {booted.returncode}: {folder / CONSOLE}")


def read_console(text):
    """Returns for each case the times at which packets came and left in the guest, and their classes."""
    found, rows, name = {}, None, None
    for line in text.replace("\r", "").splitlines():
        if "== " in line:
            name = line.split("== ", 1)[1].partition("-")[2]
            rows = found.setdefault(name, []) if name else None
            said = ""
        elif line == "--":
            if said:
                raise SystemExit(f"{name}: tc says: {said}")
            said = None
        elif rows is not None and said is not None:
            said += line
        elif rows is not None and line.count(" ") == 2:
            rows.append(tuple(int(word) for word in line.split()))
    return found


def write_capture(path, rows, times):
    """A capture with the frames that `paced` sends, at the times at which the kernel got them."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for number, ((_, port, length, tos, source, target), at) in enumerate(zip(rows, times)):
            hosts = 0x0A000000 + source, 0x0A000000 + target
            ip = struct.pack(">BBHHHBBHII", 0x45, tos, length - 14, 0, 0, 64, 17, 0, *hosts)
            udp = struct.pack(">HHHH", 1000, port, length - 34, 0)
            frame = (b"\2" * 12 + b"\x08\0" + ip + udp + struct.pack("<I", number)).ljust(length, b"\0")
            seconds, nanos = divmod(at, 10**9)
            out.write(struct.pack("<IIII", 10**9 + seconds, nanos, length, length) + frame)


def read_departures(path):
    """Numbers of the frames of a pcapng file in their order, with their times in ns and classes."""
    data, at, found, unit = path.read_bytes(), 0, [], 1000
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 1:
            options = data[at + 16 : at + length - 4]
            while len(options) >= 4:
                code, size = struct.unpack_from("<HH", options)
                if code == 9:
                    unit = 10 ** (9 - options[4])
                options = options[4 + (size + 3) // 4 * 4 :]
        if kind == 6:
            high, low = struct.unpack_from("<II", data, at + 12)
            (number,) = struct.unpack_from("<I", data, at + 28 + 42)
            found.append((number, ((high << 32 | low) * unit) - 10**18, data[at + 28 + 15]))
        at += length
    return found


def run_weir(weir, case, rows, times, folder):
    script, capture, policy, sent = (folder / name for name in ("case.tc", "case.pcap", "case.toml", "sent.pcapng"))
    script.write_text(case.slowed())
    write_capture(capture, rows, times)
    rate = "10 Gbit/s" if case.shapes else f"{LINE // case.slow} bit/s"
    imported = subprocess.run([weir, "import", "tc", script, "--rate", rate], capture_output=True, text=True)
    if imported.returncode:
        raise SystemExit(f"{case.name}: {imported.stderr}")
    text = imported.stdout
    # A device of the kernel has no rate of its own: only the qdisc's classes shape, or a cake, which is the link.
    if " cake bandwidth " not in case.script:
        lines = text.splitlines()
        lines = [f'rate = "{rate}"' if at and lines[at - 1] == "[link]" else line for at, line in enumerate(lines)]
        text = "\n".join(lines)
    for before, after in case.policy:
        if before not in text:
            raise SystemExit(f"{case.name}: the policy lacks {before}")
        text = text.replace(before, after)
    policy.write_text(text)
    sent.unlink(missing_ok=True)
    replayed = subprocess.run(
        [weir, "replay", policy, capture, "-o", sent, "--format", "json"], capture_output=True, text=True
    )
    if replayed.returncode:
        raise SystemExit(f"{case.name}: {replayed.stderr}{replayed.stdout[:2000]}")
    json.loads(replayed.stdout)
    return read_departures(sent)


def compare(case, rows, kernel, ours):
    """Prints a row; returns whether the goals are met."""
    theirs = sorted((departed, number) for number, (_, departed, _) in enumerate(kernel) if departed >= 0)
    order = [number for _, number in theirs]
    own = [number for number, _, _ in ours]
    flow = [port for _, port, *_ in rows]
    longest = max(len(order), len(own))
    same = sum(flow[a] == flow[b] for a, b in zip(order, own)) / longest
    exact = [flow[a] for a in order] == [flow[a] for a in own]
    left = {number: at for number, at, _ in ours}
    apart = [abs(left[number] - departed) / MS for departed, number in theirs if number in left]
    median, worst = statistics.median(apart), max(apart)
    drops = len(rows) - len(order), len(rows) - len(own)
    is_marked = lambda number, tos: rows[number][3] & 3 != 3 and tos & 3 == 3
    marks = sum(is_marked(n, kernel[n][2]) for n in order), sum(is_marked(n, tos) for n, _, tos in ours)
    washed = sum(rows[n][3] >> 2 != kernel[n][2] >> 2 for n in order), sum(rows[n][3] >> 2 != tos >> 2 for n, _, tos in ours)
    octets = [{port: 0 for port in set(flow)} for _ in range(2)]
    for sums, numbers in zip(octets, (order, own)):
        for number in numbers:
            sums[flow[number]] += rows[number][2]
    total = [sum(sums.values()) for sums in octets]
    points = max(abs(octets[0][p] / total[0] - octets[1][p] / total[1]) * 100 for p in set(flow))
    missed = []
    if case.places is not None and same < case.places:
        missed.append(f"places below {case.places:.1%}")
    if case.equal and not exact:
        missed.append("not equal")
    if case.drops is not None and abs(drops[1] - drops[0]) > case.drops * drops[0]:
        missed.append(f"drops over {case.drops:.0%} apart")
    shares = 0.1 if case.shares is None and case.drops is None else case.shares
    if shares is not None and points > shares:
        missed.append(f"shares over {shares} points apart")
    if case.codes and any(kernel[n][2] >> 2 != tos >> 2 for n, _, tos in ours):
        missed.append("code points differ")
    if (washed[0] > 0) != (washed[1] > 0):
        missed.append("only one washes")
    if case.marks is not None and abs(marks[1] - marks[0]) > case.marks * marks[0]:
        missed.append(f"marks over {case.marks:.0%} apart")
    if case.apart is not None and worst > case.apart:
        missed.append(f"departures over {case.apart} ms apart")
    if case.no_goal:
        missed = []
    said = case.no_goal or "holds"
    if missed:
        said = f"MISSED: {', '.join(missed)}"
    print(
        f"{case.name:<20} {len(rows):>6} {same:>8.2%} {'yes' if exact else 'no':>5} {median:>9.4f} {worst:>9.3f} "
        f"{drops[0]:>6} {drops[1]:>6} {marks[0]:>6} {marks[1]:>6} {points:>7.3f}  {said}",
        flush=True,
    )
    return not missed


def counts(rows, left):
    """Drops and marks of a run; `left` has the numbers of packets that left, and their classes."""
    return len(rows) - len(left), sum(rows[n][3] & 3 != 3 and tos & 3 == 3 for n, tos in left)


def spread(folder, weir, chosen, runs):
    """Prints what chance does to each case: drops and marks of the kernel and of Weir, run by run."""
    idle, *others = chosen
    boot(folder, [idle] + [replace(case, run=run) for case in others for run in range(1, runs + 1)])
    found = read_console((folder / CONSOLE).read_text())
    for case in others:
        rows, sums = arrivals(case), ([], [])
        for run in range(1, runs + 1):
            kernel = found[replace(case, run=run).label()]
            sums[0].append(counts(rows, [(n, tos) for n, (_, departed, tos) in enumerate(kernel) if departed >= 0]))
            plain = tuple(pair for pair in case.policy if pair[0] != "[link]")
            seeded = replace(case, policy=(*plain, ("[link]", f"[link]\nseed = {run + 1}")))
            ours = run_weir(weir, seeded, rows, [offered for offered, *_ in kernel], folder)
            sums[1].append(counts(rows, [(n, tos) for n, _, tos in ours]))
        for who, rows in zip(("kernel", "weir"), sums):
            drops, marks = zip(*rows)
            print(f"{case.name:<16} {who:<7} drops {min(drops)} to {max(drops)} {drops}, marks {min(marks)} to {max(marks)} {marks}", flush=True)


def main():
    folder, weir, *names = sys.argv[1:]
    folder = Path(folder).resolve()
    again = "--again" in names
    if "--spread" in names:
        at = names.index("--spread")
        runs, names = int(names[at + 1]), names[:at] + names[at + 2 :]
        return spread(folder, weir, [case for case in cases() if case.name in names or case.name == "idle"], runs)
    names = [name for name in names if name != "--again"]
    chosen = [case for case in cases() if not names or case.name in names or case.name == "idle"]
    if not again:
        boot(folder, chosen)
    found = read_console((folder / CONSOLE).read_text())
    idle = found["idle"]
    # What the kernel needs from the call to the device.
    way = int(statistics.median(departed - offered for offered, departed, _ in idle if departed >= 0))
    print(f"a packet takes {way / 1000:.1f} us through the kernel; times in ms")
    print(f"{'case':<20} {'packets':>6} {'places':>8} {'equal':>5} {'median':>9} {'worst':>9} {'drops':>6} {'weir':>6} {'marks':>6} {'weir':>6} {'points':>7}")
    holds = True
    for case in chosen:
        rows, kernel = arrivals(case), found[case.name]
        if len(rows) != len(kernel):
            raise SystemExit(f"{case.name}: {len(kernel)} of {len(rows)} packets in {folder / CONSOLE}")
        ours = run_weir(weir, case, rows, [offered + way for offered, *_ in kernel], folder)
        holds &= compare(case, rows, kernel, ours)
    sys.exit(0 if holds else 1)


main()
