#!/bin/bash
# Runs the notebooks here from a fresh environment; what they assert has to hold. With OUT=FOLDER it
# leaves them there with all that they showed. Root adds the kernel's HTB. It installs maturin,
# Optuna, matplotlib and Jupyter's client.
. "$(dirname "$0")/../bench/python.sh"

module 'optuna>=3.5' 'tomlkit>=0.12' 'matplotlib>=3.6' nbclient nbformat ipykernel
export WEIR="$weir"
failed=0
for book in notebooks/*.ipynb; do
    if "$python" notebooks/run.py "$book" "${OUT:-$work}/$(basename "$book")"; then
        echo "$book: every cell ran, and what it asserts holds"
    else
        echo "$book: MISSED"
        failed=1
    fi
done
exit "$failed"
