//! The keys of scenarios. Those of an application model are in its file in `kinds/`.

use super::network::CELLS;
use super::rsvp::STYLES;
use super::tcp::{CONTROLLERS, ECN};
use crate::conversation::{AMOUNT_MAX, EXCHANGES_MAX};
use crate::kinds;
use crate::network::plan::TAP_ROWS_MAX;
use crate::scenario::{Profile, QUICK_ACKS_MAX};
use weir_autorate::{REFLECTORS_MAX, REFLECTORS_MIN};
use weir_core::link::Framing;
use weir_core::units::Dimension;
use weir_policy::deployment::EXCESSES;
use weir_policy::keys::{
    ANY, Key, Keys, LIMIT, MANY, MUST, NAMES, PACKETS, RATE, SHARE, SIZE, TIME, Values, key, words,
};

/// The keys of a kind of source, beside those of every source.
#[derive(Clone, Copy, Debug)]
pub struct SourceKind {
    /// The word in scenarios.
    pub keyword: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its keys.
    pub keys: Keys,
}

/// Returns every kind of source.
pub fn sources() -> impl Iterator<Item = &'static SourceKind> {
    PLAIN.iter().chain(kinds::KINDS.iter().map(|kind| &kind.source))
}

/// Returns the tables of a scenario that have a key, in words; for what is in the wrong one.
pub fn homes(key: &str) -> Vec<String> {
    let has = |keys: Keys| keys.iter().flat_map(|group| group.iter()).any(|row| row.name == key);
    let tables = HOMES.iter().filter(|(_, keys)| has(keys)).map(|(name, _)| (*name).to_owned());
    let kinds: Vec<_> = sources().filter(|kind| has(kind.keys)).map(|kind| kind.keyword).collect();
    let some: Vec<_> = kinds.iter().take(KINDS_SHOWN).map(|kind| format!("`{kind}`")).collect();
    let of_kinds = (!some.is_empty()).then(|| {
        let more = if kinds.len() > KINDS_SHOWN { " and others" } else { "" };
        format!("a `[[source]]` of kind {}{more}", some.join(", "))
    });
    let of_policy = ["rate", "scheduler"].contains(&key).then(|| "[link] of the policy".to_owned());
    tables.chain(of_kinds).chain(of_policy).collect()
}

/// The tables that [`homes`] names.
const HOMES: &[(&str, Keys)] = &[
    ("the scenario itself, above its tables", TOP_LEVEL),
    ("every `[[source]]`", SOURCE),
    ("[behind], or `behind` of a `[[link]]`", BEHINDS),
    ("a table `rate`", CAPACITIES),
    ("`autorate` of a `[[link]]`", AUTORATES),
    ("a `[[link]]` of a network", LINKS),
    ("a `[[node]]` of a network", NODES),
    ("`cpu` of a `[[node]]`", COSTS),
    ("a `[[change]]`", CHANGES),
    ("[rsvp]", SIGNALLING),
    ("a `[[reservation]]`", RESERVATIONS),
];
/// How many kinds of sources are named.
const KINDS_SHOWN: usize = 3;

/// The file, but for the keys of its sources.
pub const FILE: Keys = &[TOP, TABLES];
/// The first table of the page.
pub const TOP_LEVEL: Keys = &[TOP];
/// A `[[source]]` of any kind.
pub const SOURCE: Keys = &[EVERY_SOURCE];
/// A row of `sizes`.
pub const SIZES: Keys = &[SIZE_ROW];
/// A row of `conversation`.
pub const EXCHANGES: Keys = &[EXCHANGE];
/// A `[[change]]`.
pub const CHANGES: Keys = &[CHANGE];
/// A `[[node]]`.
pub const NODES: Keys = &[NODE];
/// `cpu` of a node.
pub const COSTS: Keys = &[CPU];
/// A `[[link]]`.
pub const LINKS: Keys = &[LINK, WAY];
/// `back` of a link.
pub const WAYS: Keys = &[WAY];
/// `driver` of a link.
pub const DRIVERS: Keys = &[DRIVER];
/// `behind`, of the one link or of a link of a network.
pub const BEHINDS: Keys = &[BEHIND];
/// `autorate` of a link.
pub const AUTORATES: Keys = &[AUTORATE];
/// `rate` of what varies.
pub const CAPACITIES: Keys = &[CAPACITY];
/// A `[[tap]]`.
pub const TAPS: Keys = &[TAP];
/// `[rsvp]`.
pub const SIGNALLING: Keys = &[RSVP];
/// A `[[reservation]]`.
pub const RESERVATIONS: Keys = &[RESERVATION, TSPEC];
/// A row of `retune`.
pub const RETUNES: Keys = &[RETUNE, TSPEC];

