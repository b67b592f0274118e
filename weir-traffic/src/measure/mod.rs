//! Two captures of the same traffic, before and behind a link, compared packet by packet.
//!
//! Both captures are read once, side by side: a packet behind the link is looked for among those
//! that went in up to `AHEAD_NS` later, since two clocks differ. Invariant: every packet before
//! the link is counted once, as one that came out, that is lost, or that was still under way when
//! the capture behind the link ended; memory is bounded by [`WAITING_MAX`].

mod class;
mod identity;
mod waiting;

pub use class::MeasuredClass;
pub use waiting::WAITING_MAX;

use class::Class;
use serde::Serialize;
use std::fmt;
use waiting::{Entered, Waiting};
use weir_core::classify::Classifier;
use weir_core::packet::{Headers, Unread};
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;
use weir_policy::table::Table;
use weir_sim::replay::{InterfaceMap, frame_length, headers};
use weir_trace::capture::{CaptureError, CaptureFrame, CaptureReader};

/// How captures are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasureOptions {
    /// How far the clock of the second capture is ahead of that of the first, in nanoseconds; it
    /// is taken off.
    pub offset_ns: i64,
    /// A packet that was not seen after this time is lost.
    pub delay_max: Duration,
    /// How many bytes of each packet, from its IP header on, are compared.
    pub compared: usize,
}

/// The figures of a measurement between two captures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MeasureReport {
    /// Each class that had packets, in the order of the policy.
    pub classes: Vec<MeasuredClass>,
    /// From the first to the last packet behind the link.
    pub seconds: f64,
    /// Packets in the capture before the link, and in the one behind it.
    pub captured: [u64; 2],
    /// The link type of frames that Weir cannot read, of each capture that has some.
    pub unread: [Option<String>; 2],
    /// Packets behind the link that were not seen before it.
    pub unmatched: u64,
    /// Packets of which less was captured than is compared.
    pub cut: u64,
    /// Packets that were given up because too many waited.
    pub given_up: u64,
    /// Why a capture could not be read to its end, if one could not.
    pub faults: Vec<String>,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        Self { offset_ns: 0, delay_max: Duration::from_secs(10), compared: 128 }
    }
}

/// Compares the capture before a link with the one behind it; classes are those of the policy, by
/// the headers before the link.
pub fn measure(
    policy: &Policy,
    interfaces: &InterfaceMap,
    captures: [&mut CaptureReader<'_>; 2],
    options: &MeasureOptions,
) -> MeasureReport {
    let [before, behind] = captures;
    let mut comparison = Comparison {
        policy,
        interfaces,
        classifier: policy.classifier(),
        options: *options,
        classes: vec![None; policy.link.tree.leaf_count()],
        waiting: Waiting::default(),
        next: None,
        span: None,
        report: MeasureReport {
            classes: Vec::new(),
            seconds: 0.0,
            captured: [0; 2],
            unread: [None, None],
            unmatched: 0,
            cut: 0,
            given_up: 0,
            faults: Vec::new(),
        },
    };
    comparison.run(before, behind);
    comparison.finish()
}

struct Comparison<'a> {
    policy: &'a Policy,
    interfaces: &'a InterfaceMap,
    classifier: Classifier,
    options: MeasureOptions,
    /// A box each, since most of many classes are idle.
    classes: Vec<Option<Box<Class>>>,
    waiting: Waiting,
    /// A packet that was read ahead and has not gone in.
    next: Option<Entered>,
    /// The first and the last packet behind the link.
    span: Option<(i128, i128)>,
    report: MeasureReport,
}

