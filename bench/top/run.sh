#!/bin/bash
# run.sh [WEIR]: how long a key takes in `weir top` on a link of 2 x 5000 classes; see measure.py. WEIR is
# a built command; without it, it is built. Needs root. Exits 0 if the goals are met, 1 if not.
. "$(dirname "$0")/../command.sh"

exec python3 -B bench/top/measure.py "$weir"
