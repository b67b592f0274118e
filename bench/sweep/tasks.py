"""tasks.py SCENARIO: what a batch costs the driver of a sweep on Ray, and how many workers that feeds.

The driver hands out batches, waits, takes results and keeps them in the journal. Its processor time is
measured over many batches of one short run, with nothing else in the process, and what a batch and its
results take on the wire is counted. A batch lasts about a second (docs/sweeps.md), so a driver feeds as
many workers as batches that it manages in a second. Goal: a batch costs it less than 2 % of a second.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import weir
from weir._sweep import SweepRuns, SweepTable

BATCHES = 1000
BATCH_S = 1.0
PART = 0.02
WORKERS = 1000


def main():
    scenario = Path(sys.argv[1]).resolve()
    text = scenario.read_text().replace('duration = "30 s"', 'duration = "1 s"')
    spec = {"scenario": text, "design": {"method": "grid", "axes": [], "points": 0, "seed": 0},
            "replications": BATCHES, "metrics": ["voice.delay.p99", "rest.rate"], "seed": 1}
    runs = SweepRuns(json.dumps(spec), scenario.parent)
    with weir.RayEngine() as engine, tempfile.TemporaryDirectory() as folder:
        table = SweepTable(runs, Path(folder) / "tasks.parquet")
        # The first batches start workers.
        list(engine.run(runs, [[number] for number in range(8)]))
        begun, busy = time.monotonic(), time.process_time()
        back = 0
        for done in engine.run(runs, [[number] for number in range(BATCHES)]):
            table.add(done)
            back += len(done)
        spent, busy = time.monotonic() - begun, time.process_time() - busy
        table.close()
    each = busy / BATCHES
    print(f"a batch of one run: {1e3 * spent / BATCHES:.2f} ms with {engine.workers} workers, of which the "
          f"driver's processor time {1e3 * each:.2f} ms; {back / BATCHES:.0f} B back, and "
          f"{len(runs.spec()) / 1e3:.1f} kB of scenario once for each node")
    print(f"so a driver feeds {1 / each:.0f} workers with batches of a second; {WORKERS} need batches of "
          f"{max(1.0, WORKERS * each):.1f} s")
    met = each < PART * BATCH_S
    print(f"the driver's part of a batch of {BATCH_S:g} s: {100 * each / BATCH_S:.2f} %, expected < "
          f"{100 * PART:g} %: {'holds' if met else 'MISSED'}", flush=True)
    sys.exit(0 if met else 1)


main()