impl Comparison<'_> {
    fn run(&mut self, before: &mut CaptureReader<'_>, behind: &mut CaptureReader<'_>) {
        while let Some(read) = behind.next_frame() {
            let frame = match read {
                Ok(frame) => frame,
                Err(error) => {
                    self.fault("the capture behind the link", &error);
                    break;
                }
            };
            let at = i128::from(frame.timestamp) - i128::from(self.options.offset_ns);
            self.span = Some(self.span.map_or((at, at), |span| (span.0.min(at), span.1.max(at))));
            self.enter_until(before, at + AHEAD_NS);
            let oldest = at - i128::from(self.options.delay_max.as_nanos());
            while let Some(packet) = self.waiting.expire(oldest) {
                self.class(packet.leaf).lose(false);
            }
            self.leave(&frame, at);
        }
        self.enter_until(before, i128::MAX);
    }

    /// Takes what went in up to an instant.
    fn enter_until(&mut self, before: &mut CaptureReader<'_>, until: i128) {
        loop {
            let Some(packet) = self.next.take().or_else(|| self.read(before)) else { return };
            if packet.at > until {
                self.next = Some(packet);
                return;
            }
            self.class(packet.leaf).enter(packet.bytes);
            if let Some(oldest) = self.waiting.enter(packet) {
                self.report.given_up += 1;
                self.lose(oldest);
            }
        }
    }

    /// The next packet before the link.
    fn read(&mut self, before: &mut CaptureReader<'_>) -> Option<Entered> {
        match before.next_frame()? {
            Ok(frame) => {
                let headers = self.headers(0, &frame);
                let now = Instant::from_nanos(frame.timestamp);
                let interface = self.interfaces.of(&frame.link.name);
                let leaf = self.classifier.classify(now, interface, &headers).leaf;
                let (key, cut) = identity::key(&headers, frame.bytes, self.options.compared);
                self.report.cut += u64::from(cut);
                let bytes = frame_length(&frame);
                Some(Entered { key, at: frame.timestamp.into(), leaf: leaf.0, bytes })
            }
            Err(error) => {
                self.fault("the capture before the link", &error);
                None
            }
        }
    }

    /// Reads the headers of a frame of the first or the second capture, and counts it.
    fn headers(&mut self, which: usize, frame: &CaptureFrame<'_>) -> Headers {
        let headers = headers(frame);
        self.report.captured[which] += 1;
        if headers.unread == Some(Unread::LinkType) {
            self.report.unread[which].get_or_insert_with(|| frame.link.link_type.to_string());
        }
        headers
    }

    fn leave(&mut self, frame: &CaptureFrame<'_>, at: i128) {
        let headers = self.headers(1, frame);
        let (key, cut) = identity::key(&headers, frame.bytes, self.options.compared);
        self.report.cut += u64::from(cut);
        match self.waiting.leave(key) {
            Some(packet) => {
                self.class(packet.leaf).leave(frame_length(frame), at - packet.at);
            }
            None => self.report.unmatched += 1,
        }
    }

    /// Counts a packet that did not come out.
    fn lose(&mut self, packet: Entered) {
        // A capture without any packet says of none that it was still under way, unless it could
        // not be read.
        let none = if self.report.faults.is_empty() { i128::MAX } else { i128::MIN };
        let last = self.span.map_or(none, |span| span.1);
        self.class(packet.leaf).lose(packet.at > last);
    }

    fn class(&mut self, leaf: u32) -> &mut Class {
        self.classes[leaf as usize].get_or_insert_default()
    }

    fn fault(&mut self, which: &str, error: &CaptureError) {
        self.report.faults.push(format!("{which}: {error}"));
    }

    fn finish(mut self) -> MeasureReport {
        while let Some(packet) = self.waiting.give_up() {
            self.lose(packet);
        }
        self.report.seconds = self.span.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
        let seconds = self.report.seconds;
        for (leaf, class) in (0u32..).zip(&self.classes) {
            let Some(class) = class.as_ref().filter(|class| class.is_used()) else { continue };
            let name = self.policy.leaf_name(weir_core::ids::LeafId(leaf));
            self.report.classes.push(class.report(name, seconds));
        }
        self.report
    }
}

impl MeasureReport {
    /// Returns whether one of the captures has no packet, so that nothing could be measured.
    pub fn is_empty(&self) -> bool {
        self.captured.contains(&0)
    }

