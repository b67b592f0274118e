/* Sends the packets of a file, and prints the class of v0 in which each was counted.

   counted FILE MINOR...: a line of FILE is DEVICE MARK FRAME, the frame in hexadecimal digits; the
   MINORs are the classes without children, in hexadecimal. For each packet it prints the minor
   number of the class that sent, holds or dropped it, or `-`. */
#define _GNU_SOURCE
#include <linux/gen_stats.h>
#include <linux/if_packet.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLASSES = 1 << 12 };

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

int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "r");
    for (int i = 2; i < argc; i++) leaf[strtoul(argv[i], 0, 16) % CLASSES] = 1;
    int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
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
        if (found < 0) puts("-"); else printf("%x\n", found);
    }
    return 0;
}
