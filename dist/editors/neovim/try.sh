#!/bin/bash
# try.sh [WEIR]: opens a wrong policy in Neovim with the settings of init.lua, and prints what the
# editor shows: diagnostics, the way to a class, its new name, a cure, completion, hints, outline.
# Exits 0 if all is right. Needs Neovim 0.10 or later as `nvim`, or as NVIM says; WEIR is the built
# command, by default the one in PATH.
set -euo pipefail

here=$(realpath "$(dirname "$0")")
weir=$(realpath "$(command -v "${1:-weir}")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$weir" "$folder/weir"
PATH=$folder:$PATH XDG_STATE_HOME=$folder XDG_DATA_HOME=$folder XDG_CACHE_HOME=$folder \
    timeout 120 "${NVIM:-nvim}" --headless -i NONE -n -u "$here/init.lua" -c "luafile $here/try.lua" 2>&1
