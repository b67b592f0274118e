"""A running link."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence, Union

from . import _weir

PathLike = Union[str, "os.PathLike[str]"]


class Link:
    """A link that `weir up` runs; `connect` makes it. Each call is a request of docs/api.md.

    A request that the link refuses raises `weir.Error`; without a link they raise `OSError`.
    """

    def __init__(self, name: str = "", control: PathLike | None = None) -> None:
        self._name = name
        self._control = control

    def __repr__(self) -> str:
        return f"<weir.Link {self._name or os.fspath(self._control or '')}>"

    def call(self, call: str, **fields: Any) -> Any:
        """Sends a request by its keyword, such as "policy", and returns what the link answers."""
        request = json.dumps({"call": call, **fields})
        answer = _weir.ask(request, self._name, self._control)
        # One key names the kind of the answer; one without content is a text.
        return next(iter(answer.values())) if isinstance(answer, dict) else None

    def status(self, class_: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """Returns the counters of docs/status.md, of classes whose name fits `class_`."""
        query = {"class": class_, "limit": limit}
        status: dict[str, Any] = self.call(
            "status", **{key: value for key, value in query.items() if value is not None}
        )
        return status

    def set(self, settings: Mapping[str, str], **terms: Any) -> dict[str, Any]:
        """Changes values, all together and between two frames, as `weir set` does.

        Keys are paths as in the policy, `[DIRECTION:]class.voice.rate`. Terms are `dry_run`,
        `confirm_ms`, `guards` (conditions) and `reason`.
        """
        rows = []
        for key, value in settings.items():
            direction, colon, rest = key.partition(":")
            if colon and '"' not in direction:
                rows.append({"direction": direction, "key": rest, "value": str(value)})
            else:
                rows.append({"key": key, "value": str(value)})
        changed: dict[str, Any] = self.call("set", settings=rows, terms=terms)
        return changed

    def reload(self, deployment: PathLike | None = None, **terms: Any) -> dict[str, Any]:
        """Puts a deployment's file in force, or what the link's own files contain now.

        Terms are those of `set`.
        """
        texts = _weir.deployment_texts(deployment) if deployment is not None else None
        changed: dict[str, Any] = self.call("reload", texts=texts, terms=terms)
        return changed

    def confirm(self) -> None:
        """Lets the change that is on trial stay."""
        self.call("confirm")

    def rollback(self, number: int | None = None, **terms: Any) -> dict[str, Any]:
        """Puts in force what was before the last change, or after that `number`."""
        changed: dict[str, Any] = self.call("rollback", number=number, terms=terms)
        return changed

    def log(self) -> list[dict[str, Any]]:
        """Returns the last changes, the oldest first."""
        entries: list[dict[str, Any]] = self.call("log")
        return entries

    def events(self, after: str | None = None) -> Iterator[dict[str, Any]]:
        """Yields the events that the link remembers, or those after the one with this `id`.

        docs/events.md describes them. Keep the `id` of the last one to ask for later ones.
        """
        yield from self.call("events", after=after)["events"]

    def record(self, path: PathLike, seconds: float = 10.0) -> None:
        """Records the link into a file, as `weir record` does."""
        _weir.record(path, self._name, seconds, self._control)

    def explain(
        self,
        seconds: float = 10.0,
        promises: Sequence[str] = (),
        *,
        class_: str | None = None,
        direction: str | None = None,
        worst: int = 10,
    ) -> list[dict[str, Any]]:
        """Records the link for so long, and explains the record as `weir.explain_record` does."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "record.pcapng"
            self.record(path, seconds)
            return _weir.explain_record(
                path, list(promises), class_=class_, direction=direction, worst=worst
            )

    def _repr_html_(self) -> str:
        from ._report import table_html

        rows = [_figures(lane["name"], row)
                for lane in self.status()["lanes"] for row in lane["classes"]]
        columns = {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
        return table_html(columns, len(rows))


def _figures(direction: str, row: Mapping[str, Any]) -> dict[str, Any]:
    recent, delay = row["recent"], row["delay"]
    return {
        "direction": direction, "class": row["name"],
        "now Mbit/s": recent["second"]["sent_bps"] / 1e6 if recent else None,
        "dropped": sum(count["packets"] for _, count in row["dropped"]),
        "waiting": row["backlog"]["packets"],
        "p50 ms": delay["p50_us"] / 1e3, "p99 ms": delay["p99_us"] / 1e3,
        "max ms": delay["max_us"] / 1e3,
    }


def connect(name: str = "", control: PathLike | None = None) -> Link:
    """Returns the running link called `name`, or the one behind the socket `control`.

    Raises `OSError` if there is none.
    """
    link = Link(name, control)
    link.status(limit=1)
    return link
