"""What of `weir` is compiled."""

from os import PathLike
from typing import Any, Literal, Mapping, Sequence, TypedDict, Union

from ._report import Inferred, Report, WhatIf

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
    """Checks the text of a policy, a deployment or a scenario, as `weir check` does."""

class SweepRuns:
    """The runs of a sweep, by number: what a worker does."""

    def __init__(self, spec: str, folder: Union[_Path, None] = None) -> None: ...
    def __len__(self) -> int: ...
    def spec(self) -> str:
        """The specification with all its files, as JSON."""

    def places(self) -> list[str]:
        """What stands before the classes of a policy that is there instead, for each link."""

    def run(self, runs: Sequence[int]) -> str:
        """Does runs and returns what came out, as JSON."""

    def stop(self) -> None:
        """Ends runs that have begun, in whatever thread."""

class SweepTable:
    """The table of a sweep while it grows: what the driver keeps."""

    def __init__(self, runs: SweepRuns, path: _Path) -> None: ...
    def __len__(self) -> int: ...
    def batches(self, seconds: float, workers: int) -> list[list[int]]:
        """The runs that are not done, in batches of about a second."""

    def add(self, done: str) -> None:
        """Keeps what `SweepRuns.run` returned."""

    def finish(self) -> None:
        """Writes the table, if every run is done."""

    def rows(self) -> Table:
        """The rows of the table."""

    def summary(self) -> dict[str, Any]:
        """Means with their intervals at each point."""

    def close(self) -> None:
        """Lets another process go on with the journal."""

class Table:
    """Columns of equal length in Arrow's layout, for pyarrow, polars and pandas."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None: ...
    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def to_dict(self) -> dict[str, list[Any]]:
        """Lists by name."""

    def _repr_html_(self) -> str: ...

def simulate(
    scenario_text: str,
    base_dir: Union[_Path, None] = None,
    seed: Union[int, None] = None,
    *,
    packets: bool = False,
    series: Union[str, None] = None,
    flow: Union[str, None] = None,
    name: Union[str, None] = None,
) -> Report:
    """Simulates a scenario, as `weir sim` does; the report of docs/sim-report.md. With `packets`
    and `series` (the width of a bin) it has tables under these names, with `flow` (the name of a
    TCP source) one under `segments`."""

def compare(
    scenario_text: str,
    schedulers: Sequence[str],
    base_dir: Union[_Path, None] = None,
    *,
    seed: Union[int, None] = None,
    replications: int = 1,
    threads: Union[int, None] = None,
    name: Union[str, None] = None,
) -> dict[str, Any]:
    """Simulates one scenario under several schedulers, as `weir compare` does."""

def test(text: str, base_dir: Union[_Path, None] = None, *, runs: int = 5) -> dict[str, Any]:
    """Tests the promises of a policy, as `weir test` does."""

def infer(
    capture: _Path,
    outside: Union[_Path, None] = None,
    *,
    policy: Union[str, None] = None,
    rate: Union[str, None] = None,
    direction: Union[str, None] = None,
    grouping: Union[str, None] = None,
    anonymous: Union[int, None] = None,
    output: Union[_Path, None] = None,
) -> Inferred:
    """Finds what the applications of a capture or a record wanted, as `weir infer` does; with the
    tables `flows` and `exchanges`, and the text of the `scenario`. `anonymous` is a secret."""

def whatif(
    capture: _Path,
    policies: Sequence[tuple[str, str]],
    was: Union[tuple[str, str], None] = None,
    *,
    outside: Union[_Path, None] = None,
    direction: Union[str, None] = None,
    replications: int = 3,
    threads: Union[int, None] = None,
) -> WhatIf:
    """Says what other policies, names with texts, would have done to a capture, as `weir whatif`
    does; with the tables `rows` and `unlike`."""

def stand_in(path: _Path, folder: _Path) -> Union[str, None]:
    """Writes into a folder the files of the scenario that stands for a capture or a record, and
    returns its text; None of another file."""

def bounds(text: str, name: str = "policy.toml") -> list[dict[str, Any]]:
    """What each class of a policy gets, as `weir check --bounds` says."""

def diff(old: str, new: str) -> dict[str, Any]:
    """Compares the effects of two policies, as `weir diff` does."""

def convert(text: str, scheduler: str, name: str = "policy.toml") -> dict[str, Any]:
    """Writes a policy for another scheduler, as `weir convert` does."""

def import_(
    language: str, text: str, rate: Union[str, None] = None, name: str = "file"
) -> dict[str, Any]:
    """Converts another tool's file to policies, as `weir import` does."""

def lab(
    name: Union[str, None] = None,
    *,
    era: str = "both",
    only: Union[str, None] = None,
    seed: int = 1,
    threads: Union[int, None] = None,
) -> list[dict[str, Any]]:
    """Runs the papers' experiments, as `weir lab run` does; without a name it lists them."""

def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text as dicts and lists."""

def write_toml(json: str) -> str:
    """Dicts, given as JSON, as TOML."""

def ask(request: str, name: str, control: Union[_Path, None] = None) -> Any:
    """Asks a running link; a request is JSON, as docs/api.md describes it."""

def deployment_texts(path: _Path) -> dict[str, Any]:
    """A deployment with every file that it names."""

def record(
    path: _Path, name: str, seconds: float = 10.0, control: Union[_Path, None] = None
) -> None:
    """Records a link into a file, as `weir record` does."""

def explain_record(
    path: _Path,
    promises: Sequence[str] = [],
    *,
    class_: Union[str, None] = None,
    direction: Union[str, None] = None,
    worst: int = 10,
) -> list[dict[str, Any]]:
    """Explains a record of a link, as `weir explain` does."""

def replay(
    policy_text: str, capture_path: _Path, output_path: Union[_Path, None] = None
) -> dict[str, Any]:
    """Runs a capture through a policy in virtual time, as `weir replay` does; the report of
    docs/replay.md."""

class Reservation:
    """A flow that is announced, or reserved for, while a `with` block runs."""

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
