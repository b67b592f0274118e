//! The packets that arrived of one stream: bytes, loss, order, duplicates, one-way delay.
//!
//! Invariant: every marked packet counts once, as new, as reordered (and new), or as a duplicate;
//! `lost` is what the sender numbered less what is new. A packet that comes more than [`WINDOW`]
//! numbers behind the highest counts as reordered, and whether it is a duplicate is not known.

use crate::mark::{Kind, Mark};
use serde::Serialize;
use weir_core::account::Histogram;
use weir_core::units::Duration;

/// Bound: numbers behind the highest for which it is known whether they came; an older one counts
/// as reordered.
pub const WINDOW: u64 = 1 << 16;

/// The counts of one stream.
#[derive(Clone, Debug)]
pub struct Arrivals {
    packets: u64,
    bytes: u64,
    unique: u64,
    duplicated: u64,
    reordered: u64,
    /// One more than the highest number that came.
    next: u64,
    /// How many were sent, once an end mark said so.
    total: Option<u64>,
    first_ns: u64,
    last_ns: u64,
    /// Which of the last [`WINDOW`] numbers came, at the number modulo the window.
    seen: Vec<u64>,
    delays: Histogram,
    /// Packets that seem to arrive before they were sent.
    negative: u64,
    marked: bool,
    transfers: u64,
}

/// One packet as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its mark, if it has one.
    pub mark: Option<Mark>,
    /// The bytes of its payload.
    pub bytes: u64,
    /// When it arrived, by CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// When it arrived, by the clock of its mark.
    pub at_of_mark_ns: i64,
}

/// The delays of one stream in a report, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Delays {
    /// How many were measured.
    pub count: u64,
    /// The mean of all.
    pub mean_us: f64,
    /// Half of them are at most this.
    pub p50_us: f64,
    /// Nine of ten are at most this.
    pub p90_us: f64,
    /// 99 of a hundred.
    pub p99_us: f64,
    /// The longest of all, exactly.
    pub max_us: f64,
}

/// The figures of one stream in a report.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReceivedStream {
    /// `udp`, `tcp` or `raw`.
    pub transport: &'static str,
    /// Its sender: address and port, without the port for TCP.
    pub from: String,
    /// Its number; `None` for packets without a mark.
    pub stream: Option<u32>,
    /// Packets that arrived, duplicates too; for TCP, transfers.
    pub packets: u64,
    /// The bytes of their payload.
    pub bytes: u64,
    /// Packets that the sender numbered and that did not arrive; `None` where that is not known.
    pub lost: Option<u64>,
    /// Packets that arrived after one with a higher number.
    pub reordered: u64,
    /// Packets that arrived again.
    pub duplicated: u64,
    /// How many packets the sender said at its end that it had sent.
    pub sent: Option<u64>,
    /// From the first to the last arrival.
    pub seconds: f64,
    /// Payload in that time; nothing for a single packet.
    pub goodput_mbit_s: f64,
    /// From the sender's call to the receiver's kernel; for TCP, from the start of a transfer to
    /// its last byte.
    pub delay: Delays,
    /// Packets that seem to have arrived before they were sent: the clocks differ.
    pub negative_delays: u64,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            unique: 0,
            duplicated: 0,
            reordered: 0,
            next: 0,
            total: None,
            first_ns: u64::MAX,
            last_ns: 0,
            seen: Vec::new(),
            delays: Histogram::new(),
            negative: 0,
            marked: false,
            transfers: 0,
        }
    }
}

impl Arrivals {
    /// Counts one packet, or takes what an end mark says.
    pub fn packet(&mut self, arrival: &Arrival) {
        if let Some(mark) = arrival.mark.filter(|mark| mark.kind == Kind::End) {
            self.total = Some(mark.number);
            self.marked = true;
            return;
        }
        self.bytes(arrival.bytes, arrival.at_ns);
        self.packets += 1;
        let Some(mark) = arrival.mark else { return };
        self.marked = true;
        if self.number(mark.number) {
            self.delay(arrival.at_of_mark_ns.saturating_sub_unsigned(mark.sent_ns));
        }
    }

