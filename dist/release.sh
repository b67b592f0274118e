#!/bin/bash
# Makes what a user downloads of a release: dist/release.sh WEIR LAB FOLDER, with the built programs
# weir and weir-lab, writes into FOLDER
#   weir-VERSION-linux-ARCH.tar.gz   both programs, manual pages, completions, unit, licences
#   weir_VERSION_ARCH.deb            the Debian package
#   weir_python-VERSION-*.whl        the Python module
#   weir-VERSION.tar.gz              the source, as the last commit has it
#   SHA256SUMS                       their sums, which `sha256sum --check` reads
# Needs git, dpkg-deb, objdump, strip, python3 with venv, and a package index for maturin.
set -euo pipefail

weir=$(realpath "$1")
lab=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
root=$(realpath "$(dirname "$0")/..")
version=$("$weir" --version | cut -d' ' -f2)
arch=$(uname -m)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# A folder with what another version left would be summed, too.
rm -f "$out"/weir* "$out"/SHA256SUMS
if [ -n "$(git -C "$root" status --porcelain)" ]; then
    echo "release: the work tree has changes that no commit has; commit them first" >&2
    exit 1
fi

name=weir-$version-linux-$arch
put() { install -D -m "$1" "$2" "$tree/$name/$3"; }
put 755 "$weir" bin/weir
put 755 "$lab" bin/weir-lab
strip --strip-unneeded "$tree/$name"/bin/*
put 644 "$root/dist/weir@.service" lib/systemd/system/weir@.service
for text in README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE-MIT LICENSE-APACHE; do
    put 644 "$root/$text" "$text"
done
cp -r "$root/docs" "$root/examples" "$tree/$name"
"$weir" man "$tree/$name/share/man/man1"
mkdir -p "$tree/$name/share/completions"
for shell in bash zsh fish; do
    "$weir" completions "$shell" > "$tree/$name/share/completions/weir.$shell"
done
# The same commit gives the same bytes: names in order, one date, no user.
moment=$(git -C "$root" log -1 --format=%ct)
tar --sort=name --mtime="@$moment" --owner=0 --group=0 --numeric-owner -C "$tree" -cf - "$name" |
    gzip -9n > "$out/$name.tar.gz"

"$root/dist/deb.sh" "$weir" "$out" "$lab"

python3 -m venv "$tree/venv"
"$tree/venv/bin/pip" install --quiet 'maturin>=1.7,<2'
"$tree/venv/bin/maturin" build --release --locked --manifest-path "$root/weir-python/Cargo.toml" --out "$out"

git -C "$root" archive --format=tar --prefix="weir-$version/" HEAD | gzip -9n > "$out/weir-$version.tar.gz"

(cd "$out" && sha256sum weir* > SHA256SUMS && sha256sum --check SHA256SUMS)
