// SPDX-License-Identifier: MIT OR GPL-2.0
/* A device with a line of its own: v0 sends one packet after the other, each for its length at `rate`
   bit/s (0: each at once), and v1 receives it when it begins. While a packet is on the line, v0's queue
   is stopped, and when it has ended the kernel asks the qdisc for the next one, also where none waits.
   Only in the machine of the comparison. */
#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/netdevice.h>

static unsigned long rate;
module_param(rate, ulong, 0644);

/* A packet that comes so soon after the line had room was waiting: it begins when the last one ended, so
   that what the kernel takes to wake up does not add up. */
#define WAKE_NS (100 * NSEC_PER_USEC)

static struct net_device *near, *far;
static struct hrtimer timer;
static ktime_t free_at;

static netdev_tx_t near_xmit(struct sk_buff *skb, struct net_device *dev)
{
	ktime_t now = ktime_get();

	if (rate) {
		u64 time = div64_ul(8ULL * NSEC_PER_SEC * skb->len, rate);

		if (ktime_sub(now, free_at) > WAKE_NS)
			free_at = now;
		free_at = ktime_add_ns(free_at, time);
		netif_stop_queue(dev);
		hrtimer_start(&timer, free_at, HRTIMER_MODE_ABS_SOFT);
	}
	dev_forward_skb(far, skb);
	return NETDEV_TX_OK;
}

static netdev_tx_t far_xmit(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static enum hrtimer_restart has_room(struct hrtimer *unused)
{
	netif_wake_queue(near);
	return HRTIMER_NORESTART;
}

static const struct net_device_ops near_ops = { .ndo_start_xmit = near_xmit };
static const struct net_device_ops far_ops = { .ndo_start_xmit = far_xmit };

static struct net_device *made(const char *name, const struct net_device_ops *ops)
{
	struct net_device *dev = alloc_netdev(0, name, NET_NAME_USER, ether_setup);

	if (!dev)
		return NULL;
	dev->netdev_ops = ops;
	eth_hw_addr_random(dev);
	if (register_netdev(dev)) {
		free_netdev(dev);
		return NULL;
	}
	return dev;
}

static int __init line_init(void)
{
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer.function = has_room;
	far = made("v1", &far_ops);
	near = far ? made("v0", &near_ops) : NULL;
	return near ? 0 : -ENOMEM;
}

module_init(line_init);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("A device whose packets take time");
