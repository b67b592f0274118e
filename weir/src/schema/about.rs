//! The meaning of keys that no registry describes: of `[link]`, of classes and of rules.
//!
//! A key without its row here has no description, and a test fails.

use serde_json::{Map, Value, json};

/// A key, what it means, and the value if it is not written (empty: none).
pub type About = (&'static str, &'static str, &'static str);

/// Adds the descriptions and defaults to a table of keys.
pub fn described(mut keys: Map<String, Value>, rows: &[About]) -> Map<String, Value> {
    for (key, what, default) in rows {
        let Some(schema) = keys.get_mut(*key) else { continue };
        schema["description"] = json!(what);
        if !default.is_empty() {
            schema["default"] = default.parse::<u64>().map_or_else(|_| json!(default), Value::from);
        }
    }
    keys
}

/// Keys of `[link]`.
pub const LINK: &[About] = &[
    ("rate", "The rate of the line; packets must wait here, so a little less than it carries.", ""),
    ("scheduler", "Which class sends next.", ""),
    ("overhead", "What a packet takes on the wire beside its own bytes.", "frame"),
    (
        "charge",
        "What classes are charged for a packet: its length on the wire, or the frame.",
        "wire",
    ),
    ("mtu", "The largest IP packet.", "1500"),
    ("buffer", "Bytes in the driver's buffer, behind the scheduler.", "0 B"),
    (
        "follows_arrivals",
        "Whether the rate follows that at which packets arrive, 15/16 of its peak, as in `cake` \
         with `autorate-ingress`: behind a bottleneck whose rate is not known; `rate` is the first.",
        "false",
    ),
    ("rtt", "The round-trip time of the paths through the link; for warnings only.", ""),
    (
        "packets_max",
        "The most packets that wait in all queues together.",
        "what the queues' limits allow, at least 65536 packets",
    ),
    (
        "places",
        "Places for classes that join directly under the link while it runs (`weir class`); a \
         table has `count`, and what such a class has unless it writes others: `queue`, its \
         parameters.",
        "none",
    ),
    (
        "oversubscribe",
        "Whether the rates at the top may together be more than the link's.",
        "false",
    ),
    ("seed", "Where random droppers and hashes begin.", "0"),
    ("classifier", "How the rules are searched; every way finds the same.", "the first of them"),
    ("match_order", "Which of several rules that match decides.", "first"),
    ("fragments", "How fragments without ports are classified; a table sets its size.", "cache"),
];

/// Keys of a class under any scheduler.
pub const CLASS: &[About] = &[
    ("parent", "The class above it.", "none: it is directly below the link"),
    ("default", "Whether packets that match no rule go here; exactly one class has it.", "false"),
    ("queue", "How its packets wait, and which are dropped.", "the first dropper, 100 packets"),
    (
        "isolate",
        "Each flow has a queue of its own: `flows` by turns, or hosts by turns, by the address that \
         is named, and then the flows of each. `queue` may say more of it.",
        "",
    ),
    ("police", "What happens to its packets above a rate, before the queue.", "nothing"),
    (
        "set_dscp",
        "The code point that its packets leave with; the ECN field stays. With `police`, for those \
         that would pass unmarked.",
        "that they came with",
    ),
    ("hash", "Spreads its packets over `queues` queues, by this part of the headers.", ""),
    ("queues", "How many queues it stands for, each with the keys of the class.", ""),
    (
        "places",
        "Places for classes that join under it while the link runs (`weir class`), as in [link]; \
         it needs a child without `place`.",
        "none",
    ),
    (
        "place",
        "The place of its parent that it has, from 0: `weir class` writes it.",
        "none: it is no class that joined",
    ),
    ("note", "A text that goes with the class and decides nothing.", "none"),
    (
        "oversubscribe",
        "Whether the rates of its children may together be more than its own.",
        "false",
    ),
    ("match", "A rule, or a list of rules, that lead here.", ""),
    (
        "delay",
        "The longest delay that its packets should have; `weir check` proves or refuses it.",
        "",
    ),
    ("arrival", "The most that it is offered; for bounds only.", ""),
    ("window", "The TCP window of the single flow that it carries; for warnings only.", ""),
    ("typical_packet", "The length of most of its packets; for warnings only.", ""),
];

/// Keys of a rule.
pub const RULE: &[About] = &[
    ("src", "Networks or addresses of the sender.", "any"),
    ("dst", "Networks or addresses of the receiver.", "any"),
    ("proto", "The protocol: `tcp`, `udp`, `icmp` and others, or a number.", "any"),
    ("src_mac", "The station that sent the frame, or a list.", "any"),
    ("dst_mac", "The station that the frame is for, or a list.", "any"),
    ("sport", "The sender's port, a range such as `5004-5010`, a service, or a list.", "any"),
    ("dport", "The receiver's port, a range such as `5004-5010`, a service, or a list.", "any"),
    ("dscp", "The code point: `ef`, `af41`, `cs1`, `le`, a number, or a list.", "any"),
    ("ecn", "The ECN field.", "any"),
    ("mark", "The mark that a firewall gave the packet.", "any"),
    ("vlan", "The outer VLAN tag; `none` or `any` for frames without and with one.", "any"),
    ("vlan_inner", "The inner VLAN tag.", "any"),
    ("pcp", "The priority in the outer VLAN tag, 0 to 7, or a list.", "any"),
    (
        "tcp_flags",
        "Flags of TCP that are set, or with `!` not set, such as `syn` or `ack,!psh`; of a list, \
         one must hold.",
        "any",
    ),
    (
        "icmp_type",
        "With `proto` `icmp` or `icmpv6`, the type of the message: a name such as `echo-request`, a \
         number, `3/4` with a code, or a list.",
        "any",
    ),
    ("length", "The length of the IP packet with its header, such as `0-100 B`, or a list.", "any"),
    ("ethertype", "The type of the frame, such as `arp`.", "any"),
    ("interface", "The port of the deployment by which the packet came.", "any"),
    ("ruleno", "With `match_order = \"altq\"`: its number there; larger goes first.", "0"),
    ("prio", "With `match_order = \"u32\"`: its number there; smaller goes first.", "49152"),
    ("police", "A meter of the rule's own, in place of its class's.", "the class's"),
    ("set_dscp", "The code point that its packets leave with.", "the class's"),
];
