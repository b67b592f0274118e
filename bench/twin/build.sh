#!/bin/bash
# build.sh DIR: unpacks a kernel, QEMU, BusyBox and tc of the distribution below DIR, and makes the
# folder DIR/ird of the guest. Needs root for apt's download; installs nothing. A folder that has the
# packages already needs no network. Packages that the machine has are downloaded all the same.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "$1")
mkdir -p "$dir/debs/partial" "$dir/unpacked"
if [ ! -e "$dir/unpacked/boot" ]; then
    kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-6.*\)/\1/p' | head -1)
    apt-get -y -q --no-install-recommends --download-only --reinstall -o Dir::Cache::Archives="$dir/debs" \
        install qemu-system-x86 qemu-system-common qemu-system-data seabios busybox-static iproute2 "$kernel"
    for package in "$dir"/debs/*.deb; do dpkg -x "$package" "$dir/unpacked"; done
fi
guest=$dir/ird
rm -rf "$guest"
mkdir -p "$guest"/{bin,sbin,lib/x86_64-linux-gnu,lib64,mod,proc,sys,scripts}
cp "$dir/unpacked/bin/busybox" "$guest/bin/"
for tool in tc ip; do
    binary=$(readlink -f "$(command -v $tool)")
    cp "$binary" "$guest/sbin/$tool"
    ldd "$binary" | awk '/=> \//{print $3}' | xargs -I{} cp -Lu {} "$guest/lib/x86_64-linux-gnu/"
done
cp -L /lib64/ld-linux-x86-64.so.2 "$guest/lib64/"
modules="veth llc stp mrp garp 8021q cls_u32 cls_flower cls_fw cls_matchall cls_basic em_cmp em_u32
    act_police act_gact act_pedit act_csum libcrc32c crc32c-intel sch_htb sch_prio sch_drr sch_qfq sch_sfq sch_red"
for module in $modules; do
    find "$dir"/unpacked/lib/modules/*/kernel -name "$module.ko" -exec cp {} "$guest/mod/" \;
done
gcc -O2 -static -o "$guest/bin/counted" "$here/counted.c"
mkdir -p "$guest/etc/iproute2"
printf '1\tcmp\n' >"$guest/etc/iproute2/ematch_map"
cp "$here/init" "$guest/init"
chmod +x "$guest/init"
