"""`python -m weir sweep` and `tune`: what needs Python's own engines and searches."""

from __future__ import annotations

import argparse
import json
import sys
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
    tunes.add_argument("--goal", action="append", required=True, metavar="CONDITION",
                       help="such as `voice.delay.p99 < 10 ms` or `max bulk.rate`")
    tunes.add_argument("--keep", action="append", default=[], metavar="CONDITION")
    tunes.add_argument("--over", required=True, metavar="SCENARIO,...",
                       help="scenarios, which run with this policy")
    tunes.add_argument("--free", default="", metavar="KEY,...",
                       help="which values may change, such as `class.*.rate,queue.limit`")
    tunes.add_argument("--trials", type=int, default=100)
    tunes.add_argument("--seeds", type=int, default=3, help="runs of each scenario in a trial")
    tunes.add_argument("--fresh", type=int, default=20, help="runs of each scenario in the proof")
    tunes.add_argument("--seed", type=int, default=1)
    tunes.add_argument("--out", type=Path, help="where the policy goes; by default it is printed")
    given = parser.parse_args()
    try:
        return sweep(given) if given.verb == "sweep" else tune(given)
    except KeyboardInterrupt:
        return 130
    except (Error, OSError, ImportError, ConnectionError, ValueError) as error:
        print(f"weir {given.verb}: {error}", file=sys.stderr)
        return 2


def sweep(given: argparse.Namespace) -> int:
    """Does a sweep; prints its summary."""
    runs = SweepRuns(sys.stdin.read())
    done = run(runs, engine_of(given.engine, given.workers, given.address), given.out, None)
    print(json.dumps(done.summary) if given.json else done)
    return 0


def tune(given: argparse.Namespace) -> int:
    """Tunes a policy; says what was found, and writes it. 1 if no values meet the goals."""
    from ._tune import tune as search

    over = [Path(path) for path in given.over.split(",") if path]
    if len({path.resolve().parent for path in over}) > 1:
        raise ValueError("the scenarios lie in different folders; put them in one")
    found = search(
        given.policy.read_text(), given.goal, [path.read_text() for path in over], given.keep,
        free=[key for key in given.free.split(",") if key],
        base_dir=over[0].parent if over else "",
        trials=given.trials, seeds=given.seeds, fresh=given.fresh, seed=given.seed,
    )
    print(found)
    if given.out:
        given.out.write_text(found.policy)
    else:
        print(f"\n{found.policy}", end="")
    return 0 if found.met else 1


if __name__ == "__main__":
    sys.exit(main())
