"""`python -m weir sweep`: what `weir sweep` runs for engines that are Python's."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ._sweep import engine_of, run
from ._weir import Error, SweepRuns


def main() -> int:
    """Does a sweep whose specification comes on standard input; prints its summary."""
    parser = argparse.ArgumentParser(prog="python -m weir")
    parser.add_argument("verb", choices=["sweep"])
    parser.add_argument("--engine", choices=["local", "processes", "ray"], default="ray")
    parser.add_argument("--address")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        runs = SweepRuns(sys.stdin.read())
        engine = engine_of(given.engine, given.workers, given.address)
        done = run(runs, engine, given.out, None)
    except KeyboardInterrupt:
        return 130
    except (Error, OSError, ImportError, ConnectionError) as error:
        print(f"weir sweep: {error}", file=sys.stderr)
        return 2
    print(json.dumps(done.summary) if given.json else done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