/// Keys of every scenario.
const TOP: &[Key] = &[
    key(
        "policy",
        Values::Policy,
        MUST,
        "The policy's file, relative to this one, or a table `[policy]`.",
    ),
    key("duration", TIME, MUST, "How long to simulate."),
    key("warmup", TIME, "0 s", "How long to simulate before anything counts."),
    key("delay", TIME, "0 s", "From the last bit on the line to the receiver."),
    key("seed", Values::Number(0, i64::MAX as u64), "1", "Another seed gives another run."),
    key(
        "start_jitter",
        TIME,
        "0 s",
        "Each source starts later by a random time up to this, of its own in each run.",
    ),
    key(
        "processing_jitter",
        TIME,
        "0 s",
        "The receiver of a connection answers each packet later by a random time up to this.",
    ),
    key("name", Values::Text, "the file's", "The name in the report."),
];
/// Tables of a scenario beside its sources.
const TABLES: &[Key] = &[
    key("source", Values::List(&Values::Table(SOURCE), 0, MANY), "", ""),
    key("behind", Values::Table(BEHINDS), "", ""),
    key("change", Values::List(&Values::Table(CHANGES), 0, MANY), "", ""),
    key("node", Values::List(&Values::Table(NODES), 0, MANY), "", ""),
    key("link", Values::List(&Values::Table(LINKS), 0, MANY), "", ""),
    key("tap", Values::List(&Values::Table(TAPS), 0, MANY), "", ""),
    key("rsvp", Values::Table(SIGNALLING), "", ""),
    key("reservation", Values::List(&Values::Table(RESERVATIONS), 0, MANY), "", ""),
];

const EVERY_SOURCE: &[Key] = &[
    key("name", Values::Text, MUST, "The name in the report; its random numbers follow from it."),
    key("kind", Values::Text, MUST, "One of the kinds below."),
    key("proto", Values::Field, "`udp`, or `tcp` for what uses it", "The protocol of its packets."),
    key("src", Values::Text, "one for documentation", "The sender's address."),
    key("dst", Values::Text, "one for documentation", "The receiver's address."),
    key("src_mac", Values::Text, "none", "The station that sends its frames."),
    key("dst_mac", Values::Text, "none", "The station that its frames are for."),
    key("sport", PORT, "one of its own", "The sender's port."),
    // As iperf's.
    key("dport", PORT, "5001", "The receiver's port."),
    key("dscp", Values::Field, "0", "The code point."),
    key("ecn", Values::Field, "0", "The ECN field."),
    key(
        "icmp_type",
        Values::Field,
        "none",
        "With `proto` `icmp` or `icmpv6`, the type of its messages: a name or number, or `3/4` with a \
         code.",
    ),
    key("vlan", Values::Field, "no tag", "The VLAN."),
    key("pcp", Values::Field, "0", "The priority in the VLAN tag; without `vlan`, of VLAN 0."),
    key(
        "mark",
        Values::Number(0, u32::MAX as u64),
        "0",
        "The mark that a firewall gave its packets.",
    ),
    key("interface", Values::Text, "none", "The interface by which its packets come."),
    key("class", Values::Text, "not checked", "The class to which its packets must go."),
    key("start", TIME, "0 s", "When it begins to send."),
    key("stop", TIME, "the end", "When it stops."),
    key("from", Values::Text, "", "In a network, where it must be written: the sending node."),
    key("to", Values::Text, "", "In a network, where it must be written: the receiving node."),
];

/// Kinds of sources that are not models.
const PLAIN: &[SourceKind] = &[
    plain("cbr", "Packets at equal intervals.", &[OPEN, JITTER]),
    plain("poisson", "Packets at random instants.", &[OPEN]),
    plain("on-off", "Packets at equal intervals, in periods.", &[OPEN, ON_OFF, PERIOD]),
    plain("tcp", "Transfers over TCP, or a conversation.", &[TCP, BULK, PERIOD, CONVERSATION]),
    plain("quic", "Transfers over QUIC, or a conversation.", &[QUIC, BULK, PERIOD, CONVERSATION]),
];

