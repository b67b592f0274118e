//! The TCP connections of one source: retransmissions and their causes, marks, round trips, and the
//! limits of the sender.

use crate::figures::Delays;
use serde::{Serialize, Serializer};
use weir_core::account::Histogram;
use weir_core::units::Duration;
use weir_policy::table::Table;
use weir_tcp::Report;

/// The sums of a source's connections since the report began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    /// Connections that were opened.
    pub begun: u64,
    /// Segments with data or a FIN that were sent again.
    pub retransmitted: u64,
    /// The sum of the senders' reports.
    sent: Report,
    /// Packets that came to the receivers with a congestion mark.
    marks: u64,
    /// Segments that the receivers discarded for their timestamp.
    too_old: u64,
    /// SYNs that the receivers sent again.
    syns_again: u32,
    pub rtts: Histogram,
}

/// The counts of the senders and receivers of a source over TCP.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TcpReport {
    /// Connections that were opened.
    pub connections: u64,
    /// Connections that came to be open.
    pub established: u32,
    /// SYNs sent again by either side.
    pub syns_again: u32,
    /// Segments with data or a FIN that were sent again.
    pub retransmitted: u64,
    /// Of them, those whose loss acknowledgements showed.
    pub lost: u64,
    /// Segments that were sent again after a timeout.
    pub timed_out: u64,
    /// Probes for a lost tail, of data sent again or for the first time.
    pub probes: u64,
    /// Retransmission timeouts that expired.
    pub timeouts: u32,
    /// Timeouts and recoveries that proved to be needless.
    pub spurious: u32,
    /// Segments that the receivers reported to have come twice.
    pub duplicates: u64,
    /// Segments that the receivers discarded, since their timestamp was older than one before.
    pub too_old: u64,
    /// Packets that came to the receivers with a congestion mark.
    pub marks: u64,
    /// Reductions of the window because of marks.
    pub mark_reductions: u32,
    /// Round trips as the senders measured them.
    #[serde(rename = "rtt_us")]
    pub rtts: Delays,
    /// The parts of the time in which application, receiver or path held the senders back.
    pub limited: Limited,
    /// Transfers completed: from opening the connection to the last byte; or exchanges, from the
    /// first byte of the request to the last of the response.
    #[serde(rename = "transfer_us")]
    pub transfers: Delays,
}

/// Parts of the time for which connections were open, each 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Limited {
    /// The application had nothing to send.
    #[serde(serialize_with = "rounded")]
    pub application: f64,
    /// The receiver's window was full.
    #[serde(serialize_with = "rounded")]
    pub receiver: f64,
    /// The congestion window or pacing held data back.
    #[serde(serialize_with = "rounded")]
    pub congestion: f64,
}

impl Connections {
    /// Adds what a sender and its receiver did.
    pub fn add(&mut self, sender: &Report, receiver: &Report) {
        self.sent.add(sender);
        self.marks += receiver.marks_received;
        self.syns_again += receiver.syns_again;
        self.too_old += receiver.too_old;
    }

    pub fn report(&self, transfers: &Histogram) -> TcpReport {
        let sent = &self.sent;
        TcpReport {
            connections: self.begun,
            established: sent.established,
            syns_again: sent.syns_again + self.syns_again,
            retransmitted: self.retransmitted,
            lost: sent.lost,
            timed_out: sent.timed_out,
            probes: sent.probes,
            timeouts: sent.timeouts,
            spurious: sent.undone,
            duplicates: sent.duplicates,
            too_old: self.too_old,
            marks: self.marks,
            mark_reductions: sent.mark_reductions,
            rtts: Delays::of(&self.rtts),
            limited: Limited::of(&sent.limits),
            transfers: Delays::of(transfers),
        }
    }
}

impl Limited {
    fn of(limits: &weir_tcp::Limits) -> Self {
        let times = [limits.application, limits.receiver, limits.congestion];
        let all: u64 = times.into_iter().map(Duration::as_nanos).sum();
        let [application, receiver, congestion] =
            times.map(|time| time.as_nanos() as f64 / all.max(1) as f64);
        Self { application, receiver, congestion }
    }
}

impl TcpReport {
    /// The titles of [`TcpReport::cells`].
    pub(crate) fn table() -> Table {
        let head = [
            "TCP source",
            "SYNs\nagain",
            "again",
            "of them\nlost",
            "timed\nout",
            "probes",
            "time-\nouts",
            "need-\nless",
            "too\nold",
            "marks",
            "RTT ms\np50",
            "p99",
            "held by\napp %",
            "receiver\n%",
            "path\n%",
            "transfers",
        ];
        Table::new(head).optional(&[1, 3, 4, 5, 6, 7, 8, 9, 15])
    }

    pub(crate) fn cells(&self, name: &str) -> Vec<String> {
        let counts = [
            self.syns_again.into(),
            self.retransmitted,
            self.lost,
            self.timed_out,
            self.probes,
            self.timeouts.into(),
            self.spurious.into(),
            self.too_old,
            self.marks,
        ];
        let [p50, _, p99, ..] = self.rtts.cells();
        let limited = self.limited;
        let parts = [limited.application, limited.receiver, limited.congestion];
        let mut cells = vec![name.to_owned()];
        cells.extend(counts.map(|count| count.to_string()));
        cells.extend([p50, p99]);
        cells.extend(parts.map(|part| format!("{:.0}", part * 100.0)));
        cells.push(self.transfers.count.to_string());
        cells
    }
}

/// Writes a part to four digits.
fn rounded<S: Serializer>(part: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((part * 1e4).round() / 1e4)
}
