#!/bin/bash
# run.sh [WEIR [FOLDER]]: how fast `weir infer` and `weir whatif` are, how much memory they take, and
# whether damaged captures make them panic or hang. WEIR is a built command; without it, it is built.
# FOLDER has captures that are tried as they are, too. Exits 0 if every goal is met, 1 if one is not.
. "$(dirname "$0")/../command.sh"

code=0
python3 -B bench/whatif/speed.py "$weir" || code=1
python3 -B bench/whatif/damaged.py "$weir" examples/walk ${2:+"$2"} || code=1
exit "$code"
