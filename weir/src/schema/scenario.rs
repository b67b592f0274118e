//! The schema of scenarios: a table of keys for each kind of source and each part of a network.

use super::{closed, quantity};
use serde_json::{Map, Value, json};
use weir_core::units::Dimension;
use weir_sim::scenario::QUICK_ACKS_MAX;

/// The keys of one table of a scenario.
pub struct Section {
    /// The heading on the page.
    pub title: &'static str,
    /// The text of the page above the table.
    pub text: &'static str,
    /// The keys with their schemas.
    pub keys: Map<String, Value>,
    /// The keys that must be written.
    pub required: &'static [&'static str],
}

/// The values of a key.
#[derive(Clone, Copy)]
enum What {
    Text,
    Flag,
    Quantity(&'static [Dimension]),
    Number(u64, u64),
    /// A number with a fraction.
    Fraction,
    /// The operand of a rule: a word or a number.
    Field,
    Words(&'static [&'static str]),
    /// A file, or the policy itself.
    Policy,
    Ends,
    /// A text, or a list of them.
    Names,
    Sizes,
    /// A list of tables of these keys.
    Tables(&'static [&'static [Row]]),
    /// A table of these keys.
    Table(&'static [Row]),
}

/// A key, its values, its default (empty: none) and its meaning.
type Row = (&'static str, What, &'static str, &'static str);

/// A kind of source: its keyword, sentence, keys beside those of every source, required keys.
type Kind = (&'static str, &'static str, &'static [&'static [Row]], &'static [&'static str]);

/// Builds the schema of a scenario.
pub fn schema() -> Value {
    let mut top = keys(&[TOP]);
    let kinds: Vec<Value> = KINDS.iter().map(source).collect();
    let one = |rows: &[&[Row]], required: &[&str]| {
        let mut table = closed(keys(rows));
        table["required"] = json!(required);
        json!({ "type": "array", "items": table })
    };
    top.insert("source".into(), json!({ "type": "array", "items": { "oneOf": kinds } }));
    top.insert("change".into(), one(&[CHANGE], &["at", "policy"]));
    top.insert("node".into(), one(&[NODE], &["name"]));
    top.insert("link".into(), one(&[LINK, WAY], &["name", "ends"]));
    top.insert("tap".into(), one(&[TAP], &["link"]));
    let mut rsvp = closed(keys(&[RSVP]));
    rsvp["required"] = json!(["class"]);
    top.insert("rsvp".into(), rsvp);
    top.insert("reservation".into(), one(&[RESERVATION, TSPEC], RESERVATION_NEEDS));
    let mut schema = closed(top);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Weir scenario");
    schema["required"] = json!(["duration"]);
    schema
}

/// Returns the tables of the page.
pub fn sections() -> Vec<Section> {
    let one = |title, text, rows: &[&[Row]], required| Section {
        title,
        text,
        keys: keys(rows),
        required,
    };
    let mut all = vec![
        one("Top level", "", &[TOP], &["policy", "duration"]),
        one("Every `[[source]]`", "", &[EVERY_SOURCE], &["name", "kind"]),
    ];
    all.extend(KINDS.iter().map(|(title, text, rows, required)| one(title, text, rows, required)));
    all.extend([
        one("`[[change]]`", "", &[CHANGE], &["at", "policy"]),
        one("Networks: `[[node]]`", NETWORK, &[NODE], &["name"]),
        one("Networks: `[[link]]`", BACK, &[LINK, WAY], &["name", "ends"]),
        one("Networks: `[[tap]]`", "", &[TAP], &["link"]),
        one("Networks: `[rsvp]`", RSVP_TEXT, &[RSVP], &["class"]),
        one("Networks: `[[reservation]]`", "", &[RESERVATION, TSPEC], RESERVATION_NEEDS),
    ]);
    all
}

/// Builds the schema of a source of a kind.
fn source((keyword, text, rows, required): &Kind) -> Value {
    let mut keys = keys(&[EVERY_SOURCE]);
    keys.extend(self::keys(rows));
    keys.insert("kind".into(), json!({ "const": keyword }));
    let mut source = closed(keys);
    source["description"] = json!(text);
    source["required"] = json!([&["name", "kind"], *required].concat());
    source
}

