//! The text of a scenario from all that was found: the only place that knows its keys.
//!
//! A source is the end whose packets pass the link; what comes back travels for the whole round
//! trip. Times have microseconds. A comment before each source says what cannot be a key: how sure
//! a value is, what was seen of losses. Invariant: what is written, `weir sim` reads.

use crate::datagrams::Steady;
use crate::replayed::Part;
use crate::tcp::{Acks, Control, Exchange, Family, Limit, Marks, Method, Tcp};
use crate::text::{line, quoted, quoted_time};
use crate::{FlowOf, Inferred, Mark, Model, population, users};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_core::units::Duration;

impl Inferred {
    /// Returns the scenario: text that a person can read, correct and run again. The files of
    /// [`Inferred::beside`] belong into its folder.
    pub fn scenario(&self) -> String {
        let mut text = String::from(
            "# Found by `weir infer`; correct it where you know better; `weir sim` runs it.\n",
        );
        self.notes.iter().for_each(|note| line(&mut text, "# ", note));
        line(&mut text, "duration = ", &quoted_time(self.duration.plus(TAIL)));
        match &self.options.policy {
            Some(policy) => line(&mut text, "policy = ", &quoted(policy)),
            None => {
                let rate = self.rate;
                line(&mut text, "\n[policy.link]\nrate = ", &format!("\"{rate} bit/s\""));
                text += "scheduler = \"fifo\"\n\n[policy.class.all]\ndefault = true\n";
            }
        }
        let groups = population::groups(self);
        groups.iter().for_each(|group| group.write(&mut text));
        let is_grouped = |flow: &FlowOf| groups.iter().any(|group| group.has(flow));
        for chain in self.chains() {
            let Some(flow) = chain.first().filter(|flow| !is_grouped(flow)) else { continue };
            match &flow.model {
                Model::Tcp { tcp, source_is_client } => {
                    self.connection(&mut text, &chain, tcp, *source_is_client);
                }
                Model::Quic { quic, source_is_client } => {
                    head(&mut text, flow, "quic");
                    let [near, far] = quic.parts.map(Option::unwrap_or_default);
                    line(&mut text, "return_delay = ", &quoted_time(near.plus(far)));
                    let all: Vec<_> = quic.exchanges.iter().map(|one| (*one, false)).collect();
                    conversation(&mut text, &all, *source_is_client);
                }
                Model::Steady { steady, .. } => constant(&mut text, flow, steady),
                Model::Replayed { .. } => {}
            }
        }
        self.parts().iter().for_each(|part| replayed(&mut text, part));
        text
    }

    /// Returns the beginning of the names of files beside the scenario.
    pub(crate) fn name(&self) -> &str {
        if self.options.name.is_empty() { "inferred" } else { &self.options.name }
    }

    /// Returns the flows of each source: one, or connections that follow one another.
    pub(crate) fn chains(&self) -> Vec<Vec<&FlowOf>> {
        let all = match population::is_wanted(self) {
            true => (0..self.flows.len()).map(|place| vec![place]).collect(),
            false => users::chains(&self.flows),
        };
        let flows = |chain: Vec<usize>| chain.into_iter().map(|place| &self.flows[place]).collect();
        all.into_iter().map(flows).collect()
    }

    /// Writes a connection, and those that follow it.
    fn connection(&self, text: &mut String, chain: &[&FlowOf], tcp: &Tcp, source_is_client: bool) {
        let flow = chain[0];
        if tcp.exchanges.is_empty() {
            line(text, "\n# left out, since it exchanged nothing: ", &flow.name);
            return;
        }
        text.push('\n');
        remarks(text, flow, tcp);
        if let Some(last) = chain.last().filter(|_| chain.len() > 1) {
            let words = format!("{} connections one after another, up to", chain.len());
            line(text, "# ", &format!("{words} {}", last.name));
        }
        // What comes back travels all of the way in the scenario, so a client on that side opens
        // the connection when it did, and not when its SYN passed.
        let near = tcp.round_trip.parts[0].filter(|_| !source_is_client).unwrap_or_default();
        let start = flow.start.as_nanos().saturating_sub(near.as_nanos());
        source_from(text, flow, "tcp", Duration::from_nanos(start));
        let round_trip = tcp.round_trip.total().unwrap_or(ROUND_TRIP_UNKNOWN);
        line(text, "return_delay = ", &quoted_time(round_trip));
        if tcp.path_loss > 0.0 {
            let percent = tcp.path_loss.min(LOSS_MAX) * 100.0;
            line(text, "loss = ", &format!("\"{percent:.4} %\""));
        }
        transport(text, flow, tcp);
        let buffers = chain.iter().filter_map(|flow| match &flow.model {
            Model::Tcp { tcp, .. } => Some(tcp.buffer),
            _ => None,
        });
        if let Some(buffer) = buffers.max().filter(|buffer| *buffer > Duration::ZERO) {
            line(text, "buffer = ", &quoted_time(buffer));
        }
        conversation(text, &exchanges(chain), source_is_client);
    }
}

