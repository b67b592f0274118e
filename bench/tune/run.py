"""run.py [STAGE...]: `weir.tune` on staged policies beside an exhaustive search of the same values.

The optimum is the best of all points of a grid over the whole range of every key, which keeps its
conditions in 200 fresh seeds, too. The grid has ten runs a point; the search may take a tenth of them.
Then its pick has to be within 2 % of the optimum, and to keep all conditions in 200 further seeds. Exits 0 if
that holds for every stage, 1 if not.
"""

import itertools
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import weir
from weir._knobs import knobs_of
from weir._search import Search
from stages import STAGES

SEEDS = 10
FRESH = 200
WITHIN = 0.02
PART = 0.1
FAR = 5_000_000
"""Where the seeds begin that neither search has seen."""


def main():
    wanted = sys.argv[1:]
    stages = [stage for stage in STAGES if not wanted or any(word in stage.name for word in wanted)]
    with ProcessPoolExecutor(2) as pool:
        met = list(pool.map(measured, [stage.name for stage in stages]))
    print(f"{sum(met)} of {len(met)} stages hold")
    sys.exit(0 if all(met) else 1)


def measured(name):
    """Measures a stage, prints it, and returns whether it holds."""
    warnings.simplefilter("ignore")
    (stage,) = [one for one in STAGES if one.name == name]
    search = Search(stage.policy, stage.goals, stage.keep, [(stage.scenario, "", None)], weir.LocalEngine(1))
    search.seed, search.seeds, search.fresh, search.spares = 1, SEEDS, FRESH, []
    search.knobs = knobs_of(search.table, stage.free)
    begun = time.monotonic()
    best, points = exhaustive(search, stage.levels)
    if best is None:
        print(f"{name}: no point of the grid keeps the conditions: the stage is wrong", flush=True)
        return False
    between = time.monotonic()
    found = weir.tune(stage.policy, stage.goals, [stage.scenario], stage.keep, free=stage.free,
                      trials=trials_of(points, len(search.knobs)), seeds=SEEDS, fresh=FRESH,
                      engine=weir.LocalEngine(1), progress=False)
    took = time.monotonic() - between
    far = search.evaluate(0, found.pick.values, (FAR, FRESH), True)
    behind = (best.scores[0] - far.scores[0]) / abs(best.scores[0])
    held = behind <= WITHIN and far.kept() and found.search_runs <= points * SEEDS * PART
    print(f"{name}: {len(search.knobs)} keys; exhaustive {points} points of {SEEDS} runs, "
          f"{between - begun:.0f} s, optimum {abs(best.scores[0]):.5g}; tuned {len(found.tried)} points, "
          f"{found.search_runs} runs, {took:.0f} s, {abs(far.scores[0]):.5g}, {100 * behind:+.2f} % "
          f"behind; in {FRESH} further seeds conditions {'kept' if far.kept() else 'BROKEN'} "
          f"({100 * min(far.margins):+.1f} % to spare): {'holds' if held else 'MISSED'}", flush=True)
    return held


def trials_of(points, knobs):
    """A tenth of the points, less those that the way back to simpler values may take."""
    return max(8, int(points * PART) - 5 * knobs)


def exhaustive(search, levels):
    """Tries every combination; returns the best that keeps its conditions, with fresh seeds too."""
    axes = []
    for knob in search.knobs:
        ratio = knob.high / knob.low
        values = [knob.write(knob.low * ratio ** (step / (levels - 1))) for step in range(levels)]
        axes.append(list(dict.fromkeys(values)))
    keys = [knob.key for knob in search.knobs]
    for values in itertools.product(*axes):
        search.look(dict(zip(keys, values)))
    kept = sorted((one for one in search.tried if one.kept()), key=lambda one: -one.scores[0])
    for one in kept:
        far = search.evaluate(one.number, one.values, (FAR, FRESH), False)
        if far.kept():
            return far, len(search.tried)
    return None, len(search.tried)


if __name__ == "__main__":
    main()
