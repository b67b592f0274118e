"""What is wanted of metrics: conditions to be met, and objectives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Sequence

OBJECTIVE = re.compile(r"^\s*(min|max)\s+(\S+)\s*$")
CONDITION = re.compile(r"^\s*(\S+)\s*(<=?|>=?)\s*([0-9.]+)\s*(\S*)\s*$")
GUARDED = re.compile(r"^[^.]+\.(rate|drops|loss|delay\.\w+)$")
UNITS = {
    "%": 0.01, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "bit/s": 1.0, "kbit/s": 1e3,
    "Mbit/s": 1e6, "Gbit/s": 1e9, "packets": 1.0,
}
KINDS = {"delay": ("us", "µs", "ms", "s"), "rate": ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"),
         "part": ("%",), "count": ("packets",)}
"""The units of each kind of metric."""
REFUSED = -1e15
"""The score of what cannot be run."""


def kind_of(metric: str) -> str:
    """Returns the kind of a metric, by the end of its name."""
    end = metric.rpartition(".")[2]
    if ".delay." in metric or ".behind.p" in metric:
        return "delay"
    if end in ("rate", "goodput"):
        return "rate"
    return "count" if end in ("drops", "backlog") else "part"


@dataclass
class Condition:
    """What is wanted of a metric, such as `voice.delay.p99 < 10 ms`."""

    text: str
    metric: str
    below: bool
    limit: float
    unit: str
    under: str | None = None
    """The scenario of the policy's promise that it is; None for a goal, which is over all."""

    @property
    def steers(self) -> bool:
        """Whether the search measures it as promises do: a class, or what is behind the link."""
        return self.guard or self.metric.startswith("link.behind.")

    @property
    def guard(self) -> bool:
        """Whether it is about a class in a way that promises and guards of a link know."""
        return bool(GUARDED.match(self.metric))

    @classmethod
    def of(cls, text: str) -> Condition:
        """Reads a condition."""
        found = CONDITION.match(text)
        if not found:
            raise ValueError(f"`{text}` is no condition; write one as `voice.delay.p99 < 10 ms`")
        units = KINDS[kind_of(found[1])]
        if found[4] not in units:
            raise ValueError(f"`{text}`: `{found[1]}` has the unit {' or '.join(units)}, "
                             f"and not `{found[4]}`")
        try:
            limit = float(found[3]) * UNITS[found[4]]
        except ValueError:
            raise ValueError(f"`{text}`: `{found[3]}` is no number") from None
        if limit <= 0:
            raise ValueError(f"`{text}`: the limit is not above 0")
        return cls(text.strip(), found[1], found[2][0] == "<", limit, found[4])

    def margin(self, value: float | None) -> float:
        """Returns how far it is met, as a part of the limit; below 0 it is broken."""
        if value is None:
            return -1.0
        return 1 - value / self.limit if self.below else value / self.limit - 1

    def worst(self, values: Sequence[float | None]) -> float | None:
        """Returns the worst of several values."""
        known = [value for value in values if value is not None]
        if len(known) < len(values) or not known:
            return None
        return max(known) if self.below else min(known)

    def in_unit(self, value: float | None) -> float | None:
        """Returns a value of its metric in its unit."""
        return None if value is None else value / UNITS[self.unit]

    def write(self, value: float | None) -> str:
        """Writes a value of its metric in its unit."""
        return "none" if value is None else f"{self.in_unit(value):.4g} {self.unit}".strip()


@dataclass
class Objective:
    """What is to be as small or as large as can be, such as `max bulk.rate`; or the change itself."""

    text: str
    metric: str
    sign: float

    @classmethod
    def of(cls, text: str) -> Objective | None:
        """Reads an objective; None where the text is none."""
        found = OBJECTIVE.match(text)
        return cls(text.strip(), found[2], 1.0 if found[1] == "max" else -1.0) if found else None

    @property
    def unit(self) -> str:
        """The unit in which its metric is told."""
        return {"rate": "Mbit/s", "delay": "ms", "part": "%", "count": "packets"}[kind_of(self.metric)]

    def told(self, score: float) -> float | None:
        """Returns the metric of a score, in its unit."""
        return None if score == REFUSED else self.sign * score / UNITS[self.unit]

    def score(self, values: Sequence[float | None]) -> float:
        """Returns the mean of several values, the more the better."""
        known = [value for value in values if value is not None]
        return REFUSED if not known else self.sign * sum(known) / len(known)