/// Returns the exchanges of connections that follow one another, and whether each has a connection
/// of its own.
pub(crate) fn exchanges(chain: &[&FlowOf]) -> Vec<(Exchange, bool)> {
    let mut found = Vec::new();
    for flow in chain {
        let Model::Tcp { tcp, .. } = &flow.model else { continue };
        let pause = flow.follows.as_ref().filter(|_| !found.is_empty()).map(|own| own.pause);
        let first = found.len();
        found.extend(tcp.exchanges.iter().map(|exchange| (*exchange, false)));
        if let Some((exchange, connects)) = found.get_mut(first)
            && let Some(pause) = pause
        {
            (exchange.after, *connects) = (exchange.after.plus(pause), true);
        }
    }
    found.truncate(EXCHANGES_MAX);
    found
}

/// Writes what no key says.
fn remarks(text: &mut String, flow: &FlowOf, tcp: &Tcp) {
    let Control { family, confidence, reactions } = tcp.control;
    let by = match tcp.round_trip.by {
        Method::Measured => "measured",
        Method::Estimated => "estimated by the least of one capture",
        Method::OneSided => "of one direction",
        Method::Neighbours => "as other connections of the host",
        Method::Unknown => "unknown: a guess",
    };
    let limit = match tcp.limit {
        Limit::Application => "its application",
        Limit::Receiver => "the receiver's window",
        Limit::Network => "the path",
    };
    let mut words =
        format!("round trip {by} ({} answers); held back by {limit}", tcp.round_trip.samples);
    if family != Family::Unknown {
        let percent = confidence * 100.0;
        let word = family.word();
        write!(words, "; {word} with {percent:.0} % by {reactions} reactions").expect("grows");
    } else {
        write!(words, "; congestion control unknown, {} written", family.keyword()).expect("grows");
    }
    line(text, "# ", &words);
    let lost = tcp.repeats;
    if lost.before + lost.between + lost.behind + lost.needless > 0 {
        let between = match lost.between {
            0 => String::new(),
            count => format!(", {count} in the link"),
        };
        let words = format!(
            "sent again: {} lost before the point{between}, {} behind it, {} needlessly",
            lost.before, lost.behind, lost.needless
        );
        line(text, "# ", &words);
    }
    for mark in &flow.marks {
        let words = match mark {
            Mark::Midstream => "open before the first frame: windows are not known",
            Mark::OneSided => "one direction was captured: the other follows from acknowledgements",
            Mark::Truncated => "headers of some segments are cut",
            Mark::Vlan => continue,
            Mark::Orientation => "no end is known to be inside: who sent more is the source",
        };
        line(text, "# ", words);
    }
}

/// Writes the keys of hosts and path.
fn transport(text: &mut String, flow: &FlowOf, tcp: &Tcp) {
    line(text, "congestion = ", &quoted(tcp.control.family.keyword()));
    let ecn = match tcp.ecn {
        Marks::Off => None,
        Marks::Classic => Some("classic"),
        Marks::Accurate => Some("accurate"),
    };
    if let Some(ecn) = ecn {
        line(text, "ecn = ", &quoted(ecn));
    }
    if let Some(bytes) = tcp.initial_window {
        let segment = u64::from(tcp.segment.max(1));
        let segments = bytes.div_ceil(segment).clamp(1, INITIAL_MAX);
        line(text, "initial_window = ", &format!("\"{segments} packets\""));
    }
    let (first, most) = tcp.window.unwrap_or(WINDOW_UNKNOWN);
    let first = first.clamp(WINDOW_MIN, WINDOW_MAX);
    line(text, "window = ", &format!("\"{first} B\""));
    if most > first {
        line(text, "window_max = ", &format!("\"{} B\"", most.min(WINDOW_MAX)));
    }
    match tcp.acks {
        Acks::Each => line(text, "ack_delay = ", "\"0 s\""),
        Acks::Delayed(time) => line(text, "ack_delay = ", &quoted_time(time.min(ACK_DELAY_MAX))),
        Acks::Joined | Acks::Unknown => line(text, "ack_delay = ", "\"40 ms\""),
    }
    if tcp.sack == Some(false) {
        line(text, "sack = ", "false");
    }
    line(text, "timestamps = ", if tcp.timestamps { "true" } else { "false" });
    let header = if flow.source.is_ipv6() { 60 } else { 40 };
    let stamps = if tcp.timestamps { 12 } else { 0 };
    // Of a segment that stands for several, the length says nothing.
    let segment = tcp.mss.map_or(tcp.segment + stamps, u32::from);
    let mtu = (segment + header).clamp(MTU_MIN, MTU_MAX);
    if mtu != MTU && (tcp.mss.is_some() || segment + header < MTU) && tcp.segment > SEGMENT_SMALL {
        line(text, "mtu = ", &format!("\"{mtu} B\""));
    }
    // An application that writes object by object does not wait for acknowledgements.
    line(text, "nagle = ", "false");
}

