"""The search of tuning: candidates, what came of them in runs, and which to try next."""

from __future__ import annotations

import json
import math
import os
import statistics
import struct
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Container, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _weir
from ._engines import Engine
from ._given import table_of
from ._knobs import Knob, changed_table, library, number_of, path_of
from ._promises import conditions_of, scenarios_of
from ._sweep import Bar
from ._wanted import REFUSED, Condition, Objective

PathLike = Union[str, "os.PathLike[str]"]
Columns = Dict[Tuple[Optional[str], str], List[Optional[float]]]
"""What metrics gave, by the promise's scenario (None: all that goals are over) and the metric."""

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


@dataclass
class Stage:
    """A scenario that tries the policy."""

    text: str
    folder: PathLike
    goals: bool = True
    """Whether goals are measured here, and not only the policy's own promises."""
    under: str | None = None
    """What the policy's promises call it."""
    name: str | None = None
    """The name of its file."""
    trace: str | None = None
    """A file of rates over time, in place of the capacity of its bottlenecks."""
    number: int = 0
    """Which of the scenarios it is, from 1."""
    places: Sequence[str] = ("",)
    """What stands before the names of the policy's classes in metrics."""


    @property
    def label(self) -> str:
        """Returns what it is called in words."""
        over = "" if self.trace is None else f" over {os.path.basename(self.trace)}"
        return f"scenario {self.number}{over}"


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
    promises: list[Mapping[str, Any]]
    """The policy's own promises that are no conditions: tests decide them."""
    folder: PathLike
    """Where scenarios of promises lie."""
    file: str
    """Where the policy lies."""

    def __init__(self, policy: str, goals: Sequence[str], keep: Sequence[str],
                 over: Sequence[tuple[str, PathLike, str | None]], engine: Engine) -> None:
        self.policy, self.table = policy, table_of(policy, "policy")
        self.file = "policy.toml"
        objectives = [Objective.of(goal) for goal in goals]
        self.objectives = [one for one in objectives if one is not None]
        wanted = [goal for goal, one in zip(goals, objectives) if one is None]
        self.conditions = [Condition.of(text) for text in (*wanted, *keep)]
        for text, _, name in over:
            table_of(text, "scenario", name)
        self.scenarios = [Stage(text, folder, name=name, number=number)
                          for number, (text, folder, name) in enumerate(over, 1)]
        self.promises: list[Mapping[str, Any]] = []
        self.folder: PathLike = ""
        self.engine, self.runs = engine, 0
        self.tried: list[Candidate] = []
        self.known: dict[tuple[str, ...], Candidate] = {}

    def spread(self, traces: Sequence[str]) -> None:
        """Has each scenario run with each of these traces instead of its own capacity."""
        if traces:
            self.scenarios = [replace(stage, trace=trace)
                              for stage in self.scenarios for trace in traces]

    def promise(self, folder: PathLike, place: PathLike) -> None:
        """Makes the policy's own promises conditions, each under its scenario; `place` is for the
        files of captures."""
        self.folder = folder
        conditions, self.promises = conditions_of(self.table)
        self.conditions += conditions
        texts = scenarios_of(self.table, folder, place)
        for name in dict.fromkeys(condition.under for condition in conditions if condition.under):
            file = Path(folder, name)
            text, beside = texts[name]
            scenario = table_of(text, "scenario", str(file))
            known = [row for row in self.scenarios
                     if row.under is None and row.trace is None and table_of(row.text, "scenario") == scenario
                     and Path(row.folder).resolve() == Path(beside).resolve()]
            if known:
                known[0].under = name
            else:
                stage = Stage(text, beside, goals=False, under=name, name=str(file),
                              number=self.scenarios[-1].number + 1)
                self.scenarios.append(stage)

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
        text = _weir.write_toml(json.dumps(changed_table(self.table, self.knobs, values)))
        conditions = self.conditions
        if any(found["severity"] == "error" for found in _weir.check(text)):
            # Such a policy is refused; so it is worse than any that breaks a condition.
            margins, scores = [REFUSED] * len(conditions), [REFUSED] * max(1, len(self.objectives))
            return Candidate(number, dict(values), [None] * len(conditions), margins or [REFUSED],
                             scores, changed)
        first, count = seeds
        columns: Columns = {}
        for begin, end in ((0, 1), (1, count)):
            for stage in self.scenarios:
                self.run(stage, values, (first + begin, end - begin), columns)
            results = [one.worst(columns[one.under, one.metric]) for one in conditions]
            margins = [one.margin(value) for one, value in zip(conditions, results)]
            if end == count or not whole and any(margin < 0 for margin in margins):
                break
        scores = [one.score(columns[None, one.metric]) for one in self.objectives] or [-changed]
        return Candidate(number, dict(values), results, margins, scores, changed)

    def run(self, stage: Stage, values: Mapping[str, Any], seeds: tuple[int, int],
            columns: Columns) -> None:
        """Runs a scenario with so many seeds from the first on; adds each metric to its columns."""
        wanted = [(one.under, one.metric) for one in self.conditions
                  if (stage.goals if one.under is None else one.under == stage.under)]
        if stage.goals:
            wanted += [(None, one.metric) for one in self.objectives]
        names = sorted({metric for _, metric in wanted})
        for row in self.measured(stage, values, seeds, names):
            for under, name in set(wanted):
                columns.setdefault((under, name), []).append(row[name])

    def measured(self, stage: Stage, values: Mapping[str, Any], seeds: tuple[int, int],
                 names: Sequence[str]) -> list[dict[str, float | None]]:
        """Returns the metrics of so many runs of a scenario from the first seed on."""
        first, count = seeds
        runs = self.runs_of(stage, values, seeds, names)
        workers = self.engine.workers
        batches = [list(range(one, count, workers)) for one in range(min(workers, count))]
        rows = []
        for done in self.engine.run(runs, batches):
            for row in json.loads(done):
                if "error" in row:
                    raise ValueError(row["error"])
                rows.append({name: None if bits is None else
                             struct.unpack("<d", struct.pack("<Q", bits))[0]
                             for name, bits in zip(names, row["values"])})
        self.runs += count
        return rows

    def runs_of(self, stage: Stage, values: Mapping[str, Any], seeds: tuple[int, int],
                names: Sequence[str]) -> _weir.SweepRuns:
        """Returns the runs of a scenario with the policy, whose values are those of the only point:
        so what is found names the lines of both files."""
        first, count = seeds
        axes = [{"key": path_of("policy", *knob.path), "values": [values[knob.key]]}
                for knob in self.knobs]
        spec: dict[str, Any] = {
            "scenario": stage.text, "replications": count, "metrics": names, "seed": first,
            "design": {"method": "grid", "axes": axes, "points": 0, "seed": 0},
            "policy": {"path": os.path.relpath(self.file, stage.folder or "."), "text": self.policy},
        }
        if stage.name is not None:
            spec["name"] = stage.name
        if stage.trace is not None:
            spec["trace"] = stage.trace
        return _weir.SweepRuns(json.dumps(spec), stage.folder)

    def place(self) -> None:
        """Finds where each scenario has the policy."""
        values = {knob.key: knob.old for knob in self.knobs}
        for stage in self.scenarios:
            runs = self.runs_of(stage, values, (self.seed, 1), ["link.utilisation"])
            stage.places = runs.places() or [""]

    def policy_of(self, candidate: Candidate) -> dict[str, Any]:
        """Returns the policy with the values of a candidate, without its promises."""
        return changed_table(self.table, self.knobs, candidate.values)

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
