// The link of most tests: a hierarchy under HTB with more traffic than it carries.
import { Link, pause } from "./network.mjs";

export const RATE = 20e6;

const POLICY = `[link]
rate = "20 Mbit/s"
scheduler = "htb"

[class.house]
rate = "20 Mbit/s"

[class.family]
parent = "house"
rate = "14 Mbit/s"
ceil = "20 Mbit/s"

[class.voice]
parent = "family"
rate = "1 Mbit/s"
ceil = "2 Mbit/s"
prio = 0
match = [{ proto = "udp", dport = 5004 }]

[class.web]
parent = "family"
rate = "8 Mbit/s"
ceil = "20 Mbit/s"
prio = 1
match = [{ proto = "udp", dport = 5080 }]

[class.bulk]
parent = "family"
rate = "5 Mbit/s"
ceil = "20 Mbit/s"
prio = 1
queue = { dropper = "tail", limit = "60 packets" }
match = [{ proto = "udp", dport = 5021 }]

[class.guests]
parent = "house"
rate = "6 Mbit/s"
ceil = "10 Mbit/s"
prio = 1
default = true
`;

/** Rates offered in Mbit/s by port: voice nearly keeps to its rate, the others want more. */
const TRAFFIC = { 5004: 0.95, 5080: 13, 5021: 9, 5099: 6.4 };

/** Starts it and lets some history come together. */
export async function house(weir, seconds = 8) {
  const link = await new Link(weir, POLICY).up();
  link.send(TRAFFIC);
  await pause(seconds * 1000);
  return link;
}

/** Returns what a class sent on average in the last seconds, in bit/s, by the server's history. */
export async function sent(link, name, seconds) {
  const about = await link.ask("/view/about");
  const { classes } = await link.ask(`/view/history?from=${about.to - seconds * 1000 + 1}`);
  const values = classes[name].sent_bps.filter((value) => value !== null).slice(-seconds);
  return values.reduce((a, b) => a + b, 0) / values.length;
}
