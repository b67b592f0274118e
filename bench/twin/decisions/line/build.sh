#!/bin/bash
# build.sh DIR: builds line.c for the kernel below DIR, as DIR/line/line.ko. Needs root for apt's
# download of that kernel's headers; installs nothing. With headers that are there it needs no network.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath "$1")
image=$(echo "$dir"/unpacked/boot/vmlinuz-*)
version=${image##*/vmlinuz-}
sources=$dir/headers/usr/src
if [ ! -e "$sources/linux-headers-$version" ]; then
    mkdir -p "$dir/headers/debs/partial"
    apt-get -y -q --no-install-recommends --download-only --reinstall -o Dir::Cache::Archives="$dir/headers/debs" \
        install "linux-headers-$version" "linux-headers-${version%-cloud-amd64}-common" linux-kbuild-6.1
    for package in "$dir"/headers/debs/linux-{headers,kbuild}*.deb; do dpkg -x "$package" "$dir/headers"; done
    # The headers name the folder in which they would be installed.
    sed -i "s|^include /usr/src/|include $sources/|" "$sources/linux-headers-$version/Makefile"
fi
mkdir -p "$dir/line"
cp "$here/line.c" "$dir/line/"
echo "obj-m := line.o" >"$dir/line/Makefile"
make -s -C "$sources/linux-headers-$version" M="$dir/line" CC=gcc modules
