"""speed.py WEIR: how long `weir infer` and `weir whatif` take, and how much memory.

Infers from two captures of 1 GB with 20 000 connections, one of whole frames and one of their first
128 bytes; and forecasts three policies from a record of 5 minutes at 100 Mbit/s. Prints each figure
with its goal; exits 1 if one is missed.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BYTES, FLOWS = 1_000_000_000, 20_000
SECONDS, USERS = 300, 100
INFER_S, INFER_GB, WHATIF_S = 60.0, 2.0, 30.0

LINK = """[{0}link]
rate = "100 Mbit/s"
scheduler = "fifo"

[{0}class.all]
default = true
queue = {{ {1} }}
"""
QUEUES = {
    "was": 'limit = "1000 packets"',
    "short": 'limit = "100 packets"',
    "codel": 'dropper = "codel"',
    "fq": 'dropper = "fq-codel"',
}


def scenario():
    """Returns users who fill the line with what applications exchange on connections, and calls."""
    chance = random.Random(1)
    rows = [f'duration = "{SECONDS} s"\n', LINK.format("policy.", QUEUES["was"])]
    for user in range(USERS):
        exchanges = []
        left = 36_000_000
        while left > 0:
            size = min(left, int(chance.paretovariate(1.2) * 20_000), 8_000_000)
            left -= size
            pause = chance.expovariate(4)
            exchanges.append(f'{{ after = "{pause * 1e3:.3f} ms", up = {chance.randrange(100, 900)}, '
                             f'wait = "{chance.uniform(1, 40):.3f} ms", down = {size} }}')
        rows.append(f'[[source]]\nname = "user-{user}"\nkind = "tcp"\nprofile = "linux"\n'
                    f'client = "dst"\ndst = "10.0.{user // 250}.{user % 250 + 1}"\n'
                    f'return_delay = "{chance.uniform(5, 80):.3f} ms"\n'
                    f'start = "{chance.uniform(0, 20):.3f} s"\n'
                    f'conversation = [{", ".join(exchanges)}]\n')
    for call in range(20):
        rows.append(f'[[source]]\nname = "call-{call}"\nkind = "cbr"\nsize = "218 B"\n'
                    f'interval = "20 ms"\ndst = "10.1.0.{call + 1}"\nstart = "{call / 10} s"\n')
    return "\n".join(rows)


def measured(words):
    """Returns the seconds and the GB of a program, and what it printed."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(words, stdout=printed)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read().decode()
    if process.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {process.returncode}")
    spent = time.monotonic() - begun
    cpu = usage.ru_utime + usage.ru_stime
    return spent, cpu, usage.ru_maxrss * 1024 / 1e9, text


def row(title, value, unit, goal):
    met = value < goal
    print(f"{title:<52}{value:>9.2f} {unit:<3} goal below {goal:g} {unit}: "
          f"{'met' if met else 'MISSED'}", flush=True)
    return met


def main():
    weir = os.path.abspath(sys.argv[1])
    met = True
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}, processors: {os.cpu_count()}")
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        for title, more in (("whole frames", []), ("128 bytes of each frame", ["128"])):
            path = os.path.join(folder, "big.pcap")
            words = [sys.executable, str(HERE / "make.py"), path, str(BYTES), str(FLOWS), *more]
            made = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
            spent, cpu, memory, text = measured([weir, "infer", path, "-o", f"{folder}/big.toml"])
            print(f"{title}: {made}")
            print("  " + next(line for line in text.splitlines() if "modelled" in line and "%" in line))
            met &= row(f"infer, {title} ({cpu:.1f} s of processors)", spent, "s", INFER_S)
            met &= row(f"infer, {title}, memory", memory, "GB", INFER_GB)
            os.remove(path)
        for name, queue in QUEUES.items():
            Path(folder, f"{name}.toml").write_text(LINK.format("", queue))
        Path(folder, "line.toml").write_text(scenario())
        record = os.path.join(folder, "line.rec")
        subprocess.run([weir, "sim", f"{folder}/line.toml", "--record", record], check=True,
                       stdout=subprocess.DEVNULL)
        others = [f"{folder}/{name}.toml" for name in QUEUES if name != "was"]
        spent, cpu, memory, text = measured([weir, "whatif", record, *others])
        print("\n".join(f"  {line}" for line in text.splitlines()[:6]))
        title = f"whatif, 5 min at 100 Mbit/s, 3 policies ({cpu:.1f} s)"
        met &= row(title, spent, "s", WHATIF_S)
        print(f"{'its memory':<52}{memory:>9.2f} GB")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
