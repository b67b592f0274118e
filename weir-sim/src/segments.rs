//! The segments of one source's connections: a row for each that a host sends, with the state of
//! the sender after it.

use crate::scenario::{Scenario, Source};
use crate::transport::Side;
use std::fmt::{self, Write};
use weir_core::units::{Duration, Instant};
use weir_tcp::{CaState, Cause, Endpoint, Flags, Segment};

/// Bound: rows of segments that are kept; later ones are counted.
pub const SEGMENTS_MAX: usize = 1_000_000;

/// The segments that the hosts of one source sent.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Segments {
    /// In the order of time.
    pub rows: Vec<SegmentRow>,
    /// How many more there were.
    pub omitted: u64,
}

/// A segment, and the state of the host that sent it. Numbers count from the initial sequence
/// number of the host that they belong to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SegmentRow {
    /// When it left its host.
    pub at: Instant,
    /// Which connection of the source it belongs to, from 1.
    pub connection: u32,
    /// Whether the host is the one that sends the data.
    pub from_sender: bool,
    /// The flags of the TCP header.
    pub flags: Flags,
    /// The number of its first byte.
    pub seq: u32,
    /// The next number that its host expects.
    pub ack: u32,
    /// Its bytes of data.
    pub length: u32,
    /// The window that its host offers, in bytes.
    pub window: u32,
    /// How many blocks of data out of order it reports.
    pub blocks: u8,
    /// Why the data is sent again; `None` for the first time.
    pub again: Option<Cause>,
    /// The state of congestion control.
    pub state: CaState,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// The threshold of slow start in bytes; `None` before the first loss.
    pub ssthresh: Option<u64>,
    /// Bytes on the way, as its host believes.
    pub in_flight: u64,
    /// The smoothed round trip.
    pub srtt: Duration,
}

/// Returns the place of the source of this name, which must send TCP.
///
/// # Errors
/// When there is none; the text names those that there are.
pub fn tcp_source(scenario: &Scenario, name: &str) -> Result<usize, String> {
    let is_tcp = |source: &&Source| source.traffic.tcp().is_some();
    let found = scenario.sources.iter().position(|source| source.name == name);
    if let Some(place) = found.filter(|place| is_tcp(&&scenario.sources[*place])) {
        return Ok(place);
    }
    let all: Vec<_> = scenario.sources.iter().filter(is_tcp).map(|it| it.name.as_str()).collect();
    let why = if found.is_some() { "sends no TCP" } else { "is no source" };
    Err(match all.is_empty() {
        true => format!("{name}: {why}, and no source of {} sends TCP", scenario.name),
        false => format!("{name}: {why}; those that send TCP are {}", all.join(", ")),
    })
}

impl Segments {
    /// Notes a segment that `endpoint` has emitted.
    pub(crate) fn note(&mut self, place: Place, segment: &Segment, endpoint: &Endpoint) {
        if self.rows.len() >= SEGMENTS_MAX {
            self.omitted += 1;
            return;
        }
        let info = endpoint.tcp_info();
        let bytes = |segments: u32| u64::from(segments) * u64::from(info.snd_mss);
        let Place { at, connection, side, initial: [own, other] } = place;
        let has_ack = segment.flags.has(Flags::ACK);
        self.rows.push(SegmentRow {
            at,
            connection,
            from_sender: side == Side::Sender,
            flags: segment.flags,
            seq: segment.seq.0.wrapping_sub(own),
            ack: if has_ack { segment.ack.0.wrapping_sub(other) } else { 0 },
            length: segment.length,
            window: info.rcv_wnd,
            blocks: segment.sack.as_slice().len() as u8,
            again: segment.again,
            state: info.ca_state,
            cwnd: bytes(info.snd_cwnd),
            ssthresh: (info.snd_ssthresh < SSTHRESH_NONE).then(|| bytes(info.snd_ssthresh)),
            in_flight: endpoint.in_flight(),
            srtt: info.srtt,
        });
    }

    /// Returns the rows as lines of values with a line of their names before them.
    pub fn to_csv(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for row in &self.rows {
            writeln!(text, "{row}").expect("memory takes every line");
        }
        text
    }
}

/// Where a segment was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub at: Instant,
    pub connection: u32,
    pub side: Side,
    /// The initial sequence numbers of the host and of the other one.
    pub initial: [u32; 2],
}

