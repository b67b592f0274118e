#!/bin/bash
# run.sh [RUNS]: how much of two cores sweeps use, by threads of `weir sweep` and by Ray, beside
# plain processes that do the same runs; how long Python takes for its first table, and what it costs
# beside the command; and sweeps that are killed again and again, or have no room on the disk. Exits 0
# if every goal is met, 1 if not, 2 if it cannot measure. It installs maturin, Ray and the module in an
# environment of its own.
. "$(dirname "$0")/../python.sh"

module 'ray>=2.9'
failed=0
"$python" -B bench/sweep/binding.py "$weir" examples/walk/evening.toml || failed=1
"$python" -B bench/sweep/kills.py "$weir" examples/walk/evening.toml || failed=1
"$python" -B weir-python/tests/ray_nodes.py 400 || failed=1
"$python" -B bench/sweep/tasks.py examples/walk/evening.toml || failed=1
"$python" -B bench/sweep/measure.py "$weir" examples/walk/evening.toml "${1:-10000}" || failed=1
exit "$failed"
