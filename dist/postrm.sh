#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
    # Deployments that an operator wrote stay.
    rmdir --ignore-fail-on-non-empty /etc/weir 2>/dev/null || true
    rm -rf /run/weir
fi
