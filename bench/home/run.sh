#!/bin/bash
# run.sh [WEIR]: what `weir init` promises, on real packets; see measure.py. WEIR is a built command;
# without it, it is built. Needs root. Exits 0 if the goals are met, 1 if not.
. "$(dirname "$0")/../command.sh"

exec python3 -B bench/home/measure.py "$weir"
