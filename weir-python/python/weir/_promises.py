"""What a policy promises itself: conditions of its tuning, and what tests and bounds say of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping, Sequence, Union

from . import _weir
from ._captured import scenario_of
from ._wanted import Condition

PathLike = Union[str, "os.PathLike[str]"]

RUNS_MIN = 2
"""The fewest runs that have an interval."""


def scenarios_of(
    table: Mapping[str, Any], folder: PathLike, place: PathLike
) -> dict[str, tuple[str, PathLike]]:
    """Returns the scenarios of the promises of a policy that lies in `folder`, by their names, each
    with the folder of its files: that of a capture is below `place`."""
    texts = {}
    for row in table.get("promise", []):
        path = Path(folder) / row["under"]
        try:
            texts[row["under"]] = scenario_of(path, None, place)
        except OSError as error:
            raise OSError(
                f"the promise `{row['that']}` needs {path}, which cannot be read: {error.strerror}; "
                "say where the policy lies with `policy_dir`, or take the promise out"
            ) from error
    return texts


def conditions_of(table: Mapping[str, Any]) -> tuple[list[Condition], list[Mapping[str, Any]]]:
    """Returns the promises as conditions, and those that only a test can decide.

    These are promises about metrics that a search does not measure: fairness, the largest backlog,
    and one class beside another.
    """
    conditions: list[Condition] = []
    others: list[Mapping[str, Any]] = []
    for row in table.get("promise", []):
        condition: Condition | None
        try:
            condition = Condition.of(row["that"])
        except ValueError:
            condition = None
        if condition is None or not condition.steers:
            others.append(row)
        else:
            condition.under = row["under"]
            conditions.append(condition)
    return conditions, others


def tested(table: Mapping[str, Any], promises: Sequence[Mapping[str, Any]], folder: PathLike,
           runs: int) -> list[str]:
    """Returns the verdicts on these promises with this policy, as `weir.test` gives them."""
    if not promises:
        return []
    text = _weir.write_toml(json.dumps({**table, "promise": list(promises)}))
    rows = _weir.test(text, folder, runs=max(RUNS_MIN, runs))["promises"]
    return [row["verdict"] for row in rows]


def bounds_of(table: Mapping[str, Any], conditions: Sequence[Condition]) -> list[float | None]:
    """Returns the longest delay that a bound allows, in s, of each condition that it decides.

    That is a condition which holds for any traffic within the declared arrivals. A rate or a loss
    depends on what is offered, so no bound decides it.
    """
    rows = {row["class"]: row for row in _weir.bounds(_weir.write_toml(json.dumps(table)))}
    found: list[float | None] = []
    for condition in conditions:
        name, _, _ = condition.metric.partition(".delay.")
        delay_us = rows.get(name, {}).get("delay_us")
        delay = None if delay_us is None else delay_us / 1e6
        if delay is None or not condition.below or ".delay." not in condition.metric:
            found.append(None)
        else:
            found.append(delay if delay < condition.limit else None)
    return found
