#!/bin/sh
# Runs the traffic of a scenario through a script for tc in the kernel, between two network namespaces, as root:
#     docs/guide/kernel-htb-run.sh docs/guide/kernel-htb.sh docs/guide/kernel-htb-traffic.toml
set -e
script=$1 traffic=$2
host=weir-htb-a other=weir-htb-b
out=$(mktemp -d)
ip netns add $host
ip netns add $other
trap 'ip netns del $host; ip netns del $other; rm -r $out' EXIT
ip -n $host link add eth0 type veth peer name eth0 netns $other
ip -n $host addr add 10.78.0.1/24 dev eth0
ip -n $other addr add 10.78.0.2/24 dev eth0
ip -n $host link set eth0 up
ip -n $other link set eth0 up
ip netns exec $host sh "$script"
ip netns exec $other weir recv --port 5001 --port 5002 --streams 2 --seconds 40 > $out/recv 2> $out/said &
ip netns exec $host weir send 10.78.0.2 --scenario "$traffic" > $out/send &
sent() {
    ip netns exec $host tc -s class show dev eth0 |
        awk '/^class htb 1:[12]0/ { class = $3 } / Sent/ && class { print class, $2; class = "" }'
}
sleep 4
begun=$(date +%s.%N)
sent > $out/before
sleep 20
ended=$(date +%s.%N)
sent > $out/after
paste $out/before $out/after |
    awk -v from=$begun -v to=$ended '{ printf "class %s sent %.3f Mbit/s\n", $1, ($4 - $2) * 8 / (to - from) / 1e6 }'
wait
cat $out/recv