    /// Returns why the captures cannot be compared, if they cannot.
    fn obstacles(&self) -> Vec<String> {
        const WHERE: &str = "was it taken on the right interface, and while there was traffic?";
        let mut obstacles = Vec::new();
        match self.captured {
            [0, 0] => obstacles.push(format!("neither capture has a packet: {WHERE}")),
            [0, _] => obstacles.push(format!("the capture before the link has no packet: {WHERE}")),
            [_, 0] => obstacles.push(format!(
                "the capture behind the link has no packet, so all before it count as lost: {WHERE}"
            )),
            _ => {}
        }
        for (which, link_type) in ["before", "behind"].iter().zip(&self.unread) {
            let Some(link_type) = link_type else { continue };
            obstacles.push(format!(
                "the capture {which} the link has frames of type `{link_type}`, which Weir does \
                 not read: capture on an Ethernet interface"
            ));
        }
        obstacles
    }

    /// Returns what a reader must know of the figures.
    pub fn warnings(&self) -> Vec<String> {
        let negative: u64 = self.classes.iter().map(|class| class.negative).sum();
        let least = self.classes.iter().map(|class| class.delay_min_us).fold(0.0, f64::min);
        let matched: u64 = self.classes.iter().map(|class| class.packets_out).sum();
        let obstacles = self.obstacles();
        let has_obstacle = !obstacles.is_empty();
        let mut warnings = [self.faults.clone(), obstacles].concat();
        let mut warn = |applies: bool, text: String| warnings.extend(applies.then_some(text));
        // Clocks that differ shift all delays too, but captures are swapped more often.
        let swapped = negative * 10 >= matched * 9;
        warn(
            negative > 0 && swapped,
            format!(
                "{negative} of {matched} packets left before they came, by up to {:.3} ms: are the \
                 captures swapped? The first is the one before the link. If not, the clocks \
                 differ; give the second's lead as `--clock-offset`",
                -least / 1000.0
            ),
        );
        warn(
            negative > 0 && !swapped,
            format!(
                "{negative} packets left before they came, by up to {:.3} ms: the clocks differ; \
                 give the second's lead as `--clock-offset`",
                -least / 1000.0
            ),
        );
        warn(
            matched == 0 && self.unmatched > 0 && !has_obstacle,
            "no packet is in both captures: is it the same traffic, one packet in each frame \
             (`ethtool -K eth0 gso off tso off gro off`), and are the clocks within a second \
             (`--clock-offset`)?"
                .to_owned(),
        );
        warn(
            matched > 0 && self.unmatched > 0,
            format!("{} packets behind the link were not seen before it", self.unmatched),
        );
        warn(
            self.cut > 0,
            format!(
                "of {} packets less was captured than is compared; `--compare-bytes` compares less",
                self.cut
            ),
        );
        warn(
            self.given_up > 0,
            format!("{} packets were given up: more than {WAITING_MAX} waited", self.given_up),
        );
        warnings
    }
}

impl fmt::Display for MeasureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "class",
            "in",
            "out",
            "lost",
            "lost %",
            "Mbit/s",
            "delay mean",
            "p50",
            "p90",
            "p99",
            "max",
            "deviation",
            "jitter",
        ])
        .words(&[0]);
        for class in &self.classes {
            let counts = [class.packets_in, class.packets_out, class.lost].map(|n| n.to_string());
            let rates = [class.lost_percent, class.throughput_mbit_s].map(|n| format!("{n:.3}"));
            let times = [
                class.delay_mean_us,
                class.delay_p50_us,
                class.delay_p90_us,
                class.delay_p99_us,
                class.delay_max_us,
                class.delay_deviation_us,
                class.jitter_us,
            ];
            let times = times.map(|micros| format!("{:.3} ms", micros / 1000.0));
            let name = [class.class.clone()];
            table.row(name.into_iter().chain(counts).chain(rates).chain(times));
        }
        writeln!(f, "{}", table.render(false))?;
        let under_way: u64 = self.classes.iter().map(|class| class.under_way).sum();
        write!(f, "{:.3} s behind the link", self.seconds)?;
        if under_way > 0 {
            write!(f, "; {under_way} packets came after its capture had ended, and count nowhere")?;
        }
        Ok(())
    }
}

/// How far a packet may seem to leave before it came.
const AHEAD_NS: i128 = 1_000_000_000;
