"""Compares the decisions of Linux's qdiscs with Weir's, packet by packet.

    decisions.py DIR WEIR [--again] [CASE...]

DIR is what ../build.sh made, WEIR the program; with `--again` only Weir runs, beside what the kernel
did in the run before. Each case is a tc script and packets with their times.
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
from dataclasses import dataclass
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

    def slowed(self):
        """The script with lower rates and longer times."""
        units = {"kbit": 1000, "mbit": 1_000_000}
        rate = lambda found: f"{int(found[1]) * units[found[2]] // self.slow}bit"
        script = re.sub(r"\b(\d+)([km]bit)\b", rate, self.script)
        times = lambda found: f"{found[1]} {int(found[2]) * self.slow}ms"
        return re.sub(r"\b(d|target|interval) (\d+)ms\b", times, script)


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


def cases():
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
    fq_pie = "qdisc add dev v0 root handle 1: fq_pie flows 16384 target {}"
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
        Case("red", red, two(1.8e6, lengths=(1014,)), places=None, drops=0.01, seconds=120, slow=1),
        Case("codel", codel, two(1.7e6, lengths=(1014,)), seconds=60),
        # Bursts, and a trickle that finds the queue empty while the average is still high. Linux starts a
        # pause when the queue is asked for a packet and has none, which a class above it never does; so
        # it drops some more, and the goal is wider.
        Case("red-pauses", red, [Flow(5001, 1e5, (1014,))] + [
            Flow(5002, 12e6, (1014,), start=cycle * 12 + 1, stop=cycle * 12 + 3) for cycle in range(10)
        ], places=None, drops=0.03, seconds=120, slow=1),
        Case("choke", choke + "\n", uneven, places=None, drops=0.01, shares=1.0, seconds=120, slow=1),
        Case("choke-marks", choke + " ecn\n", capable, places=None, drops=0.01, marks=0.1, shares=1.0, seconds=120, slow=1),
        Case("sfb", sfb, uneven, places=None, drops=0.01, shares=1.0, seconds=120, slow=1),
        Case("sfb-marks", sfb, capable, places=None, drops=0.05, marks=0.05, shares=1.0, seconds=120, slow=1),
        Case("fq-pie-turns", fq_pie.format("4000ms\n"), [Flow(p, 7e5, MIXED) for p in range(5001, 5006)], places=0.999, equal=True, seconds=8),
        Case("fq-pie-sparse", fq_pie.format("4000ms\n"), sparse, places=0.999, equal=True, seconds=8),
        Case("fq-pie", fq_pie.format("15ms\n"), [Flow(p, 8e5, MIXED) for p in range(5001, 5006)], places=None, drops=0.01, shares=1.0, seconds=120, slow=1),
        Case("fq-pie-marks", fq_pie.format("15ms ecn\n"), [Flow(p, 7e5, MIXED) for p in range(6001, 6006)], places=None, drops=0.05, marks=0.05, shares=1.0, seconds=120, slow=1),
        Case("pie", pie, two(1.7e6, lengths=(1014,)), places=None, drops=0.01, seconds=480, slow=1),
    ]


def arrivals(case):
    """The packets of a case, in the order of their times: (ns, port, length)."""
    rows = []
    for flow in case.flows:
        draw = random.Random(f"{case.name} {flow.port}")
        at = flow.start
        while at < min(case.seconds, flow.stop):
            length = draw.choice(flow.lengths)
            rows.append((int(at * case.slow * 1e9), flow.port, length))
            at += draw.expovariate(flow.rate / (length * 8))
    return sorted(rows)


def boot(folder, chosen):
    """Boots the guest once with the cases; keeps what it prints."""
    guest = folder / "ird"
    subprocess.run(["gcc", "-O2", "-Wall", "-static", "-o", guest / "bin/paced", HERE / "paced.c"], check=True)
    modules = next((folder / "unpacked/lib/modules").glob("*/kernel"))
    for name in ("sch_hfsc", "sch_tbf", "sch_codel", "sch_pie", "sch_fq_codel", "sch_ets", "sch_choke", "sch_fq_pie", "sch_sfb"):
        for module in modules.rglob(f"{name}.ko"):
            shutil.copy(module, guest / "mod")
    shutil.copy(folder / "line/line.ko", guest / "mod")
    shutil.copy(HERE / "init", guest / "init")
    (guest / "init").chmod(0o755)
    scripts = guest / "scripts"
    shutil.rmtree(scripts, ignore_errors=True)
    scripts.mkdir()
    for number, case in enumerate(chosen):
        base = scripts / f"{number:02}-{case.name}"
        base.with_suffix(".tc").write_text(case.slowed())
        base.with_suffix(".rate").write_text(str(0 if case.shapes else LINE // case.slow))
        rows = arrivals(case)
        base.with_suffix(".packets").write_text("".join("%d %d %d\n" % row for row in rows))
    environment = os.environ | {"WEIR_TWIN_SHIFT": "1", "WEIR_TWIN_SECONDS": "5400"}
    booted = subprocess.run([HERE.parent / "boot.sh", folder], capture_output=True, text=True, env=environment)
    (folder / CONSOLE).write_text(booted.stdout + booted.stderr)
    if booted.returncode:
        raise SystemExit(f"the guest ended with {booted.returncode}: {folder / CONSOLE}")


def read_console(text):
    """Returns for each case the times at which packets came and left in the guest."""
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
        for number, ((_, port, length), at) in enumerate(zip(rows, times)):
            tos = 2 if port >= ECT_FROM else 0
            ip = struct.pack(">BBHHHBBHII", 0x45, tos, length - 14, 0, 0, 64, 17, 0, 0x0A000001, 0x0A000002)
            udp = struct.pack(">HHHH", 1000, port, length - 34, 0)
            frame = (b"\2" * 12 + b"\x08\0" + ip + udp + struct.pack("<I", number)).ljust(length, b"\0")
            seconds, nanos = divmod(at, 10**9)
            out.write(struct.pack("<IIII", 10**9 + seconds, nanos, length, length) + frame)


def read_departures(path):
    """Numbers of the frames of a pcapng file in their order, with their times in ns and whether they have CE."""
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
            marked = data[at + 28 + 15] & 3 == 3
            found.append((number, ((high << 32 | low) * unit) - 10**18, marked))
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
    # A device of the kernel has no rate of its own: only the qdisc's classes shape.
    lines = text.splitlines()
    lines = [f'rate = "{rate}"' if at and lines[at - 1] == "[link]" else line for at, line in enumerate(lines)]
    text = "\n".join(lines)
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
    own = [number for number, *_ in ours]
    flow = [port for _, port, _ in rows]
    longest = max(len(order), len(own))
    same = sum(flow[a] == flow[b] for a, b in zip(order, own)) / longest
    exact = [flow[a] for a in order] == [flow[a] for a in own]
    left = {number: at for number, at, _ in ours}
    marks = sum(marked for *_, marked in kernel), sum(marked for *_, marked in ours)
    apart = [abs(left[number] - departed) / MS for departed, number in theirs if number in left]
    median, worst = statistics.median(apart), max(apart)
    drops = len(rows) - len(order), len(rows) - len(own)
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


def main():
    folder, weir, *names = sys.argv[1:]
    folder = Path(folder).resolve()
    again = "--again" in names
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
