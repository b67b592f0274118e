#!/bin/sh
# Three network namespaces in a row: sender, router, receiver. `networks.sh end` removes them.
set -e
if [ "$1" = end ]; then
    for node in sender router receiver; do ip netns delete $node; done
    exit
fi
for node in sender router receiver; do
    ip netns add $node
    ip -n $node link set lo up
done
ip -n sender link add eth0 type veth peer name eth0 netns router
ip -n router link add eth1 type veth peer name eth0 netns receiver
ip -n sender address add 10.1.0.1/24 dev eth0
ip -n router address add 10.1.0.2/24 dev eth0
ip -n router address add 10.2.0.2/24 dev eth1
ip -n receiver address add 10.2.0.3/24 dev eth0
ip -n sender link set eth0 up
ip -n router link set eth0 up
ip -n router link set eth1 up
ip -n receiver link set eth0 up
ip -n sender route add default via 10.1.0.2
ip -n receiver route add default via 10.2.0.2
ip netns exec router sysctl -qw net.ipv4.ip_forward=1
