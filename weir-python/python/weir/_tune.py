"""Tuning: values of a policy that meet goals, found by search and proved with other seeds."""

from __future__ import annotations

import math
import operator
import os
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any, Sequence, Union

from . import _weir
from ._captured import scenario_of
from ._engines import Engine
from ._given import Given, file_of, folder_of, listed, refused, text_of, traces_of
from ._knobs import knobs_of, library, written
from ._search import PROOFS, Candidate, Search
from ._sweep import Bar, engine_of
from ._wanted import Condition, Objective
from ._words import Found

PathLike = Union[str, "os.PathLike[str]"]

LIBRARIES = ("optuna", "tomlkit")
"""What a search and its policy need."""
RUNS_MAX = 1_000_000
"""The most trials, and the most runs of a scenario in one."""


@dataclass
class Tuned:
    """What a search found."""

    policy: str
    """The policy with the values of the pick, and a comment beside each."""
    conditions: list[Condition]
    objectives: list[Objective]
    tried: list[Candidate]
    pick: Candidate
    before: Candidate
    """The results of the policy as it was, with the seeds of the proof."""
    proof: Candidate
    """The pick's results with fresh seeds."""
    changes: dict[str, Any]
    """The values of the pick that differ from the policy's."""
    runs: int
    """How many runs the proof has."""
    search_runs: int
    """How many runs the search had."""
    words: str
    """What changed, what it does to each class, and which condition binds."""
    bounds: list[float | None]
    """The longest delay of any traffic within the declared arrivals, in s, of each condition that
    it decides."""
    promises: list[dict[str, str]]
    """The policy's promises that are no conditions, with their verdicts `before` and `after`."""
    front: list[Candidate] = field(default_factory=list)
    """Candidates that keep all conditions and that no other one exceeds in every figure."""

    @property
    def met(self) -> bool:
        """Whether the pick keeps every condition with fresh seeds, too, and the policy's promises."""
        kept = all(row["after"] == "kept" for row in self.promises)
        return self.pick.kept() and self.proof.kept() and kept

    def settings(self) -> dict[str, Any]:
        """The values of the pick, also those that stay, for `Link.set`.

        So the link gets what was tried, also where it has other values than the policy. That all
        else of its policy is the same, `weir tune --canary` checks, and `weir.diff` can.
        """
        return dict(self.pick.values)

    def guards(self) -> list[str]:
        """The conditions, for `Link.set`: the link undoes a change that breaks one.

        A link knows rates, delays, drops and losses of classes; other conditions are left out.
        """
        return [condition.text for condition in self.conditions if condition.guard]

    def table(self) -> _weir.Table:
        """The Pareto front: values and results of each candidate."""
        columns: dict[str, list[Any]] = {"candidate": [row.number for row in self.front]}
        for key in self.pick.values:
            columns[key] = [str(row.values[key]) for row in self.front]
        for place, condition in enumerate(self.conditions):
            columns[condition.metric] = [row.results[place] for row in self.front]
        for place, objective in enumerate(self.objectives):
            columns[objective.metric] = [objective.sign * row.scores[place] for row in self.front]
        return _weir.Table(columns)

    def to_dict(self) -> dict[str, Any]:
        """All of it as `weir tune --format json` prints it; docs/tuning.md has the keys."""

        conditions = [
            {
                "condition": condition.text, "limit": condition.in_unit(condition.limit), "spare": self.proof.margins[place],
                "before": condition.in_unit(self.before.results[place]),
                "after": condition.in_unit(self.proof.results[place]),
                "under": condition.under, "guard": condition.guard,
                "bound": condition.in_unit(self.bounds[place]),
            }
            for place, condition in enumerate(self.conditions)
        ]
        return {
            "met": self.met, "words": self.words, "policy": self.policy, "changes": self.changes,
            "conditions": conditions, "promises": self.promises, "objectives": [f"{one.text}, {one.unit}" for one in self.objectives],
            "runs": self.runs, "search_runs": self.search_runs, "pick": self.pick.number,
            "front": [one.to_dict(self.conditions, self.objectives) for one in self.front],
            "tried": [one.to_dict(self.conditions, self.objectives) for one in self.tried],
        }

    def plot(self, axes: Any = None) -> Any:
        """Draws all candidates over the first two of objectives and conditions (matplotlib)."""
        from . import _plot

        return _plot.tuned(self, axes)

    def __str__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def tune(
    policy: Given,
    goals: str | Sequence[str],
    over: Given | Sequence[Given],
    keep: str | Sequence[str] = (),
    *,
    free: str | Sequence[str] = (),
    base_dir: PathLike | Sequence[PathLike] | None = None,
    policy_dir: PathLike | None = None,
    traces: PathLike | Sequence[PathLike] = (),
    trials: int = 100,
    seeds: int = 3,
    fresh: int = 20,
    spare: float = 0.005,
    seed: int = 1,
    engine: str | Engine = "local",
    progress: bool | None = None,
) -> Tuned:
    """Searches values of a policy that meet the goals, with Optuna (`pip install './weir-python[tune]'`).

    `policy` and each scenario of `over` are texts, files (`pathlib.Path`) or objects; the file of a
    capture or a record stands for what `weir infer` finds in it; a scenario runs
    with this policy instead of its own (a network wherever a link names its file), and finds its files relative to `base_dir`, one folder for
    all or one for each, by default that of its own file. A goal is a
    condition, such as `voice.delay.p99 < 10 ms`, or an objective, such as `max bulk.rate`, which is
    a mean over all runs; without an objective the policy changes as little as can be. `keep` are
    further conditions, and so are the policy's own promises, each under its scenario, which is found
    relative to `policy_dir`, by default the folder of the policy's file. With `traces`, files of rates
    over time or folders of them, each scenario of `over` runs with each of them in place of the
    capacity of its bottlenecks; promises have their scenarios as they are written. A condition holds if it does in every run; the search wants `spare` of the
    limit besides, or more where other seeds show to be worse. `free` are patterns of keys that may
    change, such as `class.*.rate`; by default all numbers and quantities of classes. Each trial runs
    all scenarios with `seeds` seeds, and the pick is proved with `fresh` others.
    """
    goals, over, keep, free = listed(goals), listed(over), listed(keep), listed(free)
    if not goals:
        raise ValueError("there is no goal")
    for name, count in (("trials", trials), ("seeds", seeds), ("fresh", fresh)):
        if not 1 <= count <= RUNS_MAX:
            raise ValueError(f"`{name}` is {count}; write 1 to {RUNS_MAX}")
    if not over:
        raise ValueError("there is no scenario to tune over")
    folders: list[PathLike | None]
    if base_dir is None or isinstance(base_dir, (str, os.PathLike)):
        folders = [base_dir] * len(over)
    else:
        folders = list(base_dir)
    if len(folders) != len(over):
        raise ValueError(f"`base_dir` has {len(folders)} folders for {len(over)} scenarios")
    with tempfile.TemporaryDirectory(prefix="weir-") as place:
        scenarios = [(*scenario_of(each, folder, place), file_of(each))
                     for each, folder in zip(over, folders)]
        folder, file, policy = folder_of(policy, policy_dir), file_of(policy), text_of(policy)
        search = Search(policy, goals, keep, scenarios, engine_of(engine, None, None))
        search.spread(traces_of(listed(traces)))
        search.file = file or os.path.join(folder, "policy.toml")
        if "link" not in search.table:
            raise ValueError("the policy has no [link]; a deployment is no policy, but names some")
        errors = [found for found in _weir.check(policy) if found["severity"] == "error"]
        if errors:
            raise refused(f"the policy has errors: {errors[0]['message']}", errors)
        # Before anything runs: what is missing is not found out after an hour.
        for name in LIBRARIES:
            library(name)
        search.promise(folder, place)
        search.seed, search.seeds, search.fresh = seed, seeds, fresh
        search.wanted, search.spares = spare, [spare] * len(search.conditions)
        search.knobs = knobs_of(search.table, list(free) or ["class.*"])
        search.place()
        bar = Bar(0, trials, sys.stderr.isatty() if progress is None else progress, "tuning")
        with search.engine:
            return _tuned(search, aims(search, goals, keep), trials, bar)


