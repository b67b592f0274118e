"""What a user gives where a policy or a scenario is wanted: its text, its file, or an object."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Protocol, Sequence, Union

from . import _weir


class Written(Protocol):
    """What writes itself as TOML: `Policy`, `Scenario`."""

    def to_toml(self) -> str:
        """Returns it as a text."""
        ...


PathLike = Union[str, "os.PathLike[str]"]
Given = Union[str, "os.PathLike[str]", Written]
"""A text, the path of a file as a `pathlib.Path`, or an object. A `str` is always a text."""


def text_of(given: Given) -> str:
    """Returns the text of what was given."""
    if isinstance(given, str):
        return given
    if isinstance(given, os.PathLike):
        return Path(given).read_text(encoding="utf-8")
    if hasattr(given, "to_toml"):
        return given.to_toml()
    kind = type(given).__name__
    raise TypeError(f"a text, a pathlib.Path, a Policy or a Scenario is wanted, and not {kind}")


def traces_of(given: Sequence[PathLike]) -> list[str]:
    """Returns the files of traces, and of a folder all in the order of their names, except hidden
    ones and notes (`.md`)."""
    files: list[str] = []
    for each in map(Path, given):
        if not each.is_dir():
            files.append(os.path.abspath(each))
            continue
        own = sorted(file for file in each.iterdir() if file.is_file()
                     and not file.name.startswith(".") and file.suffix != ".md")
        if not own:
            raise ValueError(f"{each}: the folder has no file")
        files += [os.path.abspath(file) for file in own]
    return files


def folder_of(given: Given, folder: PathLike | None) -> PathLike:
    """Returns where the files lie that it names: the folder, or else that of its own file."""
    if folder is not None:
        return folder
    return Path(given).parent if isinstance(given, os.PathLike) else ""


def refused(why: str, findings: list[_weir.Finding]) -> _weir.Error:
    """Returns an error that carries findings."""
    error = _weir.Error(why)
    error.findings = findings
    return error


def file_of(given: Given) -> str | None:
    """Returns the name of the file that was given, if it is one."""
    return os.fspath(given) if isinstance(given, os.PathLike) else None


def table_of(text: str, what: str, name: str | None = None) -> dict[str, Any]:
    """Returns the tables of a text; what is no TOML raises `weir.Error` with its finding.

    `what` it is, and `name` is that of its file, if it has one.
    """
    try:
        return _weir.parse_toml(text)
    except ValueError as error:
        findings = [row for row in _weir.check(text, name or f"{what}.toml")
                    if row["severity"] == "error"]
        called = f"the {what}" if name is None else f"the {what} {name}"
        raise refused(f"{called} is no TOML: {error}", findings) from None


def listed(values: Any) -> list[Any]:
    """Returns a list: a single text, path or object is one of one, and not one of its letters."""
    if isinstance(values, (str, os.PathLike)) or hasattr(values, "to_toml"):
        return [values]
    return list(values)


def plain(value: Any) -> Any:
    """Returns a value of numpy as Python's, and others as they are."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no value of a key; write a finite number")
    return value