fn keys(tables: &[&[Row]]) -> Map<String, Value> {
    let rows = tables.iter().flat_map(|rows| rows.iter());
    rows.map(|row| (row.0.to_owned(), key(row))).collect()
}

fn key(&(_, what, default, meaning): &Row) -> Value {
    let mut schema = match what {
        What::Text => json!({ "type": "string", "minLength": 1 }),
        What::Flag => json!({ "type": "boolean" }),
        What::Quantity(dimensions) => quantity(dimensions, meaning),
        What::Number(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        What::Fraction => json!({ "type": ["number", "string"], "examples": [1.5] }),
        What::Field => json!({ "type": ["string", "integer"], "minimum": 0 }),
        What::Words(words) => json!({ "enum": words }),
        What::Policy => json!({ "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "object" },
        ] }),
        What::Ends => json!({
            "type": "array", "items": { "type": "string" }, "minItems": 2, "maxItems": 2,
        }),
        What::Names => json!({ "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "array", "items": { "type": "string", "minLength": 1 }, "minItems": 1 },
        ] }),
        What::Tables(rows) => json!({ "type": "array", "items": closed(keys(rows)) }),
        What::Sizes => {
            let mut row = closed(keys(&[SIZE]));
            row["required"] = json!(["size", "share"]);
            json!({ "type": "array", "items": row, "minItems": 1 })
        }
        What::Table(rows) => closed(keys(&[rows])),
    };
    schema["description"] = json!(meaning);
    if !default.is_empty() {
        schema["default"] = default.parse::<u64>().map_or_else(|_| json!(default), Value::from);
    }
    schema
}

const TIME: What = What::Quantity(&[Dimension::Duration]);
const RATE: What = What::Quantity(&[Dimension::Rate]);
const SIZE_OF: What = What::Quantity(&[Dimension::Bytes]);
const SHARE: What = What::Quantity(&[Dimension::Share]);
const PACKETS: What = What::Quantity(&[Dimension::Packets]);
const MTU: What = What::Quantity(&[Dimension::Bytes, Dimension::Number]);
const LIMIT: What = What::Quantity(&[Dimension::Packets, Dimension::Bytes]);
const PORT: What = What::Number(0, 65_535);
const MANY: What = What::Number(1, u32::MAX as u64);
const QUICK: What = What::Number(0, QUICK_ACKS_MAX as u64);
const PERIODS: What = What::Words(&["exponential", "constant", "pareto"]);

const PROFILES: What = What::Words(&["linux", "rfc", "bsd-1998", "tahoe-1988"]);
const CONTROLLERS: What = What::Words(&["cubic", "reno", "bbr", "dctcp", "prague", "none"]);
const ECN: What = What::Words(&["off", "classic", "accurate"]);

const TOP: &[Row] = &[
    ("policy", What::Policy, "", "The policy's file, relative to this one, or a table `[policy]`."),
    ("duration", TIME, "", "How long to simulate."),
    ("warmup", TIME, "0 s", "How long to simulate before anything counts."),
    ("delay", TIME, "0 s", "From the last bit on the line to the receiver."),
    ("seed", What::Number(0, i64::MAX as u64), "1", "Another seed gives another run."),
    ("name", What::Text, "the file's", "The name in the report."),
];

const EVERY_SOURCE: &[Row] = &[
    ("name", What::Text, "", "The name in the report; its random numbers follow from it."),
    ("kind", What::Text, "", "One of the kinds below."),
    ("proto", What::Field, "`udp`, or `tcp` for what uses it", "The protocol of its packets."),
    ("src", What::Text, "one for documentation", "The sender's address."),
    ("dst", What::Text, "one for documentation", "The receiver's address."),
    ("src_mac", What::Text, "none", "The station that sends its frames."),
    ("dst_mac", What::Text, "none", "The station that its frames are for."),
    ("sport", PORT, "one of its own", "The sender's port."),
    ("dport", PORT, "5001", "The receiver's port."),
    ("dscp", What::Field, "0", "The code point."),
    ("ecn", What::Field, "0", "The ECN field."),
    ("vlan", What::Field, "no tag", "The VLAN."),
    ("mark", What::Field, "0", "The mark that a firewall gave its packets."),
    ("interface", What::Text, "none", "The interface by which its packets come."),
    ("class", What::Text, "not checked", "The class to which its packets must go."),
    ("start", TIME, "0 s", "When it begins to send."),
    ("stop", TIME, "the end", "When it stops."),
    ("from", What::Text, "", "In a network, where it must be written: the sending node."),
    ("to", What::Text, "", "In a network, where it must be written: the receiving node."),
];

