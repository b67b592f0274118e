#!/bin/bash
# run.sh [WEIR [CLASSES]]: how long after a keystroke `weir lsp` has the diagnostics of a policy with so
# many classes (5000). WEIR is a built command; without it, it is built. Exits 0 if the goal is met, 1
# if not.
set -euo pipefail
cd "$(dirname "$0")/../.."

weir=${1:-}
if [ -z "$weir" ]; then
    cargo build --quiet --release --bin weir
    weir=${CARGO_TARGET_DIR:-target}/release/weir
fi
exec python3 -B bench/lsp/measure.py "$weir" "${2:-5000}"
