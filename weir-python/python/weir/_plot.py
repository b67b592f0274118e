"""Plots, by matplotlib: still pictures that show wherever a notebook does, without a script."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Sequence

from ._units import in_one_unit

if TYPE_CHECKING:
    from ._report import Comparison, Report
    from ._sweep import Sweep
    from ._search import Candidate
    from ._tune import Tuned


def axes_of(axes: Any) -> Any:
    """Returns these axes, or new ones."""
    if axes is not None:
        return axes
    try:
        # Without a type: it is there only where it was asked for.
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("plots need matplotlib: `pip install './weir-python[plot]'` in a checkout of Weir") from error
    return pyplot.subplots(figsize=(7, 4), layout="constrained")[1]


def sweep(done: Sweep, metric: str | None, x: str | None, axes: Any) -> Any:
    """Draws the means of a metric over one key, with bands of 95 %; a line for the other values.

    Quantities are drawn in the unit of the first; other values are labels, in their order.
    """
    summary = done.summary
    keys, metrics = summary["keys"], summary["metrics"]
    metric = metrics[0] if metric is None else metric
    if metric not in metrics:
        raise ValueError(f"`{metric}` was not measured; there are {', '.join(metrics)}")
    if not keys:
        raise ValueError("no key varies, so there is nothing to draw over")
    over = keys[0] if x is None else x
    if over not in keys:
        raise ValueError(f"`{over}` does not vary; there are {', '.join(keys)}")
    place, column = keys.index(over), metrics.index(metric)
    values = [point["values"][place] for point in summary["points"]]
    numbers = in_one_unit(values)
    places: list[Any] = [str(value) for value in values] if numbers is None else list(numbers[0])
    lines: dict[str, list[tuple[Any, float, float]]] = {}
    for point, at in zip(summary["points"], places):
        result = point["results"][column]
        if result is None:
            continue
        others = [str(value) for key, value in zip(keys, point["values"]) if key != over]
        row = (at, result["mean"], result["within"] or 0.0)
        lines.setdefault(", ".join(others), []).append(row)
    axes = axes_of(axes)
    for name, rows in lines.items():
        xs = [at for at, _, _ in rows]
        (line,) = axes.plot(xs, [mean for _, mean, _ in rows], label=name or None, marker=".")
        axes.fill_between(xs, [mean - within for _, mean, within in rows],
                          [mean + within for _, mean, within in rows],
                          color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel(f"{over}, {numbers[1]}" if numbers is not None and numbers[1] else over)
    axes.set_ylabel(metric)
    if len(lines) > 1:
        axes.legend()
    return axes


def comparison(done: Comparison, what: str, axes: Any) -> Any:
    """Draws bars of each class, one for each scheduler; lines are rates of the fluid ideal."""
    columns = {"rate": ("sent_bps", 1e-6, "sent, Mbit/s"), "delay": ("delay_p99_us", 1e-3, "p99, ms")}
    if what not in columns:
        raise ValueError(f"`{what}` is not drawn; there are {', '.join(columns)}")
    key, scale, label = columns[what]
    rows = [row for row in done["rows"] if row["result"]]
    if not rows:
        raise ValueError("no scheduler has a result")
    # Of several runs a figure is a mean with its interval.
    estimates = [[figure if isinstance(figure, dict) else {"mean": figure, "within": None}
                  for leaf in row["result"]["leaves"] for figure in [leaf[key]]] for row in rows]
    axes = axes_of(axes)
    width = 0.8 / len(rows)
    for number, (row, own) in enumerate(zip(rows, estimates)):
        places = [place - 0.4 + width * (number + 0.5) for place in range(len(own))]
        heights = [scale * one["mean"] for one in own]
        spread = None if all(one["within"] is None for one in own) else \
            [scale * (one["within"] or 0.0) for one in own]
        axes.bar(places, heights, width, yerr=spread, label=row["scheduler"])
        if what == "rate":
            ideals = [leaf["ideal_bps"] for leaf in row["result"]["leaves"]]
            ideals = [one["mean"] if isinstance(one, dict) else one for one in ideals]
            axes.hlines([scale * one for one in ideals], [at - width / 2 for at in places],
                        [at + width / 2 for at in places], colors="k")
    axes.set_xticks(range(len(estimates[0])), [leaf["name"] for leaf in rows[0]["result"]["leaves"]])
    axes.set_ylabel(label)
    axes.legend()
    return axes


def report(done: Report, axes: Any) -> Any:
    """Draws how long packets of each class took: its median, 90th and 99th percentile, and most."""
    rows = [row for row in done["classes"] if row["sent"]["packets"]]
    axes = axes_of(axes)
    names = [row["name"] for row in rows]
    for part in ("max", "p99", "p90", "p50"):
        axes.barh(names, [row["delay_us"][part] / 1e3 for row in rows], label=part)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("delay, ms")
    axes.legend()
    return axes


def tuned(done: Tuned, axes: Any) -> Any:
    """Draws the candidates around the front over the first two of objectives and conditions, with
    the limits of conditions as lines."""
    names = [f"{one.text}, {one.unit}" for one in done.objectives]
    names += [one.text for one in done.conditions]
    limits: list[float | None] = [None for _ in done.objectives]
    limits += [one.in_unit(one.limit) for one in done.conditions]

    def place(row: Candidate) -> tuple[float | None, float | None]:
        told = row.to_dict(done.conditions, done.objectives)
        figures = [*told["objectives"], *told["results"]]
        return (figures[1] if len(figures) > 1 else row.number), figures[0]

    axes = axes_of(axes)
    kinds = [
        ("a condition is broken", "0.7", [row for row in done.tried if not row.kept()]),
        ("all conditions are kept", "C0", [row for row in done.tried if row.kept()]),
        ("none exceeds it in every figure", "C2", done.front),
        ("picked", "C1", [done.pick]),
    ]
    for name, colour, rows in kinds:
        points = [(x, y) for x, y in map(place, rows) if x is not None and y is not None]
        axes.scatter([x for x, _ in points], [y for _, y in points], c=colour, label=name, s=16)
    across, up = (limits[1], limits[0]) if len(names) > 1 else (None, limits[0])
    shown = [place(row) for row in (*done.front, done.pick)]
    if len(names) > 1:
        axes.set_xlim(around([x for x, _ in shown], across))
    axes.set_ylim(around([y for _, y in shown], up))
    lines = [draw(limit, color="k", linestyle="--", linewidth=1)
             for limit, draw in ((across, axes.axvline), (up, axes.axhline)) if limit is not None]
    if lines:
        lines[0].set_label("the limit of a condition")
    axes.set_xlabel(names[1] if len(names) > 1 else "candidate")
    axes.set_ylabel(names[0])
    axes.legend()
    return axes


def around(values: Sequence[float | None], limit: float | None) -> tuple[float, float]:
    """Returns the ends of an axis that shows these values and the limit, with as much room."""
    known = [value for value in (*values, limit) if value is not None] or [0.0]
    low, high = min(known), max(known)
    room = max((high - low) / 2, abs(high) / 20) or 1.0
    # No figure is below zero.
    return max(0.0, low - room), high + room
