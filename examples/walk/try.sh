#!/usr/bin/env bash
# `weir up` and `weir status` where nothing can break: a client, the bridge and a server, each in a
# network of its own that is gone when this ends. As root or as an ordinary user:
#
#     unshare -rn bash examples/walk/try.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# The two ends, each a network that lives as long as its `sleep`.
unshare -n sleep 600 & client=$!
unshare -n sleep 600 & server=$!
# Where `weir up` puts its socket, so that no running link is in the way.
XDG_RUNTIME_DIR=$(mktemp -d)
export XDG_RUNTIME_DIR
trap 'kill "$client" "$server" 2> /dev/null; rm -r "$XDG_RUNTIME_DIR"' EXIT
sleep 1

# A cable from the client to lan0, one from the server to wan0; the bridge joins the two.
ip link add lan0 type veth peer name eth0 netns "$client"
ip link add wan0 type veth peer name eth0 netns "$server"
ip link set lan0 up
ip link set wan0 up
for end in "$client 192.0.2.1" "$server 192.0.2.2"; do
    read -r network address <<< "$end"
    nsenter -t "$network" -n ip address add "$address/24" dev eth0
    nsenter -t "$network" -n ip link set eth0 up
done

weir up deployment.toml > /dev/null & bridge=$!
sleep 1

# A call of 50 packets a second, and a flood that exceeds the link many times and does not slow down.
traffic='
    for packet in {1..200}; do printf %160s > /dev/udp/192.0.2.2/5004; sleep 0.02; done &
    for burst in {1..100}; do
        dd if=/dev/zero bs=1200 count=160 > /dev/udp/192.0.2.2/6881; sleep 0.04
    done
    wait'
# The server refuses what comes, and `dd` would say so; only the link matters here.
nsenter -t "$client" -n bash -c "$traffic" 2> /dev/null || true
weir status home

kill -INT "$bridge"
wait "$bridge"
