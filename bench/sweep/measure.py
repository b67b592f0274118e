"""measure.py WEIR SCENARIO RUNS: see run.sh.

The ideal is the time in which two plain processes of `weir sim`, with one thread each, do half of
the runs each. It is taken before and after each engine, and the mean counts, so that a machine that
becomes slower meanwhile changes little. The start of an engine is stated apart: it is the time of a
sweep of two runs, without that of these.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOALS = {"local": 0.95, "ray": 0.90}
POINTS = 50


def main():
    weir, scenario, runs = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), int(sys.argv[3])
    replications = max(1, runs // POINTS)
    runs = POINTS * replications
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(weir, scenario, Path(folder))
        met = True
        ideals = [bench.ideal(runs)]
        for engine, goal in GOALS.items():
            start = bench.sweep(engine, 2, 1)
            spent = bench.sweep(engine, POINTS, replications)
            ideals.append(bench.ideal(runs))
            ideal = (ideals[-1] + ideals[-2]) / 2
            start = max(0.0, start - 2 * ideal / runs)
            part = ideal / (spent - start)
            met &= part >= goal
            verdict = "holds" if part >= goal else "MISSED"
            print(f"{engine}: {runs} runs in {spent:.1f} s, of which start {start:.1f} s; ideal "
                  f"{ideal:.1f} s ({ideals[-2]:.1f} and {ideals[-1]:.1f}); {part:.3f} of two cores, "
                  f"expected >= {goal}: {verdict}", flush=True)
    sys.exit(0 if met else 1)


class Bench:
    def __init__(self, weir, scenario, folder):
        self.weir, self.scenario, self.folder = weir, scenario, folder
        self.number = 0

    def ideal(self, runs):
        """Seconds in which two processes do half of the runs each."""
        words = [self.weir, "sim", self.scenario, "--threads", "1", "--replications"]
        begin = time.monotonic()
        both = [subprocess.Popen([*words, str(half)], stdout=subprocess.DEVNULL)
                for half in (runs // 2, runs - runs // 2)]
        if any(process.wait() not in (0, 1) for process in both):
            sys.exit(2)
        return time.monotonic() - begin

    def sweep(self, engine, points, replications):
        """Seconds of a whole sweep."""
        self.number += 1
        rates = ", ".join(f'"{9.5 + 0.01 * point:.2f} Mbit/s"' for point in range(points))
        file = self.folder / f"{self.number}.toml"
        file.write_text(f'scenario = "{self.scenario}"\nreplications = {replications}\n'
                        'metrics = ["voice.delay.p99", "rest.rate"]\n'
                        f'[grid]\n"policy.link.rate" = [{rates}]\n')
        words = [self.weir, "sweep", file, "--engine", engine]
        if engine == "local":
            words += ["--threads", "2"]
        environment = {**os.environ, "WEIR_PYTHON": sys.executable, "RAY_USAGE_STATS_ENABLED": "0"}
        begin = time.monotonic()
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
        if done.returncode != 0:
            sys.exit(f"{engine}: {done.stderr.decode()[-2000:]}")
        return time.monotonic() - begin


main()
