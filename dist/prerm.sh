#!/bin/sh
# Before the program goes, links end; an upgrade leaves them running.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl stop 'weir@*.service' || true
fi
