#!/bin/bash
# boot.sh DIR: runs the scripts in DIR/ird/scripts in the guest; its console is the output. The
# clock counts instructions, so one image has one output.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath "$1")
system=$dir/unpacked
python3 "$here/mkcpio.py" "$dir/ird" "$dir/ir.gz"
export LD_LIBRARY_PATH=$system/usr/lib/x86_64-linux-gnu:$system/lib/x86_64-linux-gnu
exec timeout "${WEIR_TWIN_SECONDS:-900}" "$system/usr/bin/qemu-system-x86_64" -L "$system/usr/share/qemu" \
    -L "$system/usr/share/seabios" -accel tcg -icount "shift=${WEIR_TWIN_SHIFT:-3},sleep=off" -m 512 -nographic -net none \
    -no-reboot -rtc base=2000-01-01,clock=vm -kernel "$system"/boot/vmlinuz-* -initrd "$dir/ir.gz" \
    -append "console=ttyS0 quiet panic=1 nokaslr random.trust_cpu=off" </dev/null
