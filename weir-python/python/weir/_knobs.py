"""Values of a policy that may change: which, in what range, and how they are written."""

from __future__ import annotations

import copy
import fnmatch
import importlib
import math
import warnings
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from . import _weir
from ._units import Quantity

SPAN = 8.0
"""A value is tried from this part of what is written up to so many times that."""
WHOLE = ("packet", "packets", "B")
"""Units of which there are no parts."""


@dataclass
class Knob:
    """A value of the policy that may change."""

    key: str
    path: tuple[str, ...]
    old: Any
    number: float
    unit: str | None
    low: float
    high: float
    space: str = " "
    """What stands between number and unit."""

    @property
    def whole(self) -> bool:
        """Whether it has no parts."""
        return self.unit in WHOLE or (self.unit is None and isinstance(self.old, int))

    def suggest(self, trial: Any) -> Any:
        """Asks the search for a value, and writes it as the policy does."""
        # A scale of ratios, unless it begins at 0.
        log = self.low > 0
        if self.whole:
            low, high = math.ceil(self.low), math.floor(self.high)
            chosen = trial.suggest_int(self.key, low, max(low, high), log=log)
            return self.write(chosen)
        return self.write(trial.suggest_float(self.key, self.low, self.high, log=log))

    def write(self, number: float) -> Any:
        """Writes a number with the unit, at three digits; that of the policy as the policy does."""
        digits = 0 if self.whole or number <= 0 else max(0, 2 - math.floor(math.log10(number)))
        rounded = round(number, digits)
        if rounded == self.number:
            return self.old
        if self.unit is None:
            return int(rounded) if self.whole else rounded
        text = f"{rounded:.{digits}f}"
        return f"{text.rstrip('0').rstrip('.') if digits else text}{self.space}{self.unit}"


def library(name: str) -> Any:
    """Returns a library that only tuning needs."""
    try:
        with warnings.catch_warnings():
            # Such as tqdm's, which Optuna uses and this module does not.
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"tuning needs {name}: `pip install './weir-python[tune]'` in a checkout of Weir") from error


def knobs_of(policy: Mapping[str, Any], patterns: Sequence[str]) -> list[Knob]:
    """Returns the values whose keys match, with the ranges in which they are tried."""
    keyword = policy.get("link", {}).get("scheduler")
    rows = [row for entry in _weir.schedulers() if entry["keyword"] == keyword
            for row in entry["parameters"]]
    rows += [row for entry in _weir.droppers() for row in entry["parameters"]]
    kinds = {row["name"]: row["kind"] for row in reversed(rows)}
    wanted = [f"class.*.{one}" if one.split(".")[0] not in ("class", "link") else one
              for one in patterns]
    knobs = []
    for path, value in _leaves(policy, ()):
        key = ".".join(path)
        if not any(fnmatch.fnmatchcase(key, one) for one in wanted) or path[-1] not in kinds:
            continue
        number, unit, space = number_of(value), None, " "
        if isinstance(value, str):
            found = Quantity.of(value)
            if found is None or not found.unit:
                continue
            unit, space = found.unit, found.space
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        kind = kinds[path[-1]]
        low, high = number / SPAN, number * SPAN
        if kind["type"] == "number" and unit is None:
            low, high = (max(low, kind["min"]), min(max(high, SPAN), kind["max"]))
            low = kind["min"] if number == 0 else low
        if unit in WHOLE:
            low = max(1.0, low)
        knobs.append(Knob(key, path, value, number, unit, low, high, space))
    for written, pattern in zip(patterns, wanted):
        if not any(fnmatch.fnmatchcase(knob.key, pattern) for knob in knobs):
            raise ValueError(f"no number or quantity of the policy has a key that matches `{written}`")
    return knobs


def _leaves(value: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in _leaves(each, (*path, key))]
    return [(path, value)]


def path_of(*keys: str) -> str:
    """Returns the path of a key as a sweep writes it: with quotes around what has points."""
    return ".".join(f'"{key}"' if "." in key else key for key in keys)


def number_of(value: Any) -> float:
    """Returns the number of a value, without its unit; 0 where it has none."""
    found = Quantity.of(value)
    return 0.0 if found is None else found.number


def changed_table(policy: Mapping[str, Any], knobs: Sequence[Knob],
                  values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the policy with other values."""
    made: dict[str, Any] = copy.deepcopy(dict(policy))
    made.pop("promise", None)
    for knob in knobs:
        place = made
        for key in knob.path[:-1]:
            place = place[key]
        place[knob.path[-1]] = values[knob.key]
    return made


def written(policy: str, knobs: Sequence[Knob], values: Mapping[str, Any], head: str) -> str:
    """Writes the values into the text, each with a comment; the rest stays as it is.

    An inline table has no place for comments inside, so they stand at the end of its line.
    """
    tomlkit: Any = library("tomlkit")
    document = tomlkit.parse(policy)
    for knob in knobs:
        if values[knob.key] == knob.old:
            continue
        place: Any = document
        line, rest = None, ""
        for depth, key in enumerate(knob.path[:-1]):
            place = place[key]
            if line is None and isinstance(place, tomlkit.items.InlineTable):
                line, rest = place, ".".join(knob.path[depth + 1:])
        before = line if line is not None else place.item(knob.path[-1])
        space, own = before.trivia.comment_ws or " ", before.trivia.comment.lstrip("# ")
        place[knob.path[-1]] = values[knob.key]
        after = line if line is not None else place.item(knob.path[-1])
        name = f"{rest} " if rest else ""
        after.comment(f"tuned, {name}was {knob.old}" + (f"; {own}" if own else ""))
        after.trivia.comment_ws = space
    return f"# {head}\n{tomlkit.dumps(document)}"