const KINDS: &[Kind] = &[
    ("cbr", "Packets at equal intervals.", &[OPEN, JITTER], &[]),
    ("poisson", "Packets at random instants.", &[OPEN], &[]),
    ("on-off", "Packets at equal intervals, in periods.", &[OPEN, ON_OFF, PERIOD], &["on", "off"]),
    ("tcp", "Transfers over TCP.", &[TCP, BULK, PERIOD], &[]),
    ("quic", "Transfers over QUIC.", &[QUIC, BULK, PERIOD], &[]),
    ("ttcp", "The test program: buffers of one size.", &[TCP, BUFFERS, TRANSPORT], &[]),
    ("nttcp", "The test program, over UDP.", &[BUFFERS, ACCESS], &[]),
    ("voip", "One direction of a call.", &[VOIP], &[]),
    ("video", "Pictures at equal intervals, or fetched.", &[VIDEO, TCP, FETCHED], &[]),
    ("web", "A reader of pages over TCP or QUIC.", &[WEB, PERIOD, TCP, CARRIER], &[]),
    ("ftp", "Files over TCP or QUIC, one after another.", &[FTP, PERIOD, TCP, CARRIER], &[]),
    ("capture", "Recorded packets at their times.", &[CAPTURE], &["file"]),
    ("probe", "Small packets whose delays show what others meet.", &[PROBE], &[]),
];

