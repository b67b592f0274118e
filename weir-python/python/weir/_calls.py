"""The functions that take policies and scenarios: what is compiled, for texts, paths and objects."""

from __future__ import annotations

import os
import secrets
from typing import Any, Callable, Literal, Mapping, Sequence, TypeVar, Union

from . import _weir
from ._given import Given, PathLike, file_of, folder_of, listed, text_of
from ._report import Comparison, Inferred, Report, WhatIf

Function = TypeVar("Function", bound=Callable[..., Any])


def documented(compiled: Callable[..., Any]) -> Callable[[Function], Function]:
    """Gives a function the documentation of the compiled one."""

    def with_documentation(own: Function) -> Function:
        own.__doc__ = compiled.__doc__
        return own

    return with_documentation


def name_of(given: Given, name: str | None, default: str = "policy.toml") -> str:
    """Returns what findings call it."""
    if name is not None:
        return name
    return os.fspath(given) if isinstance(given, os.PathLike) else default


@documented(_weir.check)
def check(text: Given, name: str | None = None) -> list[_weir.Finding]:
    """Checks a policy, a deployment or a scenario, as `weir check` does."""
    return _weir.check(text_of(text), name_of(text, name))


@documented(_weir.simulate)
def simulate(
    scenario_text: Given,
    base_dir: PathLike | None = None,
    seed: int | None = None,
    *,
    packets: bool = False,
    series: str | None = None,
    flow: str | None = None,
) -> Report:
    """Simulates a scenario, as `weir sim` does."""
    folder = folder_of(scenario_text, base_dir)
    return _weir.simulate(
        text_of(scenario_text), folder, seed, packets=packets, series=series,
        flow=flow, name=name_of(scenario_text, None, "scenario.toml"),
    )


@documented(_weir.compare)
def compare(
    scenario_text: Given,
    schedulers: str | Sequence[str],
    base_dir: PathLike | None = None,
    *,
    seed: int | None = None,
    replications: int = 1,
    threads: int | None = None,
) -> Comparison:
    """Simulates one scenario under several schedulers, as `weir compare` does."""
    return Comparison(_weir.compare(
        text_of(scenario_text), listed(schedulers), folder_of(scenario_text, base_dir),
        seed=seed, replications=replications, threads=threads,
        name=name_of(scenario_text, None, "scenario.toml"),
    ))


@documented(_weir.test)
def test(text: Given, base_dir: PathLike | None = None, *, runs: int = 5) -> dict[str, Any]:
    """Tests the promises of a policy, as `weir test` does."""
    return _weir.test(text_of(text), folder_of(text, base_dir), runs=runs)


@documented(_weir.replay)
def replay(
    policy_text: Given, capture_path: PathLike, output_path: PathLike | None = None
) -> dict[str, Any]:
    """Runs a capture through a policy in virtual time, as `weir replay` does."""
    return _weir.replay(text_of(policy_text), capture_path, output_path)


@documented(_weir.infer)
def infer(
    capture: PathLike,
    outside: PathLike | None = None,
    *,
    policy: PathLike | None = None,
    rate: str | None = None,
    direction: str | None = None,
    grouping: Literal["auto", "exact", "population"] = "auto",
    anonymous: bool = False,
    output: PathLike | None = None,
) -> Inferred:
    """Finds what the applications of a capture wanted, as `weir infer` does."""
    return _weir.infer(
        capture, outside, policy=None if policy is None else os.fspath(policy), rate=rate,
        direction=direction, grouping=grouping, output=output,
        anonymous=secrets.randbits(64) if anonymous else None,
    )


Policies = Union[Given, Sequence[Given], Mapping[str, Given]]
"""A policy, several, or several by names of your own."""


@documented(_weir.whatif)
def whatif(
    capture: PathLike,
    policies: Policies,
    was: Given | None = None,
    outside: PathLike | None = None,
    *,
    direction: str | None = None,
    replications: int = 3,
    threads: int | None = None,
) -> WhatIf:
    """Says what other policies would have done to a capture, as `weir whatif` does."""
    if isinstance(policies, Mapping):
        named = [(name, text_of(policy)) for name, policy in policies.items()]
    else:
        rows = enumerate(listed(policies), 1)
        named = [(file_of(policy) or f"policy {number}", text_of(policy)) for number, policy in rows]
    known = None if was is None else (file_of(was) or "was", text_of(was))
    return _weir.whatif(
        capture, named, known, outside=outside, direction=direction,
        replications=replications, threads=threads,
    )


@documented(_weir.bounds)
def bounds(text: Given, name: str | None = None) -> list[dict[str, Any]]:
    """Returns what each class of a policy gets, as `weir check --bounds` says."""
    return _weir.bounds(text_of(text), name_of(text, name))


@documented(_weir.diff)
def diff(old: Given, new: Given) -> dict[str, Any]:
    """Compares the effects of two policies, as `weir diff` does."""
    return _weir.diff(text_of(old), text_of(new))


@documented(_weir.convert)
def convert(text: Given, scheduler: str, name: str | None = None) -> dict[str, Any]:
    """Writes a policy for another scheduler, as `weir convert` does."""
    return _weir.convert(text_of(text), scheduler, name_of(text, name))


@documented(_weir.import_)
def import_(
    language: str, text: Given, rate: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """Converts another tool's file to policies, as `weir import` does."""
    own = os.fspath(text) if isinstance(text, os.PathLike) else "file"
    return _weir.import_(language, text_of(text), rate, own if name is None else name)
