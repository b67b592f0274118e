"""The search of tuning: candidates, what came of them in runs, and which to try next."""

from __future__ import annotations

import json
import math
import os
import statistics
import struct
import warnings
from dataclasses import dataclass
from typing import Any, Container, Mapping, Sequence, Union

from . import _weir
from ._engines import Engine
from ._knobs import Knob, changed_table, library, number_of
from ._sweep import Bar
from ._wanted import REFUSED, Condition, Objective

PathLike = Union[str, "os.PathLike[str]"]

PROOFS = 10
"""The most candidates that are proved."""
PROVING = 1_000_000
"""Where the seeds of proofs begin."""
CHECKING = 900_000
"""Where those begin that show how much worse other seeds are."""
CHECKS = 3
"""How many times as many there are as in a trial."""
PARTS = 8
"""The parts of a proof, which show how much the worst value varies."""
DEVIATIONS = 2.5
"""How many standard deviations of theirs have to be left."""
STEPS = (1.5, 1.2, 1.08, 1.03)
"""What values are multiplied with and divided by when they are polished."""
MOST_SPARE = 0.25
"""The most that is wanted to spare for other seeds: what is far from a limit varies more than what
is near."""
HALVES = 4
"""How often the way back to the value of the policy is halved."""
SLACK = 0.001
"""The part of an objective that a simpler change may cost."""


@dataclass
class Candidate:
    """Values that were tried, and what came of them."""

    number: int
    values: dict[str, Any]
    results: list[float | None]
    """The worst value of each condition's metric over all scenarios and seeds."""
    margins: list[float]
    scores: list[float]
    """Of each objective, the more the better."""
    change: float
    """How far it is from the policy: the sum of the logarithms of all ratios."""

    def kept(self) -> bool:
        """Whether every condition is met."""
        return all(margin >= 0 for margin in self.margins)

    def to_dict(self, conditions: Sequence[Condition],
                objectives: Sequence[Objective]) -> dict[str, Any]:
        """Values and results, the latter in units of the conditions."""
        results = zip(conditions, self.results)
        scores = zip(objectives, self.scores)
        return {
            "number": self.number, "values": self.values, "kept": self.kept(),
            "results": [condition.in_unit(value) for condition, value in results],
            "objectives": [objective.told(score) for objective, score in scores],
        }


@dataclass
class Proof:
    """Results with other seeds."""

    found: Candidate
    wanted: list[float]
    """The part of each limit that has to be left, for further seeds may be worse."""

    def spare(self) -> float:
        """By how much more than wanted the conditions are kept, at the least."""
        return min((margin - wanted for margin, wanted in zip(self.found.margins, self.wanted)),
                   default=0.0)