const fn plain(keyword: &'static str, summary: &'static str, keys: Keys) -> SourceKind {
    SourceKind { keyword, summary, keys }
}

/// How long packets are, and how far apart.
const OPEN: &[Key] = &[
    key("size", SIZE, "", "The length of each frame; or write `payload` or `sizes`."),
    key("payload", SIZE, "", "The bytes after the UDP header."),
    key(
        "sizes",
        Values::List(&Values::Table(SIZES), 1, MANY),
        "",
        "Several lengths, each with its share.",
    ),
    key("rate", RATE, "", "The rate of the frames (the mean, while it is on); or `interval`."),
    key("interval", TIME, "", "The time from one packet to the next."),
];
const SIZE_ROW: &[Key] = &[
    key("size", SIZE, MUST, "The length of a frame."),
    key("share", SHARE, MUST, "The part of the packets that have it."),
];
const JITTER: &[Key] = &[key("jitter", SHARE, "0 %", "By how much each interval varies.")];
const ON_OFF: &[Key] = &[
    key("on", TIME, MUST, "The mean length of a period in which it sends."),
    key("off", TIME, MUST, "The mean length of a pause."),
];
/// Periods, or pauses, around their mean.
pub(crate) const PERIOD: &[Key] = &[
    key("distribution", PERIODS, "exponential", "Of the periods or pauses."),
    key("shape", Values::Fraction, "1.5", "Of Pareto's distribution, above 1."),
];
/// Connections over TCP.
pub(crate) const TCP: &[Key] = &[
    key(
        "profile",
        Values::Words(&PROFILES),
        "Linux with plainer receivers",
        "The hosts whose values all others are.",
    ),
    key(
        "congestion",
        Values::Words(&words::<_, { CONTROLLERS.len() }>(&CONTROLLERS)),
        "cubic",
        "The congestion control.",
    ),
    key(
        "ecn",
        Values::Words(&words::<_, { ECN.len() }>(&ECN)),
        "off; `accurate` with `dctcp` and `prague`",
        "Whether marks replace losses.",
    ),
    key("hystart", Values::Flag, "true", "Whether delays end slow start; only with `cubic`."),
    key("initial_window", LIMIT, "RFC 6928: 10 packets", "What a new connection may send at once."),
    key("slow_start", Values::Words(&["bytes", "acks"]), "bytes", "What the window grows by."),
    key("pacing", Values::Flag, "false", "Whether segments are spread over the round trip."),
    key("nagle", Values::Flag, "true", "Whether a small segment waits while another is under way."),
    key("idle_restart", Values::Flag, "true", "Whether the window shrinks after a pause."),
    key("sack", Values::Flag, "true", "Whether losses are repaired by selective acknowledgements."),
    key("rto_min", TIME, "200 ms, or without `sack` 1 s", "The least retransmission timeout."),
    key("window", SIZE, "65535 B", "The receiver's buffer."),
    key("window_max", SIZE, "`window`", "What the buffer grows to as the application reads."),
    key("mtu", MTU, "1500 B", "The largest IP packet."),
    key("mss", Values::Words(&["mtu", "bsd"]), "mtu", "How segments are cut."),
    key("ack_delay", TIME, "10 ms", "How long an acknowledgement may be held back."),
    key(
        "quick_acks",
        QUICK,
        "0",
        "Segments of a new connection acknowledged one by one; Linux: 15 to 24.",
    ),
    key(
        "timestamps",
        Values::Flag,
        "false",
        "Whether each segment carries a timestamp of 12 bytes; Linux: true.",
    ),
    key("return_delay", TIME, "0 s", "How long acknowledgements travel; not in a network."),
    key(
        "loss",
        SHARE,
        "0 %",
        "The part of its packets that is lost behind the link, by chance; not in a network.",
    ),
];
/// Connections over QUIC.
pub(crate) const QUIC: &[Key] = &[
    key("congestion", Values::Words(&["cubic", "reno"]), "cubic", "The congestion control."),
    key("ecn", Values::Words(&["off", "classic"]), "off", "Whether marks replace losses."),
    key("initial_window", LIMIT, "RFC 9002: 10 packets", "What a new connection may send at once."),
    key("window", SIZE, "1250 KB", "The receiver's buffer, of the stream and of the connection."),
    key("mtu", MTU, "1500 B", "The largest IP packet; at least 1228 B."),
    key(
        "ack_delay",
        TIME,
        "25 ms",
        "The longest time for which the receiver may hold an acknowledgement back.",
    ),
    key("return_delay", TIME, "0 s", "How long the receiver's packets travel; not in a network."),
];
/// The transport of connections.
pub(crate) const CARRIER: &[Key] = &[key(
    "transport",
    Values::Words(&["tcp", "quic"]),
    "tcp",
    "With `quic` the keys of `quic` hold in place of those of TCP.",
)];
/// Transfers one after another.
const BULK: &[Key] = &[
    key("bytes", SIZE, "without end", "How much to send."),
    key("think", TIME, "one transfer", "The mean pause before the next transfer."),
];
/// Exchanges on one connection.
const CONVERSATION: &[Key] = &[
    key(
        "conversation",
        Values::List(&Values::Table(EXCHANGES), 1, EXCHANGES_MAX),
        "a transfer",
        "The requests and responses of one connection, in place of `bytes`.",
    ),
    key(
        "client",
        Values::Words(&["src", "dst"]),
        "src",
        "With `conversation`: the end that opens the connection and sends the requests.",
    ),
    key(
        "buffer",
        TIME,
        "none",
        "With `conversation`: a player holds so much at most; `every` is how long a chunk is shown.",
    ),
];
const EXCHANGE: &[Key] = &[
    key("after", TIME, "0 s", "From the end of the exchange before, or from the open connection."),
    key("every", TIME, "0 s", "At least so long after the beginning of the exchange before."),
    key("connect", Values::Flag, "false", "Whether it has a new connection, opened after `after`."),
    key("up", Values::Number(0, AMOUNT_MAX), "0", "Bytes of the request; 0 if the server begins."),
    key("wait", TIME, "0 s", "How long the server takes to respond."),
    key("down", Values::Number(0, AMOUNT_MAX), "0", "Bytes of the response; 0 if there is none."),
];

