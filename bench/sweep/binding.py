"""binding.py WEIR SCENARIO: what Python costs beside the command.

First a fresh interpreter, from its start until it has the first table; the median of several. Then a
run of about a second, alone in a process of `weir sim` and in Python, in turns; the medians' ratio.
"""

import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

FIRST_TABLE_S = 0.3
OVERHEAD = 0.01
TIMES = 15
FIRST = """
import sys, weir
report = weir.simulate(open(sys.argv[1]).read(), sys.argv[2])
print(report.table("classes").to_dict()["name"])
"""


def main():
    weir_command, scenario = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    words = [sys.executable, "-B", "-c", FIRST, scenario, scenario.parent]
    first = statistics.median(timed(words) for _ in range(TIMES))
    met = told("import, first run and first table", first, "s", FIRST_TABLE_S)

    import weir

    text = scenario.read_text()
    begun = time.monotonic()
    weir.simulate(text, scenario.parent)
    long = max(1, round(30 / (time.monotonic() - begun)))
    text = re.sub(r'duration = "[^"]*"', f'duration = "{long} s"', text)
    file = scenario.with_name("binding-measured.toml")
    file.write_text(text)
    try:
        pairs = []
        for _ in range(TIMES):
            command = timed([weir_command, "sim", file, "--format", "json"])
            begun = time.monotonic()
            weir.simulate(text, scenario.parent)
            pairs.append((command, time.monotonic() - begun))
    finally:
        file.unlink()
    command, python = (statistics.median(column) for column in zip(*pairs))
    print(f"a run of {long} s takes {command:.3f} s by the command, {python:.3f} s in Python")
    met &= told("overhead of the module", python / command - 1, "of the run", OVERHEAD)
    sys.exit(0 if met else 1)


def timed(words):
    """Seconds that a command takes."""
    begun = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def told(what, value, unit, goal):
    """Prints a figure; returns whether its goal is met."""
    print(f"{what}: {value:.4f} {unit}, expected < {goal}: {'holds' if value < goal else 'MISSED'}",
          flush=True)
    return value < goal


main()
