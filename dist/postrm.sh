#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
    # Deployments that an operator wrote stay.
    [ ! -d /etc/weir ] || rmdir --ignore-fail-on-non-empty /etc/weir
    # A link that was started by hand still runs, and has its socket there.
    [ ! -d /run/weir ] || rmdir --ignore-fail-on-non-empty /run/weir
fi