const CHANGE: &[Key] = &[
    key("at", TIME, MUST, "When, after the change before."),
    key(
        "policy",
        Values::Policy,
        MUST,
        "The policy from then on: a file or a table `[change.policy]`.",
    ),
    key("link", Values::Text, "", "In a network, where it must be written: the link that changes."),
    key("from", Values::Text, "the first", "In a network: the node at whose end it changes."),
];
const NODE: &[Key] = &[
    key("name", Values::Text, MUST, "The name, unique among nodes."),
    key("router", Values::Flag, "false", "Whether it forwards."),
    key("address", Values::Text, "10.0.0.1 and so on", "Of packets that have none."),
    key("cpu", Values::Table(COSTS), "no cost", "What forwarding a packet costs."),
];
const CPU: &[Key] = &[
    key("receive", TIME, "0 s", "For each arriving packet, before all other work."),
    key("base", TIME, "0 s", "For each packet forwarded."),
    key("per_byte", TIME, "0 s", "For each byte of it."),
    key("per_cell", TIME, "0 s", "For each cell of it."),
    key("per_class", TIME, "0 s", "For each class of the outlet."),
    key("queue", PACKETS, "50 packets", "The input queue."),
];
/// Both directions of a link.
const LINK: &[Key] = &[
    key("name", Values::Text, MUST, "The name; `interface` in rules names links."),
    key(
        "ends",
        Values::List(&ANY, 2, 2),
        MUST,
        "The two nodes; forward is from the first to the second.",
    ),
    key("mtu", MTU, "1500 B", "The largest IP packet; longer ones go in fragments."),
    key("back", Values::Table(WAYS), "as forward, with one queue", "What differs backward."),
];
/// A direction of a link.
const WAY: &[Key] = &[
    key("policy", Values::Policy, "one queue", "The policy: a file or a table."),
    key(
        "rate",
        VARYING,
        "",
        "Without a policy: the rate, which must be written then, or a capacity that varies.",
    ),
    key(
        "framing",
        Values::Words(&words::<_, { Framing::PRESETS.len() }>(Framing::PRESETS)),
        "frame",
        "Without a policy: as `overhead` in one.",
    ),
    key("queue", LIMIT, "50 packets", "Without a policy: the limit of the queue."),
    key(
        "pvc_rate_is",
        Values::Words(&words::<_, { CELLS.len() }>(CELLS)),
        "cells",
        "With the framing `atm`: what the rate counts.",
    ),
    key("behind", Values::Table(BEHINDS), "nothing", "A bottleneck at the end of the wire."),
    key("autorate", Values::Table(AUTORATES), "a fixed rate", "A controller of the rate."),
    key("delay", TIME, "0 s", "From the last bit on the wire to its arrival."),
    key(
        "jitter",
        TIME,
        "0 s",
        "The most that `delay` grows by chance; packets overtake each other.",
    ),
    key("loss", SHARE, "0 %", "The part of the packets that is lost behind the wire, by chance."),
    key("driver", Values::Table(DRIVERS), "line", "What lies between the scheduler and the wire."),
    key(
        "tick",
        Values::Text,
        "waits end exactly",
        "A frequency such as `100 Hz`, at which waits end.",
    ),
];
/// A bottleneck.
const BEHIND: &[Key] = &[
    key("rate", VARYING, MUST, "The capacity of its line: a number, a trace or a model."),
    key("buffer", BUFFER, "250 KB", "What its queue holds; a time is the longest wait."),
    key(
        "framing",
        Values::Words(&words::<_, { Framing::PRESETS.len() }>(Framing::PRESETS)),
        "frame",
        "What its line sends for a frame; as `overhead` in a policy.",
    ),
];
/// A controller of a rate; as in a deployment.
const AUTORATE: &[Key] = &[
    key("min", RATE, MUST, "The least rate."),
    key("base", RATE, MUST, "The rate at the start, and while nothing tells."),
    key("max", RATE, MUST, "The highest rate."),
    key("target", TIME, "15 ms", "The delay behind the link that is allowed."),
    key("controller", Values::Words(&CONTROLLED), "delay-target", "The rule."),
    key(
        "probes",
        Values::List(&TIME, REFLECTORS_MIN, REFLECTORS_MAX),
        "none",
        "How long each host behind the modem takes to answer that is asked where nothing tells.",
    ),
];
/// A capacity that varies.
const CAPACITY: &[Key] = &[
    key("trace", Values::Text, "", "A file of rates over time, relative to this one."),
    key("loop", Values::Flag, "true", "With `trace`: whether it begins again at its end."),
    key("start", TIME, "0 s", "With `trace`: where in it the line begins."),
    key("model", Values::Words(&["gilbert", "markov", "diurnal"]), "", "A random capacity."),
    key("seed", Values::Number(0, i64::MAX as u64), "1", "With `model`: another one draws others."),
    key("length", TIME, "600 s", "With `model`: what is drawn; then it begins again."),
    key("good", RATE, "", "`gilbert`: the rate of the good state."),
    key("good_for", TIME, "5 s", "`gilbert`: how long it lasts, on average."),
    key("bad", RATE, "", "`gilbert`: the rate of the bad state."),
    key("bad_for", TIME, "1 s", "`gilbert`: how long it lasts, on average."),
    key(
        "rates",
        Values::List(&RATE, 1, MANY),
        "",
        "`markov`: the rates, of which the next is the one before or behind.",
    ),
    key("stay", TIME, "1 s", "`markov`: how long each lasts, on average."),
    key("most", RATE, "", "`diurnal`: the rate at the start of a period."),
    key("least", RATE, "", "`diurnal`: the rate in its middle."),
    key("period", TIME, "86400 s", "`diurnal`: from one start to the next."),
    key("noise", SHARE, "0 %", "`diurnal`: by how much each step is more or less, by chance."),
];
const DRIVER: &[Key] = &[
    key("model", Values::Words(&["line", "en", "fxp"]), MUST, "Which driver."),
    key(
        "drain",
        Values::Flag,
        "true",
        "`en`: whether a start takes packets until the list is full.",
    ),
    key("start_on_receive", Values::Flag, "true", "`en`: whether received packets start it."),
    key("software", SIZE, "20 KiB", "`en`: its list."),
    key("hardware", SIZE, "32 KiB", "`en`: the card's memory."),
    key("ring", Values::Number(1, 65_536), "128", "`fxp`: its packets."),
    key("complete", Values::Words(&["chain", "packet"]), "chain", "`fxp`: when slots become free."),
];
const TAP: &[Key] = &[
    key("link", Values::Text, MUST, "Where it records."),
    key("from", Values::Text, "the first", "The node at whose end."),
    key(
        "point",
        Values::Words(&["discipline", "software", "wire"]),
        "discipline",
        "After the scheduler, the driver's list, or the last bit.",
    ),
    key(
        "rows",
        Values::Number(1, TAP_ROWS_MAX as u64),
        "100000",
        "The most packets that it records.",
    ),
];

