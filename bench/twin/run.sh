#!/bin/bash
# run.sh: compares 400 random tc scripts in the twin's kernel with their import. The packages are
# kept in WEIR_TC_TWIN, by default target/twin.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export WEIR_TC_TWIN=${WEIR_TC_TWIN:-$here/../../target/twin}
export WEIR_TC_SCRIPTS=${WEIR_TC_SCRIPTS:-400}
"$here/build.sh" "$WEIR_TC_TWIN" || exit 2
cargo test --package weir --test live tc_twin -- --nocapture || exit 1
