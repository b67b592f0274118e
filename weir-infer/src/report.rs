//! The bytes of a capture by kinds of flows, as a table for people.

use crate::datagrams::OpenLoop;
use crate::tcp::{Family, Method};
use crate::{FlowOf, Inferred, Mark, Model};
use serde::Serialize;
use std::fmt;
use weir_policy::table::Table;

/// Why the packets of a flow are sent again as they were.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// They do not react, and that is right so.
    OpenLoop(OpenLoop),
    /// Another flow is inside.
    Tunnel,
    /// ICMP and others without ports.
    NoPorts,
    /// Another protocol with ports, such as SCTP.
    Protocol,
    /// Later fragments, which have no ports.
    Fragments,
    /// Too few bytes of their headers were captured.
    Truncated,
    /// They are no packets of IP.
    NoIp,
    /// A connection from or to port 0 or an address that no host has.
    Ends,
}

/// The bytes of a capture by kinds of flows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// The kinds of flows.
    pub rows: Vec<Row>,
    /// Bytes of flows whose packets pass in the other direction only.
    pub elsewhere_bytes: u64,
    /// Frames of flows beyond the bound of the table, and their bytes.
    pub left_out: [u64; 2],
}

/// A kind of flows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Row {
    /// Its name.
    pub kind: &'static str,
    /// Whether it is modelled, or why not.
    pub outcome: &'static str,
    /// How many.
    pub flows: u64,
    /// The frames of both directions.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl OpenLoop {
    /// Returns the word for names.
    pub fn word(self) -> &'static str {
        match self {
            OpenLoop::Dns => "dns",
            OpenLoop::Call => "call",
            OpenLoop::Game => "game",
            OpenLoop::Other => "udp",
        }
    }
}

impl Reason {
    /// Returns the word for names.
    pub fn word(self) -> &'static str {
        match self {
            Reason::OpenLoop(of) => of.word(),
            Reason::Tunnel => "tunnel",
            Reason::NoPorts => "no-ports",
            Reason::Protocol => "protocol",
            Reason::Fragments => "fragments",
            Reason::Truncated => "truncated",
            Reason::NoIp => "no-ip",
            Reason::Ends => "ends",
        }
    }

    /// Returns the reason in a clause.
    pub fn sentence(self) -> &'static str {
        match self {
            Reason::OpenLoop(_) => "as it was: it does not react",
            Reason::Tunnel => "as it was: a tunnel hides what it carries",
            Reason::NoPorts => "as it was: it has no ports",
            Reason::Protocol => "as it was: neither TCP nor UDP",
            Reason::Fragments => "as it was: fragments without ports",
            Reason::Truncated => "as it was: headers are cut",
            Reason::NoIp => "as it was: not IP",
            Reason::Ends => "not modelled: no ports or addresses of two hosts",
        }
    }
}

impl Counts {
    pub(crate) fn add(&mut self, flow: &FlowOf) {
        let (kind, outcome) = match &flow.model {
            Model::Tcp { .. } => ("tcp", "modelled: exchanges on a connection"),
            Model::Quic { .. } => ("quic", "modelled by lengths and times"),
            Model::Steady { of, .. } => (of.word(), "modelled: constant"),
            Model::Replayed { reason } => (reason.word(), reason.sentence()),
        };
        let place = self.rows.iter().position(|row| (row.kind, row.outcome) == (kind, outcome));
        let place = place.unwrap_or_else(|| {
            self.rows.push(Row { kind, outcome, ..Row::default() });
            self.rows.len() - 1
        });
        let row = &mut self.rows[place];
        row.flows += 1;
        row.packets += flow.packets.iter().sum::<u64>();
        row.bytes += flow.bytes.iter().sum::<u64>();
    }

    pub(crate) fn elsewhere(&mut self, bytes: u64) {
        self.elsewhere_bytes += bytes;
    }

    pub(crate) fn left_out(&mut self, left_out: [u64; 2]) {
        self.left_out = left_out;
    }