const RSVP: &[Key] = &[
    key("class", Values::Text, MUST, "The class below which reservations have their leaves."),
    key(
        "excess",
        Values::Words(&words::<_, { EXCESSES.len() }>(EXCESSES)),
        "best-effort",
        "What becomes of packets beyond what is reserved.",
    ),
    key("delay", TIME, "what a reservation alone gets", "The term D of each outlet's delay bound."),
    key("refresh", TIME, "30 s", "The refresh period."),
    key("reduction", Values::Flag, "false", "Whether nodes use summary refreshes."),
    key("loss", SHARE, "0 %", "The part of the messages that is lost on each link."),
    key("loss_from", TIME, "0 s", "When they begin to be lost."),
    key("loss_until", TIME, "the end", "When they are lost no more."),
];
const RESERVATION: &[Key] = &[
    key("name", Values::Text, "the flow's", "The name in the report."),
    key("flow", NAMES, MUST, "The sources whose packets it is for."),
    key(
        "style",
        Values::Words(&words::<_, { STYLES.len() }>(STYLES)),
        "FF",
        "Whether several flows share it.",
    ),
    key("start", TIME, "0 s", "When its senders announce it."),
    key("stop", TIME, "the end", "When it is given up."),
    key("service", Values::Words(&["controlled-load", "guaranteed"]), "controlled-load", "Which."),
    key("delay", TIME, "", "`guaranteed`: how long packets may queue from end to end."),
    key("service_rate", RATE, "", "`guaranteed`: the rate R, in place of `delay`."),
    key("slack", TIME, "0 s", "`guaranteed`: the slack, with `service_rate`."),
    key(
        "retune",
        Values::List(&Values::Table(RETUNES), 0, MANY),
        "none",
        "Later changes of what senders send.",
    ),
    key("rate", RATE, MUST, TOKEN_RATE),
];
const RETUNE: &[Key] =
    &[key("at", TIME, MUST, "When, after the one before."), key("rate", RATE, "", TOKEN_RATE)];
