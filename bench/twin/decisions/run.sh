#!/bin/bash
# run.sh [--again] [--spread N] [CASE...]: compares the decisions of Linux's qdiscs with Weir's. The packages are kept in
# WEIR_TC_TWIN, by default target/twin; WEIR names a program that is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
twin=${WEIR_TC_TWIN:-$here/../../../target/twin}
"$here/../build.sh" "$twin" && "$here/line/build.sh" "$twin" || exit 2
if [ -z "${WEIR:-}" ]; then
    (cd "$here/../../.." && cargo build --locked --release --quiet --package weir) || exit 2
    WEIR=${CARGO_TARGET_DIR:-$here/../../../target}/release/weir
fi
exec python3 "$here/decisions.py" "$twin" "$WEIR" "$@"