const OPEN: &[Row] = &[
    ("size", SIZE_OF, "", "The length of each frame; or write `payload` or `sizes`."),
    ("payload", SIZE_OF, "", "The bytes after the UDP header."),
    ("sizes", What::Sizes, "", "Several lengths, each with its share."),
    ("rate", RATE, "", "The rate of the frames (the mean, while it is on); or `interval`."),
    ("interval", TIME, "", "The time from one packet to the next."),
];
const SIZE: &[Row] = &[
    ("size", SIZE_OF, "", "The length of a frame."),
    ("share", SHARE, "", "The part of the packets that have it."),
];
const JITTER: &[Row] = &[("jitter", SHARE, "0 %", "By how much each interval varies.")];
const ON_OFF: &[Row] = &[
    ("on", TIME, "", "The mean length of a period in which it sends."),
    ("off", TIME, "", "The mean length of a pause."),
];
const PERIOD: &[Row] = &[
    ("distribution", PERIODS, "exponential", "Of the periods or pauses."),
    ("shape", What::Fraction, "1.5", "Of Pareto's distribution, above 1."),
];
const TCP: &[Row] = &[
    ("profile", PROFILES, "Linux with plainer receivers", "The hosts whose values all others are."),
    ("congestion", CONTROLLERS, "cubic", "The congestion control."),
    ("ecn", ECN, "off; `accurate` with `dctcp` and `prague`", "Whether marks replace losses."),
    ("hystart", What::Flag, "true", "Whether delays end slow start; only with `cubic`."),
    ("initial_window", LIMIT, "RFC 6928: 10 packets", "What a new connection may send at once."),
    ("slow_start", What::Words(&["bytes", "acks"]), "bytes", "What the window grows by."),
    ("pacing", What::Flag, "false", "Whether segments are spread over the round trip."),
    ("nagle", What::Flag, "true", "Whether a small segment waits while another is under way."),
    ("idle_restart", What::Flag, "true", "Whether the window shrinks after a pause."),
    ("sack", What::Flag, "true", "Whether losses are repaired by selective acknowledgements."),
    ("rto_min", TIME, "200 ms, or without `sack` 1 s", "The least retransmission timeout."),
    ("window", SIZE_OF, "65535 B", "The receiver's buffer."),
    ("window_max", SIZE_OF, "`window`", "What the buffer grows to as the application reads."),
    ("mtu", MTU, "1500 B", "The largest IP packet."),
    ("mss", What::Words(&["mtu", "bsd"]), "mtu", "How segments are cut."),
    ("ack_delay", TIME, "10 ms", "How long an acknowledgement may be held back."),
    (
        "quick_acks",
        QUICK,
        "0",
        "Segments of a new connection acknowledged one by one; Linux: 15 to 24.",
    ),
    (
        "timestamps",
        What::Flag,
        "false",
        "Whether each segment carries a timestamp of 12 bytes; Linux: true.",
    ),
    ("return_delay", TIME, "0 s", "How long acknowledgements travel; not in a network."),
];
const QUIC: &[Row] = &[
    ("congestion", What::Words(&["cubic", "reno"]), "cubic", "The congestion control."),
    ("ecn", What::Words(&["off", "classic"]), "off", "Whether marks replace losses."),
    ("initial_window", LIMIT, "RFC 9002: 10 packets", "What a new connection may send at once."),
    ("window", SIZE_OF, "1250 KB", "The receiver's buffer, of the stream and of the connection."),
    ("mtu", MTU, "1500 B", "The largest IP packet; at least 1228 B."),
    (
        "ack_delay",
        TIME,
        "25 ms",
        "The longest time for which the receiver may hold an acknowledgement back.",
    ),
    ("return_delay", TIME, "0 s", "How long the receiver's packets travel; not in a network."),
];
const CARRIER: &[Row] = &[(
    "transport",
    What::Words(&["tcp", "quic"]),
    "tcp",
    "With `quic` the keys of `quic` hold in place of those of TCP.",
)];
const BULK: &[Row] = &[
    ("bytes", SIZE_OF, "without end", "How much to send."),
    ("think", TIME, "one transfer", "The mean pause before the next transfer."),
];
const BUFFERS: &[Row] = &[
    ("buffers", MANY, "2048 (`nttcp`: without end)", "How many buffers it sends."),
    ("length", SIZE_OF, "8 KiB (`nttcp`: 1450 B)", "The bytes of each."),
];
const TRANSPORT: &[Row] = &[
    ("ecn", What::Field, "0 or off", "With `tcp` as there; with `udp` the ECN field."),
    (
        "transport",
        What::Words(&["tcp", "udp"]),
        "tcp",
        "With `udp` it has no keys of TCP but `mtu`.",
    ),
    ("rate", RATE, "100 Mbit/s", "Of the sender's interface; only with `udp`."),
];
const ACCESS: &[Row] = &[
    ("mtu", MTU, "1500 B", "The largest IP packet."),
    ("rate", RATE, "100 Mbit/s", "Of the sender's interface."),
];
const VOIP: &[Row] = &[
    ("codec", What::Words(&["g711", "g729", "g723", "g726"]), "g711", "Sets payload and interval."),
    ("payload", SIZE_OF, "the codec's", "Bytes of sound in a packet."),
    ("interval", TIME, "the codec's", "From one packet to the next."),
    ("talk", TIME, "1004 ms", "The mean talk spurt."),
    ("pause", TIME, "1587 ms", "The mean pause; `0 s` for sound all the time."),
];
const VIDEO: &[Row] = &[
    ("bitrate", RATE, "1 Mbit/s", "The mean, of the pictures without headers."),
    ("pictures", What::Number(1, 1000), "25", "Pictures a second."),
    ("group", What::Number(1, 1000), "12", "Pictures from one first picture to the next."),
    ("i_ratio", What::Fraction, "5", "How many times as long the first picture is, 1 to 1000."),
    (
        "distribution",
        What::Words(&["lognormal", "gamma", "constant"]),
        "lognormal",
        "Of the sizes around their mean.",
    ),
    ("variation", What::Fraction, "0.3", "Their standard deviation to the mean, 0 to 5."),
    ("packet", SIZE_OF, "1400 B", "The most bytes of a picture in a packet."),
    ("rate", RATE, "100 Mbit/s", "Of the sender's interface."),
];
const FETCHED: &[Row] = &[
    (
        "transport",
        What::Words(&["udp", "tcp", "quic"]),
        "udp",
        "With `tcp` or `quic`, whose keys hold then, a player fetches it; without `packet`, `rate`.",
    ),
    ("segment", TIME, "4 s", "With `tcp` or `quic`: how much of the film one request fetches."),
    ("buffer", TIME, "30 s", "With `tcp` or `quic`: how much the player holds at most."),
];
const WEB: &[Row] = &[
    ("pages", MANY, "10", "Pages of a session."),
    ("objects", MANY, "1", "Objects of a page; the mean, with `objects_shape`."),
    ("objects_shape", What::Fraction, "", "Of the Pareto distribution of objects."),
    ("object", SIZE_OF, "14600 B", "The mean size of an object."),
    ("object_shape", What::Fraction, "1.2", "Of the Pareto distribution of sizes."),
    ("object_pause", TIME, "10 ms", "The mean pause after an object."),
    ("page_pause", TIME, "1 s", "The mean pause after a page."),
    ("session_pause", TIME, "1 s", "The mean pause after a session."),
];
const FTP: &[Row] = &[
    ("files", MANY, "without end", "How many files."),
    ("file", SIZE_OF, "200 KB", "The size of a file; the mean, with `file_shape`."),
    ("file_shape", What::Fraction, "", "Of the Pareto distribution of sizes."),
    ("pause", TIME, "1 s", "The mean pause after a file."),
];
const CAPTURE: &[Row] = &[
    ("file", What::Text, "", "A capture, or lines of `time,length,flow`; relative to this file."),
    ("flows", What::Flag, "false", "Whether each flow is a source of its own."),
];
const PROBE: &[Row] = &[
    ("size", SIZE_OF, "64 B", "The length of a frame."),
    ("interval", TIME, "10 ms", "From one packet to the next."),
];