/// A sender's token bucket.
const TSPEC: &[Key] = &[
    key("burst", SIZE, "two largest packets", "The bucket."),
    key("peak", RATE, "unknown", "The peak rate."),
    key("packet_min", SIZE, "64 B", "Smaller packets count as this."),
    key("packet_max", SIZE, "1500 B", "The largest packet."),
];

const VARYING: Values = Values::Either(&[RATE, Values::Table(CAPACITIES)]);
const BUFFER: Values =
    Values::Quantity(&[Dimension::Bytes, Dimension::Packets, Dimension::Duration]);
const CONTROLLED: [&str; weir_autorate::controller::CONTROLLERS.len()] = {
    let mut words = [""; weir_autorate::controller::CONTROLLERS.len()];
    let mut at = 0;
    while at < words.len() {
        words[at] = weir_autorate::controller::CONTROLLERS[at].name;
        at += 1;
    }
    words
};
const TOKEN_RATE: &str = "The token rate of each flow, in bytes of its IP packets.";
pub(crate) const MTU: Values = Values::Quantity(&[Dimension::Bytes, Dimension::Number]);
const PORT: Values = Values::Number(0, 65_535);
/// How many of something.
pub(crate) const COUNT: Values = Values::Number(1, u32::MAX as u64);
const QUICK: Values = Values::Number(0, QUICK_ACKS_MAX as u64);
const PERIODS: Values = Values::Words(&["exponential", "constant", "pareto"]);
const PROFILES: [&str; Profile::ALL.len()] = {
    let mut words = [""; Profile::ALL.len()];
    let mut at = 0;
    while at < words.len() {
        words[at] = Profile::ALL[at].keyword();
        at += 1;
    }
    words
};