fn conversation(text: &mut String, exchanges: &[(Exchange, bool)], source_is_client: bool) {
    line(text, "client = ", if source_is_client { "\"src\"" } else { "\"dst\"" });
    text.push_str("conversation = [\n");
    for (exchange, connects) in exchanges.iter().take(EXCHANGES_MAX) {
        text.push_str("  { ");
        let mut comma = "";
        let mut put = |key: &str, value: String| {
            write!(text, "{comma}{key} = {value}").expect("text grows");
            comma = ", ";
        };
        if *connects {
            put("connect", "true".to_owned());
        }
        if exchange.after > Duration::ZERO {
            put("after", quoted_time(exchange.after));
        }
        if exchange.every > Duration::ZERO {
            put("every", quoted_time(exchange.every));
        }
        if exchange.up > 0 {
            put("up", exchange.up.to_string());
        }
        if exchange.wait > Duration::ZERO {
            put("wait", quoted_time(exchange.wait));
        }
        if exchange.down > 0 {
            put("down", exchange.down.to_string());
        }
        text.push_str(" },\n");
    }
    text.push_str("]\n");
}

fn constant(text: &mut String, flow: &FlowOf, steady: &Steady) {
    head(text, flow, "cbr");
    line(text, "size = ", &format!("\"{} B\"", steady.length.max(LENGTH_MIN)));
    line(text, "interval = ", &quoted_time(steady.interval));
    // The mean distance of even ones is half of their greatest.
    let jitter = (steady.jitter * 200.0).min(100.0);
    if jitter >= 1.0 {
        line(text, "jitter = ", &format!("\"{jitter:.0} %\""));
    }
    line(text, "stop = ", &quoted_time(flow.end.plus(steady.interval)));
}

fn replayed(text: &mut String, part: &Part<'_>) {
    let starts = part.flows.iter().flat_map(|flow| flow.rows().first().map(|row| (row.at, flow)));
    let Some((_, first)) = starts.min_by_key(|start| start.0) else { return };
    let flows = part.flows.len();
    line(text, "\n# sent again as they were: ", &format!("{flows} flows"));
    let name = part.name.trim_end_matches(".pcapng").rsplit('.').next().unwrap_or("packets");
    line(text, "[[source]]\nname = ", &quoted(name));
    line(text, "kind = ", "\"capture\"");
    line(text, "file = ", &quoted(&part.name));
    line(text, "flows = ", "true");
    line(text, "start = ", &quoted_time(first.first_row()));
}

/// Writes the beginning of a source.
fn head(text: &mut String, flow: &FlowOf, kind: &str) {
    text.push('\n');
    source(text, flow, kind);
}

fn source(text: &mut String, flow: &FlowOf, kind: &str) {
    source_from(text, flow, kind, flow.start);
}

fn source_from(text: &mut String, flow: &FlowOf, kind: &str, start: Duration) {
    line(text, "[[source]]\nname = ", &quoted(&flow.name));
    line(text, "kind = ", &quoted(kind));
    line(text, "src = ", &quoted(&flow.source.ip().to_string()));
    let (source, destination) = (flow.source.ip(), flow.destination.ip());
    match source == destination {
        false => line(text, "dst = ", &quoted(&destination.to_string())),
        // A connection is one of two hosts.
        true => {
            let other = quoted(&neighbour(destination).to_string());
            line(text, "dst = ", &format!("{other} # in the capture both ends have one address"));
        }
    }
    line(text, "sport = ", &flow.source.port().to_string());
    line(text, "dport = ", &flow.destination.port().to_string());
    if flow.dscp != 0 {
        line(text, "dscp = ", &flow.dscp.to_string());
    }
    if flow.vlan != 0 {
        line(text, "vlan = ", &flow.vlan.to_string());
    }
    line(text, "start = ", &quoted_time(start));
}

/// Returns an address that differs in the last bit, or in the one before where that is no host's.
fn neighbour(address: IpAddr) -> IpAddr {
    match differing(address, 1) {
        other if other.is_unspecified() || other == Ipv4Addr::BROADCAST => differing(address, 2),
        other => other,
    }
}

fn differing(address: IpAddr, bit: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() ^ u32::from(bit)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() ^ u128::from(bit)).into(),
    }
}

/// Simulated behind the last frame, so that slower flows end, too.
const TAIL: Duration = Duration::from_secs(5);
/// Written where nothing was timed.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(50);
/// Of a receiver whose handshake was not seen: Linux's.
const WINDOW_UNKNOWN: (u64, u64) = (65_535, 6 << 20);
/// More is no loss by chance.
const LOSS_MAX: f64 = 0.5;
/// The limits of the keys.
const WINDOW_MIN: u64 = 1;
const WINDOW_MAX: u64 = 256 << 20;
const INITIAL_MAX: u64 = 1000;
const MTU: u32 = 1500;
const MTU_MIN: u32 = 576;
const MTU_MAX: u32 = 65_535;
const LENGTH_MIN: u32 = 60;
const EXCHANGES_MAX: usize = 1 << 16;
const ACK_DELAY_MAX: Duration = Duration::from_millis(500);
/// A connection with shorter segments only shows nothing of its path.
const SEGMENT_SMALL: u32 = 500;
