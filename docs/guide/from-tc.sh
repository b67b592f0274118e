# The home uplink of a thousand how-tos: telephone first, web next, the rest after.
tc qdisc add dev eth0 root handle 1: htb default 30
tc class add dev eth0 parent 1: classid 1:1 htb rate 9500kbit ceil 9500kbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 1mbit ceil 9500kbit prio 0
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 5mbit ceil 9500kbit prio 1
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 3500kbit ceil 9500kbit prio 2
tc qdisc add dev eth0 parent 1:10 pfifo limit 15
tc qdisc add dev eth0 parent 1:20 fq_codel
tc qdisc add dev eth0 parent 1:30 fq_codel
tc filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto udp dst_port 5004-5010 classid 1:10
tc filter add dev eth0 parent 1: protocol ip prio 2 flower ip_proto tcp dst_port 443 classid 1:20
tc filter add dev eth0 parent 1: protocol ip prio 3 u32 match ip tos 0xb8 0xfc classid 1:10
