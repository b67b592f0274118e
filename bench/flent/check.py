"""Compares what Flent reads in a file of Weir with Weir's own report of that run.

Each class: the mean of its series, in Mbit/s, is what it sent in the whole run, within 1 %.
"""

import csv
import json
import sys

from flent import resultset

report = json.load(open(sys.argv[1]))
read = resultset.load(sys.argv[2])
columns = csv.reader(open(sys.argv[3]))
header = next(columns)
failed = False
for row in report["bins"]["classes"]:
    name = f"TCP upload BE {row['name']}"
    if name not in read.series_names:
        continue
    values = list(read.series(name))
    got = sum(values) / len(values)
    want = sum(row["bytes"]) * 8 / 1e6 / report["duration_s"]
    holds = abs(got - want) <= 0.01 * max(want, 0.001) and name in header
    failed |= not holds
    verdict = "holds" if holds else "FAILS"
    print(f"{row['name']}: Flent reads {got:.4f} Mbit/s, Weir reports {want:.4f}: {verdict}")
sys.exit(1 if failed else 0)
