"""Quantities as policies write them: a number and a unit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Sequence

SCALES = {
    "rate": {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9, "Tbit/s": 10**12,
             "B/s": 8, "kB/s": 8 * 10**3, "MB/s": 8 * 10**6, "GB/s": 8 * 10**9},
    "time": {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9,
             "h": 3600 * 10**9},
    "size": {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10,
             "MiB": 2**20, "GiB": 2**30},
    "packets": {"packet": 1, "packets": 1},
    "share": {"%": 1},
    "number": {"": 1},
}
"""What a unit is worth in the smallest one of its kind."""
WRITTEN = re.compile(r"^\s*([0-9][0-9_]*(?:\.[0-9_]*)?)(\s*)(\S*)\s*$")


@dataclass(frozen=True)
class Quantity:
    """A number with its unit; texts have the space between both that they were written with."""

    number: float
    unit: str
    kind: str
    space: str = " "

    @property
    def worth(self) -> float:
        """The value in the smallest unit of its kind."""
        return self.number * SCALES[self.kind][self.unit]

    @classmethod
    def of(cls, value: Any) -> Quantity | None:
        """Reads a value as a policy has it; None where it is no number and no quantity."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return cls(float(value), "", "number")
        found = WRITTEN.match(value) if isinstance(value, str) else None
        kinds = [kind for kind, units in SCALES.items() if found and found[3] in units]
        if not found or not kinds:
            return None
        return cls(float(found[1].replace("_", "")), found[3], kinds[0], found[2])


def in_one_unit(values: Sequence[Any]) -> tuple[list[float], str] | None:
    """Returns the numbers of values in the unit of the first; None if one is of another kind."""
    read = [Quantity.of(value) for value in values]
    known = [one for one in read if one is not None]
    if not known or len(known) < len(read) or len({one.kind for one in known}) > 1:
        return None
    unit = known[0].unit
    return [one.worth / SCALES[one.kind][unit] for one in known], unit
