# As kernel-htb.sh, but what is left over is shared in equal turns: both quanta are one packet.
tc qdisc add dev eth0 root handle 1: htb default 20
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit ceil 10mbit
# class 1:10 is small
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 1mbit ceil 10mbit quantum 1514
# class 1:20 is large
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 3mbit ceil 10mbit quantum 1514
tc qdisc add dev eth0 parent 1:10 pfifo limit 50
tc qdisc add dev eth0 parent 1:20 pfifo limit 50
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 5001 0xffff classid 1:10
