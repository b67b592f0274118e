/* Sends packets at given times through the qdisc of v0, and tells when each left it.

   paced FILE: a line of FILE is NANOSECONDS PORT LENGTH CLASS FROM TO, times from the start on and in
   order. Packet N (from 0 on) is a UDP datagram over IPv4 to PORT, from port 1000, in a frame of LENGTH
   octets, with the traffic class CLASS, between the hosts FROM and TO of 10.0.0.0/24, with N in its
   payload. Prints `OFFERED DEPARTED CLASS` for each: when it was handed to the qdisc, when v1 received
   it, or -1, in ns, and with which traffic class. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PACKETS = 1 << 18, FRAME = 2048, NUMBER = 42, TOS = 15, PATIENCE_S = 30 };

static long long offered[PACKETS], departed[PACKETS];
static unsigned char class_of[PACKETS];

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int opened(const char *name, int protocol) {
    int fd = socket(AF_PACKET, SOCK_RAW, htons(protocol)), large = 256 << 20, on = 1;
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol),
                             .sll_ifindex = if_nametoindex(name)};
    if (fd < 0 || bind(fd, (void *)&at, sizeof at)) perror("socket"), exit(1);
    setsockopt(fd, SOL_SOCKET, protocol ? SO_RCVBUFFORCE : SO_SNDBUFFORCE, &large, sizeof large);
    if (protocol) setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    return fd;
}

/* Reads what v1 has received; returns how many packets. */
static int receive(int in) {
    static unsigned char frame[FRAME];
    char control[128];
    int count = 0;
    for (;; count++) {
        struct iovec data = {frame, sizeof frame};
        struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
                                 .msg_controllen = sizeof control};
        if (recvmsg(in, &message, MSG_DONTWAIT) <= NUMBER + 4) return count;
        unsigned number;
        memcpy(&number, frame + NUMBER, 4);
        struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);
        struct timespec at;
        memcpy(&at, CMSG_DATA(stamp), sizeof at);
        if (number >= PACKETS) continue;
        departed[number] = at.tv_sec * 1000000000LL + at.tv_nsec;
        class_of[number] = frame[TOS];
    }
}

static void frame_of(unsigned char *frame, unsigned number, const int *fields) {
    int port = fields[0], length = fields[1], class = fields[2], from = fields[3], to = fields[4];
    memset(frame, 0, FRAME);
    memset(frame, 2, 12);
    struct { unsigned char version, tos; unsigned short len, id, off; unsigned char ttl, protocol;
             unsigned short sum; unsigned source, target; } __attribute__((packed)) ip = {
        0x45, class, htons(length - 14), 0, 0, 64, 17, 0, htonl(0x0a000000 + from), htonl(0x0a000000 + to)};
    unsigned short udp[4] = {htons(1000), htons(port), htons(length - 34), 0};
    unsigned sum = 0;
    unsigned short words[10];
    memcpy(words, &ip, 20);
    for (int i = 0; i < 10; i++) sum += words[i];
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    ip.sum = ~sum;
    frame[12] = 8;
    memcpy(frame + 14, &ip, 20);
    memcpy(frame + 34, udp, 8);
    memcpy(frame + NUMBER, &number, 4);
}

int main(int argc, char **argv) {
    FILE *file = argc == 2 ? fopen(argv[1], "r") : 0;
    if (!file) return 1;
    prctl(PR_SET_TIMERSLACK, 1);
    int out = opened("v0", 0), in = opened("v1", ETH_P_IP);
    static unsigned char frame[FRAME];
    long long at, start = now() + 10000000, last = 0;
    int fields[5], count = 0, got = 0;
    memset(departed, 0xff, sizeof departed);
    for (; count < PACKETS; count++) {
        if (fscanf(file, "%lld", &at) != 1) break;
        for (int field = 0; field < 5; field++)
            if (fscanf(file, "%d", &fields[field]) != 1) return 1;
        at += start;
        frame_of(frame, count, fields);
        got += receive(in);
        struct timespec wake = {at / 1000000000, at % 1000000000};
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &wake, 0);
        offered[count] = now();
        // A qdisc that drops says so by an error.
        send(out, frame, fields[1], 0);
    }
    // What does not come for long was dropped.
    for (last = now(); got < count && now() < last + PATIENCE_S * 1000000000LL;) {
        usleep(20000);
        int more = receive(in);
        got += more;
        if (more) last = now();
    }
    for (int i = 0; i < count; i++)
        printf("%lld %lld %d\n", offered[i] - start, departed[i] < 0 ? -1 : departed[i] - start, class_of[i]);
    return 0;
}
