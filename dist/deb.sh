#!/bin/bash
# Makes a Debian package of a built Weir: dist/deb.sh BINARY FOLDER [LAB] writes weir_VERSION_ARCH.deb
# into FOLDER, with the program weir-lab if LAB names it, and prints the package's path;
# DEB_COMPRESSION=gzip or none makes it sooner, and larger. Needs dpkg-deb,
# objdump and strip. It runs the binary for completions and manual pages, so it makes packages for
# machines like the one that it runs on.
set -euo pipefail

binary=$(realpath "$1")
out=$(realpath "$2")
root=$(realpath "$(dirname "$0")/..")
version=$("$binary" --version | cut -d' ' -f2)
arch=$(dpkg --print-architecture)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

put() { install -D -m "$1" "$2" "$tree/$3"; }

put 755 "$binary" usr/bin/weir
if [ $# -gt 2 ]; then put 755 "$3" usr/bin/weir-lab; fi
strip --strip-unneeded "$tree"/usr/bin/*
put 644 "$root/dist/weir@.service" usr/lib/systemd/system/weir@.service
install -d -m 755 "$tree/etc/weir"

mkdir -p "$tree/usr/share/"{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
"$binary" completions bash > "$tree/usr/share/bash-completion/completions/weir"
"$binary" completions zsh > "$tree/usr/share/zsh/vendor-completions/_weir"
"$binary" completions fish > "$tree/usr/share/fish/vendor_completions.d/weir.fish"
"$binary" man "$tree/usr/share/man/man1"
gzip -9n "$tree"/usr/share/man/man1/*.1

doc=$tree/usr/share/doc/weir
mkdir -p "$doc"
cp -r "$root/docs/." "$doc"
cp -r "$root/examples" "$doc/examples"
for text in README.md SECURITY.md ARCHITECTURE.md; do
    put 644 "$root/$text" "usr/share/doc/weir/$text"
done
put 644 "$root/dist/host-port.conf" usr/share/doc/weir/host-port.conf
gzip -9nc "$root/CHANGELOG.md" > "$doc/changelog.gz"
cat > "$doc/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: weir

Files: *
Copyright: the Weir contributors
License: MIT or Apache-2.0

License: MIT
$(sed 's/^$/./; s/^/ /' "$root/LICENSE-MIT")

License: Apache-2.0
 On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.
END
find "$tree" -type d -exec chmod 755 {} +
find "$tree/usr/share" -type f ! -name '*.sh' -exec chmod 644 {} +
find "$tree/usr/share" -type f -name '*.sh' -exec chmod 755 {} +

# The newest version of the C library of which a symbol is used.
libc=$(objdump -T "$tree"/usr/bin/* | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -V | tail -1)
mkdir -m 755 "$tree/DEBIAN"
cat > "$tree/DEBIAN/control" <<END
Package: weir
Version: $version
Architecture: $arch
Maintainer: Weir <weir@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Depends: libc6 (>= $libc), libgcc-s1
Suggests: ethtool, iproute2
Section: net
Priority: optional
Description: link sharing that is proved before it is deployed
 Weir shapes the traffic of a line by a policy: it bridges two interfaces, or
 stands in one of the machine's own, and decides which packet leaves next. The
 same policy can be checked, tested, simulated and replayed beforehand.
 .
 A link runs as the service weir@NAME from /etc/weir/NAME.toml. Installing the
 package starts nothing.
END
for script in postinst prerm postrm; do
    put 755 "$root/dist/$script.sh" "DEBIAN/$script"
done
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)

# The same tree gives the same package.
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH=$epoch
find "$tree" -exec touch --no-dereference --date="@$epoch" {} +
package=$out/weir_${version}_$arch.deb
dpkg-deb --root-owner-group "-Z${DEB_COMPRESSION:-xz}" --build "$tree" "$package" > /dev/null
echo "$package"
