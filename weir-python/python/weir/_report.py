"""Reports as dicts that know their tables and how Jupyter shows them."""

from __future__ import annotations

import html
from typing import Any, Iterable, Mapping

from ._weir import Table


class Report(dict[str, Any]):
    """The report of a run: a dict, as docs/sim-report.md describes it, with its tables.

    `packets`, `segments` (of a `flow`) and `series` are tables if `simulate` was asked for them.
    """

    packets: Table
    segments: Table
    series: Table

    def table(self, key: str = "classes") -> Table:
        """Returns the rows at `key`, such as "classes" or "sources", as a table.

        The keys of a row's dicts are joined: `delay_us_p99` is `row["delay_us"]["p99"]`.
        """
        return table_of(self[key])

    def plot(self, axes: Any = None) -> Any:
        """Draws the delays of each class (matplotlib); `axes` are those to draw on."""
        from . import _plot

        return _plot.report(self, axes)

    def _repr_html_(self) -> str:
        link = self["link"]
        head = (
            f"{self['scenario']}: {link['scheduler']} at {link['rate_bps'] / 1e6:g} Mbit/s, "
            f"seed {self['seed']}, utilisation {link['utilisation'] * 100:.2f} %"
        )
        rows = [
            {
                "class": row["name"],
                "sent Mbit/s": row["sent"]["bps"] / 1e6,
                "dropped": row["dropped"]["total"]["packets"],
                "p50 ms": row["delay_us"]["p50"] / 1e3,
                "p99 ms": row["delay_us"]["p99"] / 1e3,
                "max ms": row["delay_us"]["max"] / 1e3,
            }
            for row in self["classes"]
        ]
        columns = {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
        return f"<p>{html.escape(head)}</p>{table_html(columns, len(rows))}"


class Comparison(dict[str, Any]):
    """Schedulers compared: a dict, as docs/compare.md describes it, with its tables."""

    def table(self) -> Table:
        """A row for each class under each scheduler."""
        return table_of({"scheduler": row["scheduler"], **leaf} for row in self["rows"]
                        for leaf in (row["result"] or {"leaves": []})["leaves"])

    def plot(self, what: str = "rate", axes: Any = None) -> Any:
        """Draws what each class got under each scheduler (matplotlib): its "rate" beside that of the
        fluid ideal, or its "delay", the 99th percentile; `axes` are those to draw on."""
        from . import _plot

        return _plot.comparison(self, what, axes)

    def _repr_html_(self) -> str:
        columns = self.table().to_dict()
        return table_html(columns, len(next(iter(columns.values()), [])))


class Inferred(dict[str, Any]):
    """What the applications of a capture wanted: a dict, as docs/guide/what-if.md describes it."""

    flows: Table
    """A row for each flow."""
    exchanges: Table
    """A row for each request with its response."""
    scenario: str
    """The scenario in which the sources react."""

    def _repr_html_(self) -> str:
        rows = self["counts"]["rows"]
        columns = {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
        return table_html(columns, len(rows))


class WhatIf(dict[str, Any]):
    """What other policies would have done to a capture: a dict, as docs/guide/what-if.md has it."""

    rows: Table
    """A row for each forecast: of a policy, for a figure of a group of flows."""
    unlike: Table
    """A row for each flow that the simulation of the known case does not reproduce."""

    def _repr_html_(self) -> str:
        columns = self.rows.to_dict()
        shown = [at for at, by in enumerate(columns["by"]) if by == "class"]
        heads = ["group", "measure", "captured", "simulated", "policy", "value", "bar", "verdict"]
        return table_html({key: [columns[key][at] for at in shown] for key in heads}, len(shown))


def table_of(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Returns dicts as a table, with a column for each key; what a row lacks is null.

    Lists in a row are left out, for a cell holds one value.
    """
    flat = [dict(_flat(row, "")) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return Table({name: [row.get(name) for row in flat] for name in names})


def _flat(row: Mapping[str, Any], head: str) -> Iterable[tuple[str, Any]]:
    for key, value in row.items():
        name = f"{head}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}_")
        elif not isinstance(value, list):
            yield name, value


def table_html(columns: Mapping[str, list[Any]], count: int) -> str:
    """Returns columns as a table in HTML; `count` rows are there in all."""

    def cell(value: Any) -> str:
        text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
        return f"<td>{html.escape(text)}</td>"

    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    shown = list(zip(*columns.values()))
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in shown)
    more = f"<p>{count - len(shown)} rows more</p>" if count > len(shown) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
