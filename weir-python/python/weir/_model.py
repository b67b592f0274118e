"""Policies and scenarios as objects, from TOML and back.

Fields have the names of the keys. Keys that have no field, such as a scheduler's own parameters, are
in `keys`, so that nothing of a text is lost on the way. An object is checked as a text is, by `check`.
"""

from __future__ import annotations

import json
import os
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Callable, ClassVar, Mapping, TypeVar, Union

from . import _weir
from ._given import table_of, text_of
from ._report import Report

PathLike = Union[str, "os.PathLike[str]"]
Own = TypeVar("Own", bound="Keys")


@dataclass
class Keys:
    """What these objects share: fields by their keys, and other keys."""

    _text_keys: ClassVar[Mapping[str, str]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses what is no field, for it would not be written."""
        if name not in {each.name for each in fields(self)}:
            kind = type(self).__name__
            raise AttributeError(f"{kind} has no field `{name}`; write keys[{name!r}] for a key of that name")
        super().__setattr__(name, value)

    def _written(self) -> dict[str, Any]:
        """Returns the keys that have a value, in their order."""
        written: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("keys", "name") or value is None:
                continue
            written[self._text_keys.get(each.name, each.name)] = _plain(value)
        written.update(getattr(self, "keys"))
        return written

    @classmethod
    def _read(cls: type[Own], row: Mapping[str, Any]) -> Own:
        by_key = {cls._text_keys.get(each.name, each.name): each.name for each in fields(cls)}
        made: Any = cls()
        for key, value in row.items():
            if key in by_key and key != "keys":
                setattr(made, by_key[key], value)
            else:
                made.keys[key] = value
        read: Own = made
        return read

    def _nest(self, name: str, make: Callable[[Any], Any]) -> None:
        """Makes objects of what the field holds; what has the wrong form goes to `keys`."""
        value = getattr(self, name)
        if value is None:
            return
        try:
            setattr(self, name, make(value))
        except (TypeError, AttributeError):
            # `check` says what is wrong with it.
            (default,) = [each for each in fields(self) if each.name == name]
            made = default.default_factory
            setattr(self, name, None if made is MISSING else made())
            getattr(self, "keys")[self._text_keys.get(name, name)] = value


def _rows(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise TypeError("it is no array of tables")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Keys):
        return value._written()
    return [_plain(each) for each in value] if isinstance(value, list) else value


@dataclass
class Queue(Keys):
    """The queue of a class: its dropper and limit, and the dropper's parameters in `keys`."""

    dropper: str | None = None
    limit: str | None = None
    keys: dict[str, Any] = field(default_factory=dict)


@dataclass
class Class(Keys):
    """A class of a policy; the scheduler's other parameters are in `keys`."""

    parent: str | None = None
    rate: str | None = None
    ceil: str | None = None
    share: str | None = None
    weight: int | None = None
    priority: int | None = None
    delay: str | None = None
    borrow: Any = None
    default: bool | None = None
    queue: Queue | None = None
    match: list[dict[str, Any]] | None = None
    keys: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def _of(cls, row: Mapping[str, Any]) -> Class:
        made = cls._read(row)
        made._nest("queue", Queue._read)
        return made


@dataclass
class LinkPlan(Keys):
    """The link of a policy; a scheduler's parameters are in `keys`, under its keyword."""

    rate: str | None = None
    scheduler: str | None = None
    overhead: Any = None
    keys: dict[str, Any] = field(default_factory=dict)


@dataclass
class Promise(Keys):
    """A promise of a policy, and the scenario that proves it."""

    that: str | None = None
    under: str | None = None
    keys: dict[str, Any] = field(default_factory=dict)


@dataclass
class Policy(Keys):
    """A policy: its link, and its classes by name.

    >>> import weir
    >>> policy = weir.Policy(weir.LinkPlan("8 Mbit/s", "drr"))
    >>> policy.classes["voice"] = weir.Class(match=[{"dscp": "ef"}])
    >>> policy.classes["rest"] = weir.Class(default=True, queue=weir.Queue(limit="50 packets"))
    >>> policy.check()
    []
    >>> weir.Policy.from_toml(policy.to_toml()) == policy
    True
    """

    link: LinkPlan = field(default_factory=LinkPlan)
    classes: dict[str, Class] = field(default_factory=dict)
    promises: list[Promise] | None = None
    keys: dict[str, Any] = field(default_factory=dict)
    _text_keys: ClassVar[Mapping[str, str]] = {"classes": "class", "promises": "promise"}

    @classmethod
    def from_toml(cls, text: str | os.PathLike[str]) -> Policy:
        """Reads a policy, a text or a `pathlib.Path`; what is wrong with it, `check` says."""
        return cls._of(table_of(text_of(text), "policy"))

    @classmethod
    def _of(cls, row: Mapping[str, Any]) -> Policy:
        made = cls._read(row)
        if "link" in row:
            made._nest("link", LinkPlan._read)
        if "class" in row:
            made._nest("classes", lambda classes: {
                name: Class._of(each) for name, each in classes.items()
            })
        made._nest("promises", lambda rows: [Promise._read(each) for each in _rows(rows)])
        return made

    def _written(self) -> dict[str, Any]:
        written = super()._written()
        if self.classes:
            written["class"] = {name: each._written() for name, each in self.classes.items()}
        elif "class" not in self.keys:
            del written["class"]
        if written["link"] == {}:
            del written["link"]
        return written

    def to_toml(self) -> str:
        """Returns the policy as a text."""
        return _weir.write_toml(json.dumps(self._written()))

    def check(self, name: str = "policy.toml") -> list[dict[str, Any]]:
        """Returns the findings, as `weir.check` does."""
        return [dict(found) for found in _weir.check(self.to_toml(), name)]

    def bounds(self) -> list[dict[str, Any]]:
        """Returns what each class gets, as `weir.bounds` does."""
        return _weir.bounds(self.to_toml())


@dataclass
class Source(Keys):
    """A source of a scenario; what its kind needs is in `keys`, such as `rate` and `dport`."""

    name: str | None = None
    kind: str | None = None
    keys: dict[str, Any] = field(default_factory=dict)

    def _written(self) -> dict[str, Any]:
        name = {} if self.name is None else {"name": self.name}
        return {**name, **super()._written()}


@dataclass
class Scenario(Keys):
    """A scenario: a policy, or the path of its file, and sources.

    >>> import weir
    >>> policy = weir.Policy(weir.LinkPlan("8 Mbit/s", "fifo"), {"all": weir.Class(default=True)})
    >>> call = weir.Source("call", "cbr", {"size": "1000 B", "rate": "800 kbit/s"})
    >>> evening = weir.Scenario(policy, "1 s", sources=[call])
    >>> evening.simulate()["classes"][0]["sent"]["packets"]
    100
    """

    policy: Policy | str | None = None
    duration: str | None = None
    warmup: str | None = None
    seed: int | None = None
    delay: str | None = None
    sources: list[Source] | None = None
    keys: dict[str, Any] = field(default_factory=dict)
    _text_keys: ClassVar[Mapping[str, str]] = {"sources": "source"}

    @classmethod
    def from_toml(cls, text: str | os.PathLike[str]) -> Scenario:
        """Reads a scenario, a text or a `pathlib.Path`; what is wrong with it, `weir.check` says."""
        row = table_of(text_of(text), "scenario")
        made = cls._read(row)
        if isinstance(row.get("policy"), dict):
            made.policy = Policy._of(row["policy"])
        made._nest("sources", lambda rows: [Source._read(each) for each in _rows(rows)])
        return made

    def to_toml(self) -> str:
        """Returns the scenario as a text."""
        return _weir.write_toml(json.dumps(self._written()))

    def check(self, name: str = "scenario.toml") -> list[dict[str, Any]]:
        """Returns the findings, as `weir.check` does; files that it names lie beside `name`."""
        return [dict(found) for found in _weir.check(self.to_toml(), name)]

    def simulate(
        self,
        base_dir: PathLike | None = None,
        seed: int | None = None,
        *,
        packets: bool = False,
        series: str | None = None,
        flow: str | None = None,
    ) -> Report:
        """Simulates it, as `weir.simulate` does."""
        return _weir.simulate(
            self.to_toml(), base_dir, seed, packets=packets, series=series, flow=flow,
        )
