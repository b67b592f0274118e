"""Tuning: values of a policy that meet goals, found by search and proved with other seeds."""

from __future__ import annotations

import json
import math
import os
import warnings
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence, Union

from . import _weir
from ._engines import Engine
from ._knobs import Knob, changed_table, knobs_of, library, number_of, written
from ._sweep import sweep
from ._wanted import REFUSED, Condition, Objective

PathLike = Union[str, "os.PathLike[str]"]

CANDIDATES = 10
"""The most candidates that are proved, the best first."""
RUNS_MAX = 1_000_000
"""The most trials, and the most runs of a scenario in one."""
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

    def kept(self, spare: float = 0.0) -> bool:
        """Whether every condition is met, with so much to spare."""
        return all(margin >= spare for margin in self.margins)


@dataclass
class Tuned:
    """What a search found."""

    policy: str
    """The policy with the values of the pick, and a comment beside each."""
    conditions: list[Condition]
    objectives: list[Objective]
    tried: list[Candidate]
    pick: Candidate
    proof: Candidate
    """The pick's results with fresh seeds."""
    runs: int
    """How many runs the proof has."""
    words: str
    """What changed, what it does to each class, and which condition binds."""
    front: list[Candidate] = field(default_factory=list)
    """Candidates that keep all conditions and that no other one exceeds in every objective."""

    @property
    def met(self) -> bool:
        """Whether the pick keeps every condition with fresh seeds, too."""
        return self.pick.kept() and self.proof.kept()

    def settings(self) -> dict[str, Any]:
        """The changes, for `Link.set`."""
        return dict(self.pick.values)

    def guards(self) -> list[str]:
        """The conditions, for `Link.set`: the link undoes a change that breaks one."""
        return [condition.text for condition in self.conditions]

    def table(self) -> _weir.Table:
        """The Pareto front: values and results of each candidate."""
        columns: dict[str, list[Any]] = {"candidate": [row.number for row in self.front]}
        for key in self.pick.values:
            columns[key] = [str(row.values[key]) for row in self.front]
        for place, condition in enumerate(self.conditions):
            columns[condition.metric] = [row.results[place] for row in self.front]
        for place, objective in enumerate(self.objectives):
            columns[objective.text] = [objective.sign * row.scores[place] for row in self.front]
        return _weir.Table(columns)

    def __str__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def tune(
    policy: str,
    goals: Sequence[str],
    over: Sequence[str],
    keep: Sequence[str] = (),
    *,
    free: Sequence[str] = (),
    base_dir: PathLike = "",
    trials: int = 100,
    seeds: int = 3,
    fresh: int = 20,
    spare: float = 0.02,
    seed: int = 1,
    engine: str | Engine = "local",
) -> Tuned:
    """Searches values of a policy that meet the goals, with Optuna (`pip install weir[tune]`).

    `policy` and each scenario of `over` are texts; a scenario runs with this policy instead of its
    own. A goal is a condition, such as `voice.delay.p99 < 10 ms`, or an objective, such as
    `max bulk.rate`, which is a mean over all runs; without an objective the policy changes as
    little as can be. `keep` are further conditions. A condition holds if it does in every run; the
    search wants `spare` of the limit besides. `free` are patterns of keys that may change, such as
    `class.*.rate`; by default all numbers and quantities of classes. Each trial runs all scenarios
    with `seeds` seeds, and the pick is proved with `fresh` others.
    """
    if not goals:
        raise ValueError("there is no goal")
    for name, count in (("trials", trials), ("seeds", seeds), ("fresh", fresh)):
        if not 1 <= count <= RUNS_MAX:
            raise ValueError(f"`{name}` is {count}; write 1 to {RUNS_MAX}")
    search = Search(policy, goals, keep, (over, base_dir), engine, seed, spare)
    if not search.scenarios:
        raise ValueError("there is no scenario to tune over")
    knobs = knobs_of(search.table, list(free) or ["class.*"])
    if not knobs:
        raise ValueError("no number or quantity of the policy has a key that matches `free`")
    tried = search.try_all(knobs, trials, seeds)
    best = min(tried, key=search.rank)
    if best.kept(spare):
        tried += search.simplify(best, knobs, seeds)
    # What kept its conditions may break them with other seeds: then the next one is proved.
    ranked = sorted(tried, key=search.rank)[:CANDIDATES]
    pick, proof = ranked[0], None
    for candidate in ranked:
        if not candidate.kept(spare):
            break
        found = search.evaluate(candidate.number, candidate.values, knobs, (1_000_000 + seed, fresh))
        if proof is None or found.kept():
            pick, proof = candidate, found
        if found.kept():
            break
    if proof is None:
        proof = search.evaluate(pick.number, pick.values, knobs, (1_000_000 + seed, fresh))
    runs = fresh * len(search.scenarios)
    before = search.evaluate(-1, {knob.key: knob.old for knob in knobs}, knobs,
                             (1_000_000 + seed, fresh))
    words = search.explain(knobs, before, proof, runs)
    text = written(policy, knobs, pick.values, (goals, runs, proof.kept()))
    return Tuned(text, search.conditions, search.objectives, tried, pick, proof, runs, words,
                 front_of(tried, spare))


