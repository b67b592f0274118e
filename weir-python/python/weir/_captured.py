"""Captures in place of scenarios: what is inferred from them stands for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Union

from . import _weir
from ._given import Given, folder_of, text_of

PathLike = Union[str, "os.PathLike[str]"]


def scenario_of(given: Given, folder: PathLike | None, place: PathLike) -> tuple[str, PathLike]:
    """Returns the text of a scenario, and where the files lie that it names.

    Of the file of a capture or a record it is what `weir infer` finds there, and its files are
    written below `place`.
    """
    if not isinstance(given, os.PathLike) or not os.path.isfile(given):
        return text_of(given), folder_of(given, folder)
    own = os.stat(given)
    below = Path(place, f"{own.st_dev}-{own.st_ino}")
    below.mkdir(exist_ok=True)
    text = _weir.stand_in(given, below)
    return (text, below) if text is not None else (text_of(given), folder_of(given, folder))
