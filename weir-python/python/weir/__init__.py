"""Link sharing that is proved before it is deployed.

Functions return what the command `weir` prints with `--format json`, as Python's dicts and lists;
`docs/` describes them. A policy or a scenario is given as a text (`str`), as a file (`pathlib.Path`),
or as an object (`Policy`, `Scenario`).

>>> import weir
>>> report = weir.simulate('''
... duration = "1 s"
... [policy]
... link = { rate = "8 Mbit/s", scheduler = "fifo" }
... class = { all = { default = true } }
... [[source]]
... name = "call"
... kind = "cbr"
... size = "1000 B"
... rate = "800 kbit/s"
... ''')
>>> report["classes"][0]["sent"]["packets"]
100
>>> report.table("classes").to_dict()["sent_packets"]
[100]
"""

from ._calls import (
    bounds,
    check,
    compare,
    convert,
    diff,
    import_,
    infer,
    replay,
    simulate,
    test,
    whatif,
)
from ._engines import Engine, LocalEngine, RayEngine
from ._link import Link, connect
from ._model import Class, LinkPlan, Policy, Promise, Queue, Scenario, Source
from ._report import Comparison, Inferred, Report, WhatIf
from ._sweep import Sweep, sweep
from ._tune import Tuned, tune
from ._weir import (
    Error,
    Reservation,
    Table,
    announce,
    droppers,
    explain_record,
    lab,
    reserve,
    schedulers,
)

__all__ = [
    "Class",
    "Comparison",
    "Engine",
    "Error",
    "Inferred",
    "Link",
    "LinkPlan",
    "LocalEngine",
    "Policy",
    "Promise",
    "Queue",
    "RayEngine",
    "Report",
    "Reservation",
    "Scenario",
    "Source",
    "Sweep",
    "Table",
    "Tuned",
    "WhatIf",
    "announce",
    "bounds",
    "check",
    "compare",
    "connect",
    "convert",
    "diff",
    "droppers",
    "explain_record",
    "import_",
    "infer",
    "lab",
    "replay",
    "reserve",
    "schedulers",
    "simulate",
    "sweep",
    "test",
    "tune",
    "whatif",
]
