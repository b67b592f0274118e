#!/bin/bash
# run.sh [STAGE...]: `weir.tune` beside an exhaustive search, on staged policies; see run.py. It
# installs maturin, Optuna and the module in an environment of its own.
. "$(dirname "$0")/../python.sh"

module 'optuna>=3.5' 'tomlkit>=0.12'
"$python" -B bench/tune/run.py "$@"
