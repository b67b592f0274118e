#!/bin/bash
# Opens Weir's Flent files with Flent itself, from PyPI: its summary must have the rates that Weir
# reports, and its plots must be drawn. Exits 0 if so, 1 if not, 2 if Flent cannot be installed.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
cargo build --locked --release --quiet --package weir || exit 2
weir="${CARGO_TARGET_DIR:-target}/release/weir"
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet flent matplotlib || {
    echo 'flent: cannot install flent and matplotlib from PyPI; is python3-venv there?' >&2
    exit 2
}
flent="$work/venv/bin/flent"
"$flent" --version

scenario=examples/walk/evening.toml
"$weir" sim "$scenario" --bins 200ms --flent "$work/sim.flent.gz" --format json > "$work/sim.json"
"$weir" compare "$scenario" --schedulers cbq,htb --flent "$work/compare.flent.gz" > /dev/null

failed=0
for file in sim compare-cbq compare-htb; do
    for plot in upload ping totals all_scaled box_upload; do
        picture="$work/$file-$plot.png"
        if "$flent" -i "$work/$file.flent.gz" -p "$plot" -o "$picture" > /dev/null 2> "$work/errors" \
            && [ -s "$picture" ]; then
            echo "$file: Flent draws $plot, $(stat -c %s "$picture") bytes"
        else
            echo "$file: Flent does not draw $plot: $(tail -n 1 "$work/errors")"
            failed=1
        fi
    done
done
"$flent" -i "$work/sim.flent.gz" -f csv -o "$work/sim.csv" > /dev/null
"$work/venv/bin/python" "$root/bench/flent/check.py" "$work/sim.json" "$work/sim.flent.gz" "$work/sim.csv" || failed=1
exit "$failed"