class Search:
    """A policy, the conditions on it, and the scenarios that try it."""

    def __init__(self, policy: str, goals: Sequence[str], keep: Sequence[str],
                 over: tuple[Sequence[str], PathLike], engine: str | Engine, seed: int,
                 spare: float) -> None:
        self.policy, self.table = policy, _weir.parse_toml(policy)
        objectives = [Objective.of(goal) for goal in goals]
        self.objectives = [one for one in objectives if one is not None]
        wanted = [goal for goal, one in zip(goals, objectives) if one is None]
        self.conditions = [Condition.of(text) for text in (*wanted, *keep)]
        self.scenarios = [_weir.parse_toml(text) for text in over[0]]
        self.base_dir, self.engine, self.seed, self.spare = over[1], engine, seed, spare

    def rank(self, candidate: Candidate) -> tuple[bool, float, float]:
        """Orders candidates, the best first: by the first objective, or by what is broken least."""
        if not candidate.kept(self.spare):
            return True, -min(candidate.margins), candidate.change
        return False, -candidate.scores[0], candidate.change

    def evaluate(self, number: int, values: Mapping[str, Any], knobs: Sequence[Knob],
                 seeds: tuple[int, int]) -> Candidate:
        """Runs all scenarios with these values and so many seeds from the first on."""
        changed = sum(abs(math.log(number_of(values[knob.key]) / knob.number)) for knob in knobs
                      if knob.number > 0 and number_of(values[knob.key]) > 0)
        policy = changed_table(self.table, knobs, values)
        text = _weir.write_toml(json.dumps(policy))
        conditions = self.conditions
        if any(found["severity"] == "error" for found in _weir.check(text)):
            # Such a policy is refused; so it is worse than any that breaks a condition.
            margins, scores = [REFUSED] * len(conditions), [REFUSED] * max(1, len(self.objectives))
            return Candidate(number, dict(values), [None] * len(conditions), margins or [REFUSED],
                             scores, changed)
        names = sorted({one.metric for one in conditions} | {one.metric for one in self.objectives})
        columns: dict[str, list[float | None]] = {name: [] for name in names}
        first, count = seeds
        for scenario in self.scenarios:
            text = _weir.write_toml(json.dumps({**scenario, "policy": policy}))
            done = sweep(text, {}, replications=count, metrics=names, seed=first,
                         base_dir=self.base_dir, engine=self.engine, progress=False)
            rows = done.rows.to_dict()
            for name in names:
                columns[name] += rows[name]
        results = [condition.worst(columns[condition.metric]) for condition in conditions]
        margins = [one.margin(value) for one, value in zip(conditions, results)]
        scores = [one.score(columns[one.metric]) for one in self.objectives] or [-changed]
        return Candidate(number, dict(values), results, margins, scores, changed)

    def try_all(self, knobs: Sequence[Knob], trials: int, seeds: int) -> list[Candidate]:
        """Tries so many values, first those that the policy has."""
        optuna: Any = library("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            # Conditions of a sampler are called experimental.
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=self.seed, multivariate=True, n_startup_trials=min(20, 2 + 4 * len(knobs)),
                constraints_func=lambda trial: trial.user_attrs["broken"],
            )
            directions = ["maximize"] * max(1, len(self.objectives))
            study = optuna.create_study(directions=directions, sampler=sampler)
        study.enqueue_trial({knob.key: knob.number for knob in knobs})
        known: dict[tuple[str, ...], Candidate] = {}
        tried = []
        for number in range(trials):
            trial = study.ask()
            values = {knob.key: knob.suggest(trial) for knob in knobs}
            key = tuple(str(value) for value in values.values())
            candidate = known.get(key)
            if candidate is None:
                candidate = self.evaluate(number, values, knobs, (self.seed, seeds))
                known[key] = candidate
                tried.append(candidate)
            trial.set_user_attr("broken", [self.spare - one for one in candidate.margins])
            study.tell(trial, candidate.scores)
        return tried

    def simplify(self, best: Candidate, knobs: Sequence[Knob], seeds: int) -> list[Candidate]:
        """Takes back what is not needed, value by value: first all of it, then by halves."""
        found = []
        for knob in knobs:
            low, high = knob.number, number_of(best.values[knob.key])
            for step in range(HALVES + 1):
                middle = low if step == 0 else math.sqrt(low * high) if low > 0 < high else low
                values = {**best.values, knob.key: knob.write(middle)}
                if values == best.values:
                    break
                candidate = self.evaluate(best.number, values, knobs, (self.seed, seeds))
                worse = [now < was - SLACK * abs(was) for now, was in zip(candidate.scores, best.scores)]
                if candidate.kept(self.spare) and not any(worse):
                    best, high = candidate, middle
                    found.append(candidate)
                else:
                    low = middle
                if step == 0 and best is candidate:
                    break
        return found

    def explain(self, knobs: Sequence[Knob], before: Candidate, after: Candidate, runs: int) -> str:
        """Says what changed, what comes of it, and which condition binds."""
        lines = []
        for knob in knobs:
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
            means = (objective.sign * row.scores[place] for row in (before, after))
            lines.append(f"  {objective.text}, mean: " + ", ".join(f"{mean:.6g}" for mean in means))
        lines += [f"  {line}" for line in self.classes(knobs, before, after)]
        if self.conditions:
            binding = min(range(len(self.conditions)), key=lambda place: after.margins[place])
            lines.append(f"Closest to its limit: `{self.conditions[binding].text}`.")
        return "\n".join(lines)

    def classes(self, knobs: Sequence[Knob], before: Candidate, after: Candidate) -> list[str]:
        """Says what each class gains and loses, by simulation of each scenario and by bounds."""
        lines = []
        policies = [changed_table(self.table, knobs, row.values) for row in (before, after)]
        for number, scenario in enumerate(self.scenarios):
            reports = [_weir.simulate(_weir.write_toml(json.dumps({**scenario, "policy": policy})),
                                      self.base_dir, self.seed) for policy in policies]
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


def front_of(tried: Sequence[Candidate], spare: float) -> list[Candidate]:
    """Returns the candidates that keep all conditions and that none exceeds in every objective."""
    kept = [row for row in tried if row.kept(spare)]

    def exceeds(one: Candidate, other: Candidate) -> bool:
        pairs = list(zip(one.scores, other.scores))
        return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)

    return [row for row in kept if not any(exceeds(other, row) for other in kept)]