class Search:
    """A policy, the conditions on it, the scenarios that try it, and what was tried."""

    seed: int
    seeds: int
    fresh: int
    wanted: float
    """The part of each limit that is wanted besides."""
    spares: list[float]
    """The same in the runs of the search, which have to keep more where other seeds are worse."""
    knobs: Sequence[Knob]

    def __init__(self, policy: str, goals: Sequence[str], keep: Sequence[str],
                 over: Sequence[tuple[str, PathLike]], engine: Engine) -> None:
        self.policy, self.table = policy, _weir.parse_toml(policy)
        objectives = [Objective.of(goal) for goal in goals]
        self.objectives = [one for one in objectives if one is not None]
        wanted = [goal for goal, one in zip(goals, objectives) if one is None]
        self.conditions = [Condition.of(text) for text in (*wanted, *keep)]
        self.scenarios = [(_weir.parse_toml(text), folder) for text, folder in over]
        self.engine, self.runs = engine, 0
        self.tried: list[Candidate] = []
        self.known: dict[tuple[str, ...], Candidate] = {}

    def best(self, without: Container[int] = ()) -> Candidate:
        """Returns the best one: by the first objective, or by what is broken least."""

        def rank(candidate: Candidate) -> tuple[bool, float, float]:
            spare = self.spare(candidate)
            if spare < 0:
                return True, -spare, candidate.change
            return False, -candidate.scores[0], candidate.change

        return min((one for one in self.tried if one.number not in without), key=rank)

    def spare(self, candidate: Candidate) -> float:
        """Returns by how much it keeps its conditions with what is wanted besides, at the least."""
        return min((margin - spare for margin, spare in zip(candidate.margins, self.spares)),
                   default=min(candidate.margins, default=0.0))

    def learn(self, candidate: Candidate, proof: Proof) -> None:
        """Wants so much more to spare as other seeds were worse, up to a part of the limit."""
        rows = zip(proof.wanted, candidate.margins, proof.found.margins)
        self.spares = [max(self.wanted, min(MOST_SPARE, wanted + margin - other))
                       for wanted, margin, other in rows]

    def proved(self) -> tuple[Candidate, Candidate]:
        """Proves the best one, and then those that are better by what that shows, or safer.

        Returns the best one that keeps its conditions with fresh seeds, and its proof.
        """
        proofs: dict[int, tuple[Candidate, Proof]] = {}
        while len(proofs) < min(PROOFS, len(self.tried)):
            pick = self.best()
            if pick.number in proofs:
                if proofs[pick.number][1].spare() >= 0:
                    break
                # It looks best with the seeds of the search only.
                pick = self.best(proofs)
            proofs[pick.number] = pick, self.prove(pick.values, len(proofs))
            self.learn(*proofs[pick.number])

        def rank(pair: tuple[Candidate, Proof]) -> tuple[float, float]:
            return min(0.0, pair[1].spare()), pair[1].found.scores[0]

        pick, proof = max(proofs.values(), key=rank)
        return pick, proof.found

    def prove(self, values: Mapping[str, Any], number: int) -> Proof:
        """Runs all scenarios with fresh seeds, of which each proof has its own."""
        return self.parts(values, PROVING + self.seed + number * self.fresh, self.fresh)

    def parts(self, values: Mapping[str, Any], first: int, count: int) -> Proof:
        """Runs all scenarios with so many seeds in parts, which show how much the worst varies.

        The largest of many values varies as that of few does, if they fall off as an exponential
        (Gumbel's law). So another proof of the same length is worse by more than
        DEVIATIONS standard deviations of the parts in a fiftieth of all cases.
        """
        parts = min(PARTS, count)
        ends = [count * part // parts for part in range(parts + 1)]
        found = [self.evaluate(-1, values, (first + begin, end - begin), True)
                 for begin, end in zip(ends, ends[1:])]
        results = [condition.worst([row.results[place] for row in found])
                   for place, condition in enumerate(self.conditions)]
        sizes = [end - begin for begin, end in zip(ends, ends[1:])]
        scores = [sum(row.scores[place] * size for row, size in zip(found, sizes)) / count
                  for place in range(len(found[0].scores))]
        margins = [min(row.margins[place] for row in found)
                   for place in range(len(found[0].margins))]
        varied = [DEVIATIONS * statistics.pstdev(row.margins[place] for row in found)
                  for place in range(len(self.conditions))]
        whole = Candidate(-1, dict(values), results, margins, scores, found[0].change)
        return Proof(whole, [max(self.wanted, one) for one in varied])

    def check(self, values: Mapping[str, Any]) -> Proof:
        """Runs all scenarios with a few other seeds."""
        return self.parts(values, CHECKING + self.seed, min(self.fresh, CHECKS * self.seeds))

    def look(self, values: Mapping[str, Any]) -> Candidate:
        """Runs all scenarios with the seeds of the search, unless these values were tried."""
        key = tuple(str(value) for value in values.values())
        if key not in self.known:
            self.known[key] = self.evaluate(len(self.tried), values, (self.seed, self.seeds), False)
            self.tried.append(self.known[key])
        return self.known[key]

    def evaluate(self, number: int, values: Mapping[str, Any], seeds: tuple[int, int],
                 whole: bool) -> Candidate:
        """Runs all scenarios with these values and so many seeds from the first on.

        Unless `whole`, what breaks a condition with the first seed is not run with the others.
        """
        changed = sum(abs(math.log(number_of(values[knob.key]) / knob.number)) for knob in self.knobs
                      if knob.number > 0 and number_of(values[knob.key]) > 0)
        policy = changed_table(self.table, self.knobs, values)
        text = _weir.write_toml(json.dumps(policy))
        conditions = self.conditions
        if any(found["severity"] == "error" for found in _weir.check(text)):
            # Such a policy is refused; so it is worse than any that breaks a condition.
            margins, scores = [REFUSED] * len(conditions), [REFUSED] * max(1, len(self.objectives))
            return Candidate(number, dict(values), [None] * len(conditions), margins or [REFUSED],
                             scores, changed)
        first, count = seeds
        columns: dict[str, list[float | None]] = {}
        for begin, end in ((0, 1), (1, count)):
            for scenario, folder in self.scenarios:
                told = {**scenario, "policy": policy}
                self.run(told, folder, (first + begin, end - begin), columns)
            results = [condition.worst(columns[condition.metric]) for condition in conditions]
            margins = [one.margin(value) for one, value in zip(conditions, results)]
            if end == count or not whole and any(margin < 0 for margin in margins):
                break
        scores = [one.score(columns[one.metric]) for one in self.objectives] or [-changed]
        return Candidate(number, dict(values), results, margins, scores, changed)

    def run(self, scenario: Mapping[str, Any], folder: PathLike, seeds: tuple[int, int],
            columns: dict[str, list[float | None]]) -> None:
        """Runs a scenario with so many seeds from the first on; adds each metric to its column."""
        names = sorted({one.metric for one in self.conditions}
                       | {one.metric for one in self.objectives})
        first, count = seeds
        design = {"method": "grid", "axes": [], "points": 0, "seed": 0}
        spec = {"scenario": _weir.write_toml(json.dumps(scenario)), "design": design,
                "replications": count, "metrics": names, "seed": first}
        runs = _weir.SweepRuns(json.dumps(spec), folder)
        workers = self.engine.workers
        batches = [list(range(one, count, workers)) for one in range(min(workers, count))]
        for done in self.engine.run(runs, batches):
            for row in json.loads(done):
                if "error" in row:
                    raise ValueError(row["error"])
                for name, bits in zip(names, row["values"]):
                    value = None if bits is None else struct.unpack("<d", struct.pack("<Q", bits))[0]
                    columns.setdefault(name, []).append(value)
        self.runs += count

    def search(self, trials: int, bar: Bar) -> None:
        """Tries values until so many were; those that were tried before show where to look."""
        optuna: Any = library("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            # Conditions of a sampler are called experimental.
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=self.seed, multivariate=True,
                n_startup_trials=min(20, 2 + 4 * len(self.knobs)),
                constraints_func=lambda trial: trial.user_attrs["broken"],
            )
            directions = ["maximize"] * max(1, len(self.objectives))
            study = optuna.create_study(directions=directions, sampler=sampler)
        study.enqueue_trial({knob.key: knob.number for knob in self.knobs})
        for before in self.tried:
            study.enqueue_trial({knob.key: number_of(before.values[knob.key]) for knob in self.knobs})
        for number in range(trials):
            trial = study.ask()
            candidate = self.look({knob.key: knob.suggest(trial) for knob in self.knobs})
            spares = self.spares or [0.0]
            broken = [spare - margin for margin, spare in zip(candidate.margins, spares)]
            trial.set_user_attr("broken", broken)
            study.tell(trial, candidate.scores)
            bar.show(number + 1)

    def polish(self, trials: int, bar: Bar) -> None:
        """Moves one value after the other, by smaller and smaller steps, while that is better."""
        for step in STEPS:
            moved = True
            while moved:
                moved = False
                for knob in self.knobs:
                    for factor in (step, 1 / step):
                        if len(self.tried) >= trials:
                            return
                        best = self.best()
                        number = number_of(best.values[knob.key]) * factor
                        number = min(knob.high, max(knob.low, number))
                        self.look({**best.values, knob.key: knob.write(number)})
                        moved |= self.best() is not best
                        bar.show(len(self.tried))

    def simplify(self, best: Candidate) -> None:
        """Takes back what is not needed, value by value: first all of it, then by halves."""
        if self.spare(best) < 0:
            return
        for knob in self.knobs:
            low, high = knob.number, number_of(best.values[knob.key])
            for step in range(HALVES + 1):
                middle = low if step == 0 else math.sqrt(low * high) if low > 0 < high else low
                values = {**best.values, knob.key: knob.write(middle)}
                if values == best.values:
                    break
                candidate = self.look(values)
                worse = [now < was - SLACK * abs(was) for now, was in zip(candidate.scores, best.scores)]
                if self.spare(candidate) >= 0 and not any(worse):
                    best, high = candidate, middle
                else:
                    low = middle
                if step == 0 and best is candidate:
                    break

    def explain(self, before: Candidate, after: Candidate, runs: int) -> str:
        """Says what changed, what comes of it, and which condition binds."""
        lines = []
        for knob in self.knobs:
            new = after.values[knob.key]
            if new != knob.old:
                lines.append(f"`{knob.key}`: {new} instead of {knob.old}")
        if not lines:
            lines.append("Nothing changes: no values that were tried are better.")
        lines.append(f"Worst of {runs} runs with fresh seeds, before and after:")
        for place, condition in enumerate(self.conditions):
            was, now = (condition.write(row.results[place]) for row in (before, after))
            verdict = "holds" if after.margins[place] >= 0 else "BROKEN"
            lines.append(f"  {condition.text}: {was}, {now}: {verdict}, "
                         f"{100 * after.margins[place]:.1f} % to spare")
        for place, objective in enumerate(self.objectives):
            means = (objective.told(row.scores[place]) for row in (before, after))
            told = ", ".join("none" if mean is None else f"{mean:.4g}" for mean in means)
            lines.append(f"  {objective.text}, mean: {told} {objective.unit}")
        lines += [f"  {line}" for line in self.classes(before, after)]
        if self.conditions:
            binding = min(range(len(self.conditions)), key=lambda place: after.margins[place])
            lines.append(f"Closest to its limit: `{self.conditions[binding].text}`.")
        return "\n".join(lines)

    def classes(self, before: Candidate, after: Candidate) -> list[str]:
        """Says what each class gains and loses, by simulation of each scenario and by bounds."""
        lines = []
        policies = [changed_table(self.table, self.knobs, row.values) for row in (before, after)]
        for number, (scenario, folder) in enumerate(self.scenarios):
            reports = [_weir.simulate(_weir.write_toml(json.dumps({**scenario, "policy": policy})),
                                      folder, self.seed) for policy in policies]
            for was, now in zip(*(report["classes"] for report in reports)):
                (old, new) = (row["delay_us"]["p99"] for row in (was, now))
                if was["sent"]["bytes"] or now["sent"]["bytes"]:
                    change = now["sent"]["bytes"] / max(1, was["sent"]["bytes"]) - 1
                    delays = "" if old is None or new is None else \
                        f", p99 {old / 1e3:.1f} to {new / 1e3:.1f} ms"
                    lines.append(f"scenario {number + 1}, {was['name']}: "
                                 f"{100 * change:+.1f} % bytes{delays}")
        bounds = [_weir.bounds(_weir.write_toml(json.dumps(policy))) for policy in policies]
        for was, now in zip(*bounds):
            if was["at_least_bps"] != now["at_least_bps"] and now["at_least_bps"]:
                lines.append(f"{was['class']} always gets {now['at_least_bps'] / 1e6:.3f} Mbit/s, "
                             f"{(was['at_least_bps'] or 0) / 1e6:.3f} before")
        return lines
