"""Link sharing that is proved before it is deployed."""

from os import PathLike
from typing import Any, Literal, TypedDict, Union

_Path = Union[str, PathLike[str]]

class Finding(TypedDict):
    """A finding in a file; docs/findings.md lists the codes. Exists for type checkers only."""

    code: str
    severity: Literal["error", "warning", "info"]
    message: str
    file: str
    line: int
    column: int
    cure: str
    source: Union[str, None]

class Error(Exception):
    """A policy, a scenario or a capture cannot be used."""

    findings: list[Finding]

def check(text: str, name: str = "policy.toml") -> list[Finding]:
    """Checks the text of a policy or a deployment, as `weir check` does."""

def simulate(
    scenario_text: str, base_dir: Union[_Path, None] = None, seed: Union[int, None] = None
) -> dict[str, Any]:
    """Simulates a scenario, as `weir sim` does; the report of docs/sim-report.md."""

def replay(
    policy_text: str, capture_path: _Path, output_path: Union[_Path, None] = None
) -> dict[str, Any]:
    """Runs a capture through a policy in virtual time, as `weir replay` does; the report of
    docs/replay.md."""

def schedulers() -> list[dict[str, Any]]:
    """Every scheduler of the registry: keyword, summary, parameters, sources, promises."""

def droppers() -> list[dict[str, Any]]:
    """Every dropper of the registry: keyword, summary, parameters, sources."""