    /// Returns all bytes, and of them those that are modelled.
    pub fn bytes(&self) -> [u64; 2] {
        let is_modelled = |row: &&Row| row.outcome.starts_with("modelled");
        let sum = |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.bytes).sum::<u64>();
        let modelled = sum(&mut self.rows.iter().filter(is_modelled));
        [sum(&mut self.rows.iter()) + self.elsewhere_bytes + self.left_out[1], modelled]
    }
}

impl fmt::Display for Inferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["flows of", "flows", "packets", "kB", "become"]).words(&[4]);
        let mut rows: Vec<&Row> = self.counts.rows.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        for row in rows {
            let Row { kind, outcome, flows, packets, bytes } = row;
            let kilobytes = format!("{:.1}", *bytes as f64 / 1e3);
            let (flows, packets) = (flows.to_string(), packets.to_string());
            table.row([(*kind).to_owned(), flows, packets, kilobytes, (*outcome).to_owned()]);
        }
        writeln!(f, "{}", table.render(false))?;
        let [all, modelled] = self.counts.bytes();
        let part = modelled as f64 * 100.0 / all.max(1) as f64;
        writeln!(f, "{part:.1} % of {:.1} kB modelled", all as f64 / 1e3)?;
        if self.counts.elsewhere_bytes > 0 {
            let kilobytes = self.counts.elsewhere_bytes as f64 / 1e3;
            writeln!(f, "{kilobytes:.1} kB pass in the other direction of the link only")?;
        }
        if self.counts.left_out[0] > 0 {
            let [frames, bytes] = self.counts.left_out;
            let most = crate::FLOWS_MAX;
            writeln!(f, "{frames} frames ({bytes} B) are of flows beyond the first {most}")?;
        }
        self.connections(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

impl Inferred {
    /// Writes what is known of the connections together.
    fn connections(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self
            .flows
            .iter()
            .filter_map(|flow| match &flow.model {
                Model::Tcp { tcp, .. } => Some(tcp),
                _ => None,
            })
            .collect();
        if all.is_empty() {
            return Ok(());
        }
        let mut times: Vec<f64> = all
            .iter()
            .filter_map(|tcp| tcp.round_trip.total())
            .map(|time| time.as_nanos() as f64 / 1e6)
            .collect();
        times.sort_by(f64::total_cmp);
        let by = |method| all.iter().filter(|tcp| tcp.round_trip.by == method).count();
        if let (Some(first), Some(last)) = (times.first(), times.last()) {
            let median = times[times.len() / 2];
            write!(
                f,
                "round trips without a queue: {first:.2} to {last:.2} ms, median {median:.2}"
            )?;
            let rows = [
                (Method::Measured, "measured"),
                (Method::Estimated, "estimated by the least of one capture"),
                (Method::Neighbours, "as other connections of the host"),
                (Method::OneSided, "of one direction"),
                (Method::Unknown, "unknown"),
            ];
            let found = rows.map(|(method, word)| (by(method), word));
            let found = found.iter().filter(|row| row.0 > 0);
            let words: Vec<_> = found.map(|(count, word)| format!("{count} {word}")).collect();
            writeln!(f, " ({})", words.join(", "))?;
        }
        let families = [Family::Cubic, Family::Reno, Family::BbrLike, Family::Unknown];
        let words = families.iter().filter_map(|family| {
            let count = all.iter().filter(|tcp| tcp.control.family == *family).count();
            (count > 0).then(|| format!("{count} {}", family.word()))
        });
        writeln!(f, "congestion control: {}", words.collect::<Vec<_>>().join(", "))?;
        let marks = [
            (Mark::Midstream, "open before the first frame"),
            (Mark::OneSided, "seen in one direction"),
            (Mark::Truncated, "with segments whose headers are cut"),
            (Mark::Vlan, "in a VLAN"),
            (
                Mark::Orientation,
                "of which no end is known to be inside: who sent more is the source",
            ),
        ];
        for (mark, word) in marks {
            let count = self.flows.iter().filter(|flow| flow.marks.contains(&mark)).count();
            if count > 0 {
                writeln!(f, "{count} flows {word}")?;
            }
        }
        Ok(())
    }
}
