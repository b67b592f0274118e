/* Sends the packets of a file, and prints the class of v0 in which each was counted, and with which
   traffic class it came to v1.

   counted FILE MINOR...: a line of FILE is DEVICE MARK FRAME, the frame in hexadecimal digits; the
   MINORs are the classes without children, in hexadecimal. For each packet it prints the minor
   number of the class that sent, holds or dropped it, or `-`; then, of a packet of IP that came, the
   byte of its traffic class. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/gen_stats.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A packet that comes is there at once. */
enum { CLASSES = 1 << 12, WAIT_MS = 5 };

static unsigned long count[CLASSES];
static int leaf[CLASSES];

static void add(struct rtattr *all, int len, unsigned minor) {
    for (struct rtattr *a = all; RTA_OK(a, len); a = RTA_NEXT(a, len)) {
        if (a->rta_type == TCA_STATS_BASIC) {
            struct gnet_stats_basic basic;
            memcpy(&basic, RTA_DATA(a), 12);
            count[minor] += basic.packets;
        } else if (a->rta_type == TCA_STATS_QUEUE) {
            struct gnet_stats_queue *queue = RTA_DATA(a);
            count[minor] += queue->qlen + queue->drops;
        }
    }
}

/* Reads how many packets each class has seen. */
static void classes(int netlink, int device) {
    struct { struct nlmsghdr head; struct tcmsg body; } ask = {0};
    ask.head.nlmsg_len = sizeof ask;
    ask.head.nlmsg_type = RTM_GETTCLASS;
    ask.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    ask.body.tcm_ifindex = device;
    send(netlink, &ask, sizeof ask, 0);
    memset(count, 0, sizeof count);
    static char buffer[1 << 17];
    for (;;) {
        int len = recv(netlink, buffer, sizeof buffer, 0);
        struct nlmsghdr *head = (void *)buffer;
        if (len <= 0) return;
        for (; NLMSG_OK(head, (unsigned)len); head = NLMSG_NEXT(head, len)) {
            if (head->nlmsg_type != RTM_NEWTCLASS) return;
            struct tcmsg *body = NLMSG_DATA(head);
            struct rtattr *a = (void *)((char *)body + NLMSG_ALIGN(sizeof *body));
            int rest = head->nlmsg_len - NLMSG_LENGTH(sizeof *body);
            if (body->tcm_handle >> 16 != 1 || (body->tcm_handle & 0xffff) >= CLASSES) continue;
            for (; RTA_OK(a, rest); a = RTA_NEXT(a, rest))
                if ((a->rta_type & NLA_TYPE_MASK) == TCA_STATS2)
                    add(RTA_DATA(a), RTA_PAYLOAD(a), body->tcm_handle & 0xffff);
        }
    }
}

/* Returns the traffic class of the last frame that came to the socket; -1 if none came, or one
   without IP. */
static int received(int in) {
    static unsigned char frame[1 << 14];
    int found = -1;
    for (struct pollfd one = {.fd = in, .events = POLLIN}; poll(&one, 1, found < 0 ? WAIT_MS : 0) > 0;) {
        int len = recv(in, frame, sizeof frame, 0), at = 12;
        while (at + 4 < len && frame[at] == 0x81 && frame[at + 1] == 0) at += 4;
        int type = at + 4 < len ? frame[at] << 8 | frame[at + 1] : 0;
        const unsigned char *ip = frame + at + 2;
        if (type == 0x0800) found = ip[1];
        else if (type == 0x86dd) found = (ip[0] << 4 | ip[1] >> 4) & 0xff;
        else return -1;
    }
    return found;
}

int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "r");
    for (int i = 2; i < argc; i++) leaf[strtoul(argv[i], 0, 16) % CLASSES] = 1;
    int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    int in = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    struct sockaddr_ll end = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex("v1")};
    bind(in, (void *)&end, sizeof end);
    int out = socket(AF_PACKET, SOCK_RAW, 0), v0 = if_nametoindex("v0");
    static char device[64], text[1 << 15];
    static unsigned char frame[1 << 14];
    static unsigned long before[CLASSES];
    unsigned mark;
    classes(netlink, v0);
    while (fscanf(file, "%63s %u %32767s", device, &mark, text) == 3) {
        int len = strlen(text) / 2;
        for (int i = 0; i < len; i++) sscanf(text + 2 * i, "%2hhx", frame + i);
        struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(device)};
        setsockopt(out, SOL_SOCKET, SO_MARK, &mark, sizeof mark);
        memcpy(before, count, sizeof count);
        if (sendto(out, frame, len, 0, (void *)&to, sizeof to) != len) perror("send");
        classes(netlink, v0);
        int found = -1;
        for (int i = 0; i < CLASSES; i++)
            if (leaf[i] && count[i] != before[i]) found = i;
        if (found < 0) printf("-"); else printf("%x", found);
        int byte = received(in);
        if (byte >= 0) printf(" %02x", byte);
        puts("");
    }
    return 0;
}