def aims(search: Search, goals: Sequence[str], keep: Sequence[str]) -> str:
    """Says what is wanted: goals, conditions besides, and promises of the policy."""
    promises = [one.text for one in search.conditions if one.under]
    promises += [row["that"] for row in search.promises]
    rows = [("", goals), ("keeping ", keep), ("with the promises ", promises)]
    return ", ".join(what + ", ".join(f"`{one.strip()}`" for one in each)
                     for what, each in rows if each)


def _tuned(search: Search, aims: str, trials: int, bar: Bar) -> Tuned:
    """Searches twice: the second time knowing how much worse other seeds are. Then it proves."""
    search.search(math.ceil(trials / 2), bar)
    search.learn(search.best(), search.check(search.best().values))
    search.search(math.ceil(trials * 3 / 4), bar)
    search.learn(search.best(), search.check(search.best().values))
    search.polish(trials, bar)
    search.simplify(search.best())
    bar.end()
    spent = search.runs
    chosen, proof = search.proved()
    before = search.prove({knob.key: knob.old for knob in search.knobs}, PROOFS).found
    found = Found.of(search, before, proof)
    changes = {knob.key: chosen.values[knob.key] for knob in search.knobs
               if chosen.values[knob.key] != knob.old}
    promises = [{"that": row["that"], "under": row["under"], "before": was, "after": now}
                for row, (was, now) in zip(search.promises, found.verdicts)]
    verdict = f"{'kept' if found.kept() else 'not kept'} in {found.runs} runs with fresh seeds."
    head = f"Tuned for {aims}: {verdict}"
    return Tuned(
        policy=written(search.policy, search.knobs, chosen.values, head),
        conditions=search.conditions, objectives=search.objectives, tried=search.tried, pick=chosen,
        before=before, proof=proof, changes=changes, runs=found.runs, search_runs=spent,
        words=found.explain(search), bounds=found.bounds, promises=promises,
        front=front_of(search.tried),
    )


def front_of(tried: Sequence[Candidate]) -> list[Candidate]:
    """Returns the candidates that keep all conditions and that none exceeds in every figure: in each
    objective, and in what each condition has to spare. Of equal ones the first counts."""
    kept = [row for row in tried if row.kept()]
    figures = [(*row.scores, *row.margins) for row in kept]

    def exceeded(place: int) -> bool:
        own = figures[place]
        return any(all(map(operator.ge, other, own)) and (other != own or number < place)
                   for number, other in enumerate(figures) if number != place)

    return [row for place, row in enumerate(kept) if not exceeded(place)]
