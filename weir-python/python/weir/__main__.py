"""`python -m weir sweep` and `tune`: what needs Python's own engines and searches."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path

from ._sweep import engine_of, run
from ._weir import Error, SweepRuns


def main() -> int:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m weir")
    verbs = parser.add_subparsers(dest="verb", required=True)
    sweeps = verbs.add_parser("sweep", help="does a sweep whose specification comes on standard input")
    sweeps.add_argument("--engine", choices=["local", "processes", "ray"], default="ray")
    sweeps.add_argument("--address")
    sweeps.add_argument("--workers", type=int)
    sweeps.add_argument("--out", type=Path, required=True)
    sweeps.add_argument("--json", action="store_true")
    tunes = verbs.add_parser("tune", help="searches values of a policy that meet goals")
    tunes.add_argument("policy", type=Path)
    tunes.add_argument("--goal", action="append", required=True, metavar="GOAL",
                       help="such as `voice.delay.p99 < 10 ms` or `max bulk.rate`")
    tunes.add_argument("--keep", action="append", default=[], metavar="CONDITION")
    tunes.add_argument("--over", action="append", required=True, type=Path, metavar="SCENARIO",
                       help="a scenario, which runs with this policy")
    tunes.add_argument("--traces", action="append", default=[], type=Path, metavar="FILE|FOLDER",
                       help="rates over time, each in place of the scenarios' capacities")
    tunes.add_argument("--free", action="append", default=[], metavar="KEY",
                       help="which values may change, such as `class.*.rate`")
    tunes.add_argument("--trials", type=int, default=100)
    tunes.add_argument("--seeds", type=int, default=3, help="runs of each scenario in a trial")
    tunes.add_argument("--fresh", type=int, default=20, help="runs of each scenario in the proof")
    tunes.add_argument("--seed", type=int, default=1)
    tunes.add_argument("--json", action="store_true")
    given = parser.parse_args()
    driver = os.environ.get("WEIR_DRIVER", "")
    if driver.isdigit():
        threading.Thread(target=end_with, args=(int(driver),), daemon=True).start()
    try:
        return sweep(given) if given.verb == "sweep" else tune(given)
    except KeyboardInterrupt:
        return 130
    except (Error, OSError, ImportError, ConnectionError, ValueError) as error:
        print(f"weir {given.verb}: {error}", file=sys.stderr)
        return 2


def end_with(driver: int) -> None:
    """Ends this process when the command that began it has ended, however it did."""
    while os.getppid() == driver:
        time.sleep(1)
    os._exit(1)


def sweep(given: argparse.Namespace) -> int:
    """Does a sweep; prints its summary."""
    runs = SweepRuns(sys.stdin.read())
    done = run(runs, engine_of(given.engine, given.workers, given.address), given.out, None)
    print(json.dumps(done.summary) if given.json else done)
    return 0


def tune(given: argparse.Namespace) -> int:
    """Tunes a policy; prints what was found, and the policy."""
    from ._tune import tune as search

    found = search(
        given.policy, given.goal, given.over, given.keep, free=given.free, trials=given.trials,
        traces=given.traces, seeds=given.seeds, fresh=given.fresh, seed=given.seed,
    )
    print(json.dumps(found.to_dict()) if given.json else f"{found}\n\n{found.policy}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
