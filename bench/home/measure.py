"""measure.py WEIR [SECONDS]: the policies that `weir init` writes, on a running line of 50/10 Mbit/s.

Three hosts fill the line: one with one connection of TCP, one with sixteen, and one that floods it
with twice what it bears. A fourth marks all that it sends as a call; the host with sixteen pings, and a
fifth has a call. Each direction is measured by itself, behind a bridge and with `--host`, for so many
seconds (40). The goals: the three hosts are within 3 % of their mean on the wire, 95 of 100 pings
are back within 5 ms, and the call loses nothing, with 99 of 100 packets within 5 ms.

Makes three private networks, `ip netns`, and needs root. Delays run to the receiving kernel's stamps.
Exits 1 if a goal is missed.
"""

import ctypes
import multiprocessing
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

LINE = {"upload": 10_000_000, "download": 50_000_000}
SPREAD_MAX = 0.03
DELAY_MAX_MS = 5.0
WARM_UP = 5.0
# A frame's header, and what `init` counts on fibre beside it.
FRAME, OVERHEAD = 14, 24
SEGMENT = 1448
PORT = 5000
FLOOD, MARKS, CALL = 6000, 6001, 6002
EF = 46 << 2
STAMP = 35  # SO_TIMESTAMPNS, in nanoseconds of CLOCK_REALTIME
PREFIX = f"home{os.getpid()}"


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def enter(name):
    """Moves this process into a network."""
    with open(f"/var/run/netns/{PREFIX}{name}") as space:
        if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")


class Line:
    """Hosts at `near`, one machine at `far`, and `weir up` between them or on the machine."""

    def __init__(self, weir, is_host):
        self.weir, self.is_host = weir, is_host
        self.folder = tempfile.TemporaryDirectory()
        self.process = None
        self.spaces = ["near", "weir"] if is_host else ["near", "weir", "far"]
        self.far = "weir" if is_host else "far"

    def begin(self):
        is_host = self.is_host
        for name in self.spaces:
            run("ip", "netns", "add", PREFIX + name)
            run("ip", "-n", PREFIX + name, "link", "set", "lo", "up")
        self.join("near", "hosts0", "outside0" if is_host else "inside0", "weir")
        if not is_host:
            self.join("far", "server0", "outside0", "weir")
        for host in HOSTS.values():
            run("ip", "-n", PREFIX + "near", "address", "add", f"{host}/16", "dev", "hosts0")
        end = "outside0" if is_host else "server0"
        run("ip", "-n", PREFIX + self.far, "address", "add", f"{SERVER}/16", "dev", end)
        options = ["--host", "outside0"] if is_host else ["--inside", "inside0", "--outside", "outside0"]
        run(self.weir, "init", "--down", "50Mbit/s", "--up", "10Mbit/s", "--link", "fibre", "-o",
            self.folder.name, *options)
        self.start()

    def join(self, space, end, other, beside):
        run("ip", "-n", PREFIX + space, "link", "add", end, "type", "veth", "peer", "name", other,
            "netns", PREFIX + beside)
        run("ip", "-n", PREFIX + space, "link", "set", end, "up")
        run("ip", "-n", PREFIX + beside, "link", "set", other, "up")

    def start(self):
        deployment, socket_path = f"{self.folder.name}/deployment.toml", f"{self.folder.name}/sock"
        with open(deployment, encoding="utf-8") as file:
            text = file.read().replace("[deployment]\n", f"[deployment]\ncontrol = '{socket_path}'\n")
        with open(deployment, "w", encoding="utf-8") as file:
            file.write(text)
        words = ["ip", "netns", "exec", PREFIX + "weir", self.weir, "up", deployment]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        while subprocess.run([self.weir, "status", "--control", socket_path],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            if self.process.poll() is not None:
                sys.exit("weir up ended; its message is above")
            time.sleep(0.2)

    def end(self):
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
        for name in self.spaces:
            subprocess.run(["ip", "netns", "delete", PREFIX + name], check=False)
        self.folder.cleanup()


SERVER = "10.9.1.1"
HOSTS = {name: f"10.9.0.{number}" for number, name in
         enumerate(["one", "many", "flood", "marks", "call"], 2)}


def ends(hosts_send, host):
    """Returns the addresses of the sender and of the receiver of what a host sends or is sent."""
    pair = HOSTS[host], SERVER
    return pair if hosts_send else pair[::-1]


def connect(space, hosts_send, host, count):
    """Sends by so many connections, as fast as TCP does."""
    enter(space)
    sender, receiver = ends(hosts_send, host)
    with selectors.DefaultSelector() as ready:
        for _ in range(count):
            connection = socket.create_connection((receiver, PORT), 30, (sender, 0))
            connection.setblocking(False)
            ready.register(connection, selectors.EVENT_WRITE)
        while True:
            for key, _ in ready.select():
                key.fileobj.send(bytes(1 << 16))


def send(space, hosts_send, stream):
    """Sends datagrams of a length at a rate, each with its number and time; several at once."""
    host, port, length, per_second, mark, at_once = stream
    enter(space)
    sender, receiver = ends(hosts_send, host)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.bind((sender, 0))
        out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, mark)
        begun, sent = time.monotonic(), 0
        while True:
            wait = begun + sent / per_second - time.monotonic()
            time.sleep(max(wait, 0))
            for _ in range(at_once):
                packet = struct.pack("!QQ", sent, time.clock_gettime_ns(time.CLOCK_REALTIME))
                try:
                    out.sendto(packet.ljust(length, b"\0"), (receiver, port))
                except BlockingIOError:
                    pass
                sent += 1


