"""Sweeps: one scenario with many values, each several times, and one table of what came out."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Mapping, Sequence, Union

from ._engines import Engine, LocalEngine, RayEngine
from ._given import Given, folder_of, listed, plain, text_of
from ._weir import SweepRuns, SweepTable, Table

PathLike = Union[str, "os.PathLike[str]"]


class Sweep:
    """A finished sweep: its rows, and its summary."""

    def __init__(self, table: SweepTable, path: Path | None) -> None:
        self._table = table
        self.path = path
        """The Parquet file; None if none was asked for."""

    @property
    def rows(self) -> Table:
        """A row for each run: point, replication, seed, values and metrics."""
        return self._table.rows()

    @property
    def summary(self) -> dict[str, Any]:
        """Means at each point with intervals of 95 %, and differences to the first point.

        Points have the same seeds, so differences are of pairs of runs.
        """
        summary: dict[str, Any] = self._table.summary()
        return summary

    def plot(self, metric: str | None = None, x: str | None = None, axes: Any = None) -> Any:
        """Draws a metric's means over the key `x`, by default the first ones, with bands of 95 %.

        Each combination of the other values has a line. It needs matplotlib; `axes` are those to
        draw on.
        """
        from . import _plot

        return _plot.sweep(self, metric, x, axes)

    def __len__(self) -> int:
        return len(self._table)

    def __str__(self) -> str:
        return str(self._table)

    def _repr_html_(self) -> str:
        from ._report import table_html

        summary = self.summary
        columns: dict[str, list[Any]] = {
            key: [point["values"][place] for point in summary["points"]]
            for place, key in enumerate(summary["keys"])
        }
        for place, name in enumerate(summary["metrics"]):
            results = [point["results"][place] or {} for point in summary["points"]]
            columns[name] = [result.get("mean") for result in results]
            columns[f"± {name}"] = [result.get("within") for result in results]
            if len(results) > 1:
                # Of pairs of runs with the same seeds, so its interval is the narrower one.
                columns[f"{name} to first"] = [result.get("to_first") for result in results]
                columns[f"± {name} to first"] = [result.get("to_first_within") for result in results]
        return table_html(columns, len(summary["points"]))


def sweep(
    scenario: Given,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    replications: int = 1,
    metrics: str | Sequence[str],
    random: Mapping[str, Sequence[Any]] | None = None,
    latin: Mapping[str, Sequence[Any]] | None = None,
    points: int = 0,
    draw: int = 0,
    seed: int | None = None,
    base_dir: PathLike | None = None,
    path: PathLike | None = None,
    engine: str | Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Runs a scenario with many values, each `replications` times; docs/sweeps.md has the forms.

    `scenario` is a text, a `pathlib.Path` or a `Scenario`; files that it names are found relative to
    `base_dir`, by default the folder of its file. `grid` has lists
    of values by path; `random` and `latin` have ranges, of which `points` are drawn with the seed
    `draw`. Each point has the same seeds. With `path` the table is a Parquet file, and a sweep that
    was stopped goes on where it was. `engine` is "local" (`workers` threads), "processes", "ray"
    (at `address`), or an object with the methods of `weir.Engine`.

    >>> import weir
    >>> scenario = '''
    ... duration = "1 s"
    ... [policy]
    ... link = { rate = "8 Mbit/s", scheduler = "fifo" }
    ... class = { all = { default = true } }
    ... [[source]]
    ... name = "call"
    ... kind = "cbr"
    ... size = "1000 B"
    ... rate = "800 kbit/s"
    ... '''
    >>> grid = {"policy.link.rate": ["8 Mbit/s", "4 Mbit/s"]}
    >>> done = weir.sweep(scenario, grid, metrics=["link.utilisation"], progress=False)
    >>> [round(part, 2) for part in done.rows.to_dict()["link.utilisation"]]
    [0.1, 0.2]
    """
    given = [(name, axes) for name, axes in
             (("grid", grid), ("random", random), ("latin", latin)) if axes is not None]
    if len(given) > 1:
        raise ValueError("give one of grid, random and latin")
    method, axes = given[0] if given else ("grid", {})
    spec = {
        "scenario": text_of(scenario),
        "design": {
            "method": method,
            "axes": [{"key": key, "values": [plain(value) for value in listed(values)]}
                     for key, values in axes.items()],
            "points": points,
            "seed": draw,
        },
        "replications": replications,
        "metrics": listed(metrics),
        "seed": seed,
    }
    runs = SweepRuns(json.dumps(spec), folder_of(scenario, base_dir))
    return run(runs, engine_of(engine, workers, address), path, progress)


def engine_of(engine: str | Engine, workers: int | None, address: str | None) -> Engine:
    """Returns the engine of this name."""
    if not isinstance(engine, str):
        return engine
    if engine == "local":
        return LocalEngine(workers)
    if engine == "processes":
        return LocalEngine(workers, processes=True)
    if engine == "ray":
        return RayEngine(address)
    raise ValueError(f"`{engine}` is not local, processes or ray")


def run(
    runs: SweepRuns, engine: Engine, path: PathLike | None, progress: bool | None
) -> Sweep:
    """Does what is left of a sweep."""
    if path is not None:
        return _run(runs, engine, Path(path), progress)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "sweep.parquet"
        try:
            done = _run(runs, engine, place, progress)
        except OSError as error:
            # The file is this function's own, and has no name that would mean anything.
            raise OSError(str(error).replace(str(place), "the table")) from None
        done.path = None
        return done


def _run(runs: SweepRuns, engine: Engine, path: Path, progress: bool | None) -> Sweep:
    table = SweepTable(runs, path)
    try:
        bar = Bar(len(table), len(runs), sys.stderr.isatty() if progress is None else progress)
        seconds = 1.0
        if len(table) < len(runs):
            # The first run says how long a batch is; it counts like any other.
            begun = time.monotonic()
            (first, *_) = table.batches(1e9, 1)
            table.add(runs.run(first))
            seconds = time.monotonic() - begun
            bar.show(len(table))
        with engine:
            for done in engine.run(runs, table.batches(seconds, engine.workers)):
                table.add(done)
                bar.show(len(table))
        bar.end()
        table.finish()
    finally:
        # After an error or Ctrl-C the journal is for the next try.
        runs.stop()
        table.close()
    return Sweep(table, path)


class Bar:
    """A progress bar on standard error."""

    def __init__(self, done: int, count: int, shown: bool, what: str = "sweeping") -> None:
        self._first, self._count, self._shown, self._what = done, count, shown, what
        self._begun = time.monotonic()
        self._last = 0.0

    def show(self, done: int) -> None:
        """Shows how many runs are done, at most ten times a second."""
        now = time.monotonic()
        if not self._shown or now - self._last < 0.1:
            return
        self._last = now
        here = done - self._first
        left = (now - self._begun) / here * (self._count - done) if here else 0.0
        filled = 40 * done // max(self._count, 1)
        bar = "#" * filled + "-" * (40 - filled)
        text = f"\r{self._what} {bar} {done} of {self._count}  {left:.0f} s left "
        sys.stderr.write(text)
        sys.stderr.flush()

    def end(self) -> None:
        """Clears the line."""
        if self._shown:
            sys.stderr.write("\r" + " " * 90 + "\r")
            sys.stderr.flush()