    /// Counts bytes of a transfer over TCP.
    pub fn bytes(&mut self, bytes: u64, at_ns: u64) {
        self.bytes += bytes;
        self.first_ns = self.first_ns.min(at_ns);
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// Counts a transfer whose last byte came at this time by the clock of its mark.
    pub fn transfer(&mut self, mark: &Mark, at_of_mark_ns: i64) {
        self.marked = true;
        self.transfers += 1;
        self.delay(at_of_mark_ns.saturating_sub_unsigned(mark.sent_ns));
    }

    /// Returns whether an end mark came.
    pub fn has_ended(&self) -> bool {
        self.total.is_some()
    }

    /// Returns whether the packet with this number is new.
    fn number(&mut self, number: u64) -> bool {
        if number >= self.next {
            self.skip_to(number);
            self.next = number + 1;
            return self.note(number);
        }
        if number + WINDOW < self.next {
            self.reordered += 1;
            self.unique += 1;
            return true;
        }
        let new = self.note(number);
        self.reordered += u64::from(new);
        new
    }

    /// Forgets the numbers whose places those from the highest to `number` take.
    fn skip_to(&mut self, number: u64) {
        self.seen.resize((WINDOW / 64) as usize, 0);
        if number - self.next >= WINDOW {
            self.seen.fill(0);
            return;
        }
        for skipped in self.next..number {
            let (word, bit) = place(skipped);
            self.seen[word] &= !bit;
        }
        let (word, bit) = place(number);
        self.seen[word] &= !bit;
    }

    fn note(&mut self, number: u64) -> bool {
        let (word, bit) = place(number);
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        *(if new { &mut self.unique } else { &mut self.duplicated }) += 1;
        new
    }

    fn delay(&mut self, nanos: i64) {
        match u64::try_from(nanos) {
            Ok(nanos) => self.delays.record(Duration::from_nanos(nanos)),
            Err(_) => self.negative += 1,
        }
    }

    /// Returns what a report says of it.
    pub fn report(
        &self,
        transport: &'static str,
        from: String,
        stream: Option<u32>,
    ) -> ReceivedStream {
        let seconds = self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9;
        let expected = self.total.unwrap_or(self.next);
        let tcp = transport == "tcp";
        let lost = if tcp {
            self.total.map(|total| total.saturating_sub(self.transfers))
        } else {
            self.marked.then(|| expected.saturating_sub(self.unique))
        };
        ReceivedStream {
            transport,
            from,
            stream,
            packets: if tcp { self.transfers } else { self.packets },
            bytes: self.bytes,
            lost,
            reordered: self.reordered,
            duplicated: self.duplicated,
            sent: self.total,
            seconds,
            goodput_mbit_s: if seconds > 0.0 { self.bytes as f64 * 8e-6 / seconds } else { 0.0 },
            delay: Delays::of(&self.delays),
            negative_delays: self.negative,
        }
    }
}

impl Delays {
    /// Reads them from a histogram.
    pub fn of(delays: &Histogram) -> Self {
        let micros = |duration: Duration| duration.as_nanos() as f64 / 1000.0;
        let quantile = |per_mille| micros(delays.quantile(per_mille).value);
        Self {
            count: delays.count(),
            mean_us: micros(delays.mean()),
            p50_us: quantile(500),
            p90_us: quantile(900),
            p99_us: quantile(990),
            max_us: micros(delays.max()),
        }
    }
}

fn place(number: u64) -> (usize, u64) {
    ((number % WINDOW / 64) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::Clock;

    /// Packets with these numbers, then an end mark, count as `[lost, reordered, duplicated]`.
    fn check(numbers: &[u64], total: Option<u64>, expected: [u64; 3]) {
        let mut arrivals = Arrivals::default();
        let mark = |kind, number| {
            Some(Mark { kind, clock: Clock::Monotonic, stream: 1, number, sent_ns: 5 })
        };
        let mut arrive = |mark, at| {
            arrivals.packet(&Arrival { mark, bytes: 100, at_ns: at, at_of_mark_ns: at as i64 });
        };
        for (at, &number) in numbers.iter().enumerate() {
            arrive(mark(Kind::Packet, number), at as u64 + 10);
        }
        if let Some(total) = total {
            arrive(mark(Kind::End, total), 1_000_000);
        }
        let report = arrivals.report("udp", String::new(), Some(1));
        let found = [report.lost.unwrap_or(99), report.reordered, report.duplicated];
        assert_eq!(found, expected, "{numbers:?}");
        assert_eq!(report.packets, numbers.len() as u64);
        assert_eq!(report.delay.count, numbers.len() as u64 - expected[2]);
    }

    #[test]
    fn loss_order_and_duplicates_are_told_apart() {
        check(&[0, 1, 2, 3], Some(4), [0, 0, 0]);
        check(&[0, 1, 3], None, [1, 0, 0]);
        check(&[0, 1, 2], Some(5), [2, 0, 0]);
        check(&[1, 0, 2], Some(3), [0, 1, 0]);
        check(&[0, 0, 1, 1, 1], Some(2), [0, 0, 3]);
        check(&[2, 0, 0, 1], Some(3), [0, 2, 1]);
        check(&[], Some(3), [3, 0, 0]);
        // The window moves on: what is far behind is new, and a place used again is empty.
        check(&[0, WINDOW, WINDOW + 1], None, [WINDOW - 1, 0, 0]);
        check(&[5, 5 + WINDOW, 5 + WINDOW], None, [WINDOW + 4, 0, 1]);
        check(&[3 * WINDOW, 1], None, [3 * WINDOW - 1, 1, 0]);
        check(&[3 * WINDOW, 2 * WINDOW + 1, 2 * WINDOW + 1], None, [3 * WINDOW - 1, 1, 1]);
    }

    #[test]
    fn packets_without_marks_count_only_bytes() {
        let mut arrivals = Arrivals::default();
        for at_ns in [1_000, 1_001_000] {
            arrivals.packet(&Arrival { mark: None, bytes: 500, at_ns, at_of_mark_ns: 0 });
        }
        let report = arrivals.report("udp", String::new(), None);
        assert_eq!((report.packets, report.bytes, report.lost), (2, 1000, None));
        assert!((report.goodput_mbit_s - 8.0).abs() < 1e-9, "{report:?}");
    }
}