def stamp(ancillary):
    """Returns the kernel's stamp of a packet, in nanoseconds."""
    seconds, nanos = struct.unpack("@ll", ancillary[0][2][:16])
    return seconds * 1_000_000_000 + nanos


def ping(space, hosts_send, seconds, results):
    """Sends an echo request ten times a second; returns what became of them, in ms."""
    enter(space)
    sender, receiver = ends(hosts_send, "many")
    times, sent = [], 0
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as echo:
        echo.bind((sender, 0))
        echo.setsockopt(socket.SOL_SOCKET, STAMP, 1)
        echo.settimeout(0.1)
        time.sleep(WARM_UP)
        end = time.monotonic() + seconds
        while (next_at := time.monotonic() + 0.1) < end:
            now = time.clock_gettime_ns(time.CLOCK_REALTIME)
            body = struct.pack("!HHQ", os.getpid() & 0xFFFF, sent & 0xFFFF, now).ljust(60, b"\0")
            echo.sendto(b"\x08\0" + checksum(b"\x08\0\0\0" + body) + body, (receiver, 0))
            sent += 1
            while (left := next_at - time.monotonic()) > 0:
                echo.settimeout(left)
                try:
                    packet, ancillary, _, _ = echo.recvmsg(2048, 64)
                except TimeoutError:
                    break
                if packet[20] == 0:
                    times.append((stamp(ancillary) - struct.unpack_from("!Q", packet, 28)[0]) / 1e6)
    results.put(("ping", {"lost": sent - len(times), "ms": times}))


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)