impl SegmentRow {
    /// Returns which host sent it.
    pub fn from_word(&self) -> &'static str {
        if self.from_sender { "sender" } else { "receiver" }
    }

    /// Returns the letters of its flags, as tcpdump has them.
    pub fn flags_word(&self) -> String {
        FLAGS.iter().filter(|row| self.flags.has(row.0)).map(|row| row.1).collect()
    }

    /// Returns why its data is sent again; empty for the first time.
    pub fn again_word(&self) -> &'static str {
        match self.again {
            None => "",
            Some(Cause::Loss) => "lost",
            Some(Cause::Timeout) => "timeout",
            Some(Cause::Probe) => "probe",
        }
    }

    /// Returns the state of congestion control.
    pub fn state_word(&self) -> &'static str {
        match self.state {
            CaState::Open => "open",
            CaState::Disorder => "disorder",
            CaState::Cwr => "cwr",
            CaState::Recovery => "recovery",
            CaState::Loss => "loss",
        }
    }
}

impl fmt::Display for SegmentRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_nanos() as f64 / 1e9;
        write!(f, "{seconds:.9},{},{},{}", self.connection, self.from_word(), self.flags_word())?;
        write!(f, ",{},{},{},{}", self.seq, self.ack, self.length, self.window)?;
        write!(f, ",{},{},{}", self.blocks, self.again_word(), self.state_word())?;
        let ssthresh = self.ssthresh.map_or(String::new(), |bytes| bytes.to_string());
        let srtt = self.srtt.as_nanos() as f64 / 1e3;
        write!(f, ",{},{ssthresh},{},{srtt}", self.cwnd, self.in_flight)
    }
}

const HEAD: &str = "time_s,connection,from,flags,seq,ack,length,window,sack_blocks,again,state,\
                    cwnd,ssthresh,in_flight,srtt_us";
/// `.` stands for an acknowledgement.
const FLAGS: [(Flags, char); 8] = [
    (Flags::SYN, 'S'),
    (Flags::FIN, 'F'),
    (Flags::RST, 'R'),
    (Flags::PSH, 'P'),
    (Flags::ACK, '.'),
    (Flags::ECE, 'E'),
    (Flags::CWR, 'W'),
    (Flags::AE, 'e'),
];
/// The threshold of slow start before the first loss, in segments.
const SSTHRESH_NONE: u32 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Watch, read, run_watched};

    const SCENARIO: &str = "duration = \"2 s\"\nwarmup = \"0 s\"\ndelay = \"5 ms\"\n\
        [policy.link]\nrate = \"5 Mbit/s\"\nscheduler = \"drr\"\n\
        [policy.class.all]\ndefault = true\nqueue = { limit = \"8 packets\" }\n\
        [[source]]\nname = \"file\"\nkind = \"tcp\"\n\
        [[source]]\nname = \"calm\"\nkind = \"cbr\"\nrate = \"1 Mbit/s\"\nsize = \"500 B\"\n";

    fn segments(of: Option<usize>) -> Option<Segments> {
        let outcome =
            read::parse(SCENARIO.as_bytes(), "test", &|_| unreachable!("no file is named"));
        let scenario = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings));
        let watch = Watch { flow: of, ..Watch::default() };
        run_watched(&scenario, watch, &mut |_| {}).expect("it runs").segments
    }

    #[test]
    fn rows_are_those_of_the_source_that_is_followed() {
        let all = segments(Some(0)).expect("it was asked for");
        assert_eq!(all.omitted, 0);
        assert!(all.rows.windows(2).all(|pair| pair[0].at <= pair[1].at));
        let first: Vec<_> = all.rows.iter().take(3).map(SegmentRow::flags_word).collect();
        assert_eq!(first, ["S", "S.", "."]);
        let again = all.rows.iter().filter(|row| row.again.is_some());
        assert!(again.clone().count() > 3, "eight packets are too few for slow start");
        assert!(again.clone().all(|row| row.from_sender && row.length > 0));
        // What is sent again was sent before.
        for row in again {
            let before = all.rows.iter().filter(|other| other.at < row.at && other.from_sender);
            assert!(before.map(|other| other.seq).any(|seq| seq == row.seq), "{row}");
        }
        let text = all.to_csv();
        let columns = HEAD.split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == columns), "{text}");
        assert_eq!(text.lines().count(), all.rows.len() + 1);
    }

    #[test]
    fn nothing_is_kept_of_datagrams_or_where_nobody_asked() {
        assert_eq!(segments(Some(1)), None);
        assert_eq!(segments(None), None);
    }
}