const CHANGE: &[Row] = &[
    ("at", TIME, "", "When, after the change before."),
    ("policy", What::Policy, "", "The policy from then on: a file or a table `[change.policy]`."),
    ("link", What::Text, "", "In a network, where it must be written: the link that changes."),
    ("from", What::Text, "the first", "In a network: the node at whose end it changes."),
];
const NODE: &[Row] = &[
    ("name", What::Text, "", "The name, unique among nodes."),
    ("router", What::Flag, "false", "Whether it forwards."),
    ("address", What::Text, "10.0.0.1 and so on", "Of packets that have none."),
    ("cpu", What::Table(CPU), "no cost", "What forwarding a packet costs."),
];
const CPU: &[Row] = &[
    ("receive", TIME, "0 s", "For each arriving packet, before all other work."),
    ("base", TIME, "0 s", "For each packet forwarded."),
    ("per_byte", TIME, "0 s", "For each byte of it."),
    ("per_cell", TIME, "0 s", "For each cell of it."),
    ("per_class", TIME, "0 s", "For each class of the outlet."),
    ("queue", PACKETS, "50 packets", "The input queue."),
];
const LINK: &[Row] = &[
    ("name", What::Text, "", "The name; `interface` in rules names links."),
    ("ends", What::Ends, "", "The two nodes; forward is from the first to the second."),
    ("mtu", MTU, "1500 B", "The largest IP packet; longer ones go in fragments."),
    ("back", What::Table(WAY), "as forward, with one queue", "What differs backward."),
];
const WAY: &[Row] = &[
    ("policy", What::Policy, "one queue", "The policy: a file or a table."),
    ("rate", RATE, "", "Without a policy: the rate, which must be written then."),
    (
        "framing",
        What::Words(&[
            "frame",
            "none",
            "ethernet",
            "ip",
            "atm",
            "aal5",
            "pppoe",
            "docsis",
            "ptm",
            "pppoe-ptm",
            "pppoe-atm",
        ]),
        "frame",
        "Without a policy: as `overhead` in one.",
    ),
    ("queue", LIMIT, "50 packets", "Without a policy: the limit of the queue."),
    (
        "pvc_rate_is",
        What::Words(&["cells", "aal5", "ip"]),
        "cells",
        "With the framing `atm`: what the rate counts.",
    ),
    ("delay", TIME, "0 s", "From the last bit on the wire to its arrival."),
    ("jitter", TIME, "0 s", "The most that `delay` grows by chance; packets overtake each other."),
    ("loss", SHARE, "0 %", "The part of the packets that is lost behind the wire, by chance."),
    ("driver", What::Table(DRIVER), "line", "What lies between the scheduler and the wire."),
    ("tick", What::Text, "waits end exactly", "A frequency such as `100 Hz`, at which waits end."),
];
const DRIVER: &[Row] = &[
    ("model", What::Words(&["line", "en", "fxp"]), "", "Which driver; must be written."),
    ("drain", What::Flag, "true", "`en`: whether a start takes packets until the list is full."),
    ("start_on_receive", What::Flag, "true", "`en`: whether received packets start it."),
    ("software", SIZE_OF, "20 KiB", "`en`: its list."),
    ("hardware", SIZE_OF, "32 KiB", "`en`: the card's memory."),
    ("ring", What::Number(1, 65_536), "128", "`fxp`: its packets."),
    ("complete", What::Words(&["chain", "packet"]), "chain", "`fxp`: when slots become free."),
];
const TAP: &[Row] = &[
    ("link", What::Text, "", "Where it records."),
    ("from", What::Text, "the first", "The node at whose end."),
    (
        "point",
        What::Words(&["discipline", "software", "wire"]),
        "discipline",
        "After the scheduler, the driver's list, or the last bit.",
    ),
    ("rows", What::Number(1, 4_194_304), "100000", "The most packets that it records."),
];

