# Sourced by programs here that need the command `weir`: enters the root of the repository and sets
# `weir` to the first argument, or to the command as released, which it then builds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

weir=${1:-}
if [ -z "$weir" ]; then
    cargo build --locked --quiet --release --bin weir
    weir=${CARGO_TARGET_DIR:-target}/release/weir
fi
weir=$(realpath "$weir")