def receive(space, hosts_send, seconds, results):
    """Counts what arrives of each host, on the wire, and the delays of the call."""
    enter(space)
    ready = selectors.DefaultSelector()
    hosts = {}
    for host in ["one", "many"]:
        hosts[ends(hosts_send, host)[0 if hosts_send else 1]] = host
    listener = socket.create_server(("", PORT), backlog=64)
    ready.register(listener, selectors.EVENT_READ, None)
    for host, port in [("flood", FLOOD), ("marks", MARKS), ("call", CALL)]:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        datagrams.setsockopt(socket.SOL_SOCKET, STAMP, 1)
        datagrams.setblocking(False)
        datagrams.bind(("", port))
        ready.register(datagrams, selectors.EVENT_READ, host)
    got, delays, numbers = {}, [], []
    begin = time.monotonic() + WARM_UP
    while (now := time.monotonic()) < begin + seconds:
        for key, _ in ready.select(0.1):
            if key.data is None:
                connection, peer = key.fileobj.accept()
                local = connection.getsockname()
                host = hosts[peer[0] if hosts_send else local[0]]
                connection.setblocking(False)
                ready.register(connection, selectors.EVENT_READ, (host,))
            elif isinstance(key.data, tuple):
                took = len(key.fileobj.recv(1 << 18))
                # Segment by segment: headers of IP and TCP with its stamps.
                wire = took * (SEGMENT + 52 + FRAME + OVERHEAD) / SEGMENT
                if now >= begin:
                    got[key.data[0]] = got.get(key.data[0], 0) + wire
            else:
                packet, ancillary, _, _ = key.fileobj.recvmsg(2048, 64)
                if now >= begin:
                    wire = len(packet) + 28 + FRAME + OVERHEAD
                    got[key.data] = got.get(key.data, 0) + wire
                    if key.data == "call":
                        number, sent = struct.unpack_from("!QQ", packet)
                        numbers.append(number)
                        delays.append((stamp(ancillary) - sent) / 1e6)
    lost = numbers[-1] - numbers[0] + 1 - len(set(numbers))
    results.put(("received", {"bytes": got, "call": {"lost": lost, "ms": delays}}))


def quantile(values, part):
    values = sorted(values)
    return values[min(int(part * len(values)), len(values) - 1)]


def measure(line, direction, seconds):
    """Returns what arrived while all hosts sent in one direction."""
    # The hosts of a machine with `--host` are the others: it uploads to them.
    hosts_send = (direction == "upload") != line.is_host
    begins, ends_at = ("near", line.far) if hosts_send else (line.far, "near")
    flood = 2 * LINE[direction] / 8 / 1200
    streams = [
        ("flood", FLOOD, 1200, flood, 0, 8),
        ("marks", MARKS, 1200, 20e6 / 8 / 1200, EF, 4),
        ("call", CALL, 160, 50, EF, 1),
    ]
    results = multiprocessing.Queue()
    process = multiprocessing.Process
    readers = [process(target=receive, args=(ends_at, hosts_send, seconds, results))]
    readers[0].start()
    time.sleep(0.5)
    readers.append(process(target=ping, args=(begins, hosts_send, seconds - 1, results)))
    readers[1].start()
    senders = [process(target=connect, args=(begins, hosts_send, host, count))
               for host, count in [("one", 1), ("many", 16)]]
    senders += [process(target=send, args=(begins, hosts_send, stream)) for stream in streams]
    for sender in senders:
        sender.start()
    found = dict(results.get() for _ in readers)
    for sender in senders:
        sender.kill()
        sender.join()
    for reader in readers:
        reader.join()
    return found


def judge(name, direction, found):
    """Prints a line; returns whether the goals are met."""
    got = found["received"]["bytes"]
    bulk = [got.get(host, 0) for host in ["one", "many", "flood"]]
    mean = sum(bulk) / len(bulk)
    spread = [got / mean - 1 for got in bulk]
    call, pings = found["received"]["call"], found["ping"]
    back, heard = quantile(pings["ms"], 0.95), quantile(call["ms"], 0.99)
    holds = (max(map(abs, spread)) < SPREAD_MAX and back < DELAY_MAX_MS and heard < DELAY_MAX_MS
             and call["lost"] == 0)
    parts = " ".join(f"{part:+.1%}" for part in spread)
    print(f"{name} {direction}: one, many, flood {parts}; {len(pings['ms'])} pings, "
          f"{pings['lost']} lost, p95 {back:.2f} ms; call of {len(call['ms'])}, {call['lost']} lost, "
          f"p99 {heard:.2f} ms: {'holds' if holds else 'MISSED'}", flush=True)
    return holds


def main():
    weir, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 40.0
    print(f"goals: within {SPREAD_MAX:.0%}; ping p95 and call p99 < {DELAY_MAX_MS} ms; no call lost")
    holds = True
    for name in ["bridge", "--host"]:
        line = Line(weir, name == "--host")
        try:
            line.begin()
            for direction in LINE:
                holds &= judge(name, direction, measure(line, direction, seconds))
        finally:
            line.end()
    sys.exit(0 if holds else 1)


main()