const RSVP: &[Row] = &[
    ("class", What::Text, "", "The class below which reservations have their leaves."),
    (
        "excess",
        What::Words(&["best-effort", "police"]),
        "best-effort",
        "What becomes of packets beyond what is reserved.",
    ),
    ("delay", TIME, "what a reservation alone gets", "The term D of each outlet's delay bound."),
    ("refresh", TIME, "30 s", "The refresh period."),
    ("reduction", What::Flag, "false", "Whether nodes use summary refreshes."),
    ("loss", SHARE, "0 %", "The part of the messages that is lost on each link."),
    ("loss_from", TIME, "0 s", "When they begin to be lost."),
    ("loss_until", TIME, "the end", "When they are lost no more."),
];
const RESERVATION: &[Row] = &[
    ("name", What::Text, "the flow's", "The name in the report."),
    ("flow", What::Names, "", "The sources whose packets it is for."),
    ("style", What::Words(&["FF", "SE", "WF"]), "FF", "Whether several flows share it."),
    ("start", TIME, "0 s", "When its senders announce it."),
    ("stop", TIME, "the end", "When it is given up."),
    ("service", What::Words(&["controlled-load", "guaranteed"]), "controlled-load", "Which."),
    ("delay", TIME, "", "`guaranteed`: how long packets may queue from end to end."),
    ("service_rate", RATE, "", "`guaranteed`: the rate R, in place of `delay`."),
    ("slack", TIME, "0 s", "`guaranteed`: the slack, with `service_rate`."),
    ("retune", What::Tables(&[RETUNE, TSPEC]), "none", "Later changes of what senders send."),
];
const RESERVATION_NEEDS: &[&str] = &["flow", "rate"];
const RETUNE: &[Row] = &[("at", TIME, "", "When, after the one before; must be written.")];
const TSPEC: &[Row] = &[
    ("rate", RATE, "", "The token rate of each flow, in bytes of its IP packets."),
    ("burst", SIZE_OF, "two largest packets", "The bucket."),
    ("peak", RATE, "unknown", "The peak rate."),
    ("packet_min", SIZE_OF, "64 B", "Smaller packets count as this."),
    ("packet_max", SIZE_OF, "1500 B", "The largest packet."),
];

const RSVP_TEXT: &str = "With this table and `[[reservation]]` every node speaks RSVP.";
const NETWORK: &str = "With these tables a scenario is a network, and `policy` and `delay` belong \
to its links.";
const BACK: &str = "`back` is a table `[link.back]` with any of the keys `delay`, \
`driver`, `framing`, `policy`, `pvc_rate_is`, `queue`, `rate` and `tick`.";
