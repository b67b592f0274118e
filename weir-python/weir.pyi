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

class Reservation:
    """A flow that is announced, or reserved for, while a `with` block runs. Exists for type
    checkers only."""

    def __enter__(self) -> "Reservation": ...
    def __exit__(self, kind: Any, value: Any, trace: Any) -> None: ...
    def status(self) -> Union[dict[str, Any], None]:
        """How it stands, as `weir reserve list --format json` has it; None outside its block."""

def reserve(
    address: str,
    port: int,
    guaranteed: Union[str, None] = None,
    delay: Union[str, None] = None,
    options: Union[dict[str, Any], None] = None,
) -> Reservation:
    """Reserves for a flow that this host receives, as `weir reserve receive` does; options are
    style, senders, rate, wait, tcp, interface, key_file and refresh."""

def announce(
    address: str, port: int, rate: str, options: Union[dict[str, Any], None] = None
) -> Reservation:
    """Announces a flow that this host sends, as `weir reserve send` does; options are bucket,
    packet_min, packet_max, source, source_port, tcp, interface, key_file and refresh."""

def schedulers() -> list[dict[str, Any]]:
    """Every scheduler of the registry: keyword, summary, parameters, sources, promises."""

def droppers() -> list[dict[str, Any]]:
    """Every dropper of the registry: keyword, summary, parameters, sources."""
