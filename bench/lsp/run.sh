#!/bin/bash
# run.sh [WEIR [CLASSES]]: how long after a keystroke `weir lsp` has the diagnostics of a policy with so
# many classes (5000). WEIR is a built command; without it, it is built. Exits 0 if the goal is met, 1
# if not.
. "$(dirname "$0")/../command.sh"

exec python3 -B bench/lsp/measure.py "$weir" "${2:-5000}"
