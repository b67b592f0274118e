//! The report of a replay: the capture, the line, every class, and the balance.
//!
//! `docs/replay.md` describes the JSON. Invariant: equal replays print equal bytes.

use super::{ETHERNET_HEADER, HELD_BYTES_MAX, Run};
use crate::classes::{ClassSums, class_table, shown};
use crate::keeping::Holding;
use crate::report::{ClassReport, Conservation, LinkReport};
use serde::{Serialize, Serializer};
use std::fmt;
use std::io::Write;
use weir_core::packet::{LinkType, Unread, UnreadCounts};
use weir_core::units::{Duration, Instant};
use weir_trace::capture::{CaptureError, CaptureLink, CaptureTotals, PACKET_BYTES_MAX};
use weir_trace::explain::{ExplainReport, Explained};
use weir_trace::shown::seconds;

/// The results of a replay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReplayReport {
    /// The frames of the capture.
    pub capture: CaptureReport,
    /// From the first arrival to the last bit on the wire; what rates and utilisation refer to.
    #[serde(rename = "span_s", serialize_with = "seconds")]
    pub span: Duration,
    /// The figures of the line.
    pub link: LinkReport,
    /// Every class in the order of declaration; an interior class is the sum of its leaves.
    #[serde(serialize_with = "shown")]
    pub classes: Vec<ClassReport>,
    /// Why frames waited, if that was requested.
    pub explain: Option<ExplainReport>,
    /// Whether every frame is accounted for.
    pub conservation: Conservation,
    /// The fault that ended the reading of the capture, if there was one.
    pub fault: Option<FaultReport>,
    /// Whether the bounds of the policy held, if a class declares an arrival curve.
    #[serde(skip)]
    pub holding: Option<Holding>,
}

/// The frames of a capture, and what is odd about them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CaptureReport {
    /// Frames that were read.
    pub frames: u64,
    /// The sum of their captured bytes.
    pub captured_bytes: u64,
    /// Their bytes on the captured link.
    pub original_bytes: u64,
    /// From the first frame to the latest.
    #[serde(rename = "duration_s", serialize_with = "seconds")]
    pub duration: Duration,
    /// Frames of which less was captured than was on the link.
    pub cut: u64,
    /// Frames earlier than one before them; they arrive together with that one.
    pub backward: u64,
    /// Frames without a timestamp; they arrive together with the latest before them.
    pub untimed: u64,
    /// Frames whose IP header cannot be read, although they may have one.
    pub unread: u64,
    /// Why, each with its number of frames.
    #[serde(serialize_with = "causes")]
    pub unread_causes: UnreadCounts,
    /// The first link type that Weir does not read.
    #[serde(skip)]
    pub foreign: Option<CaptureLink>,
    /// Frames that came in by no interface that the policy names.
    pub unnamed: u64,
    /// Frames longer than the link's largest packet.
    pub oversize: u64,
    /// Frames that claim more than [`PACKET_BYTES_MAX`] bytes, and counted as that long.
    pub overlong: u64,
    /// Frames written with fewer bytes than captured; see [`HELD_BYTES_MAX`].
    pub shortened: u64,
    /// Frames more than 292 years after the first, and taken as then.
    pub late: u64,
}

/// The fault that ended the reading of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FaultReport {
    /// Where: in bytes from the start of the uncompressed capture.
    pub offset: u64,
    /// The whole frames before it.
    pub frames: u64,
    /// The fault, its place and its cure.
    pub message: String,
}

impl<W: Write> Run<'_, W> {
    pub(super) fn report(
        &self,
        totals: CaptureTotals,
        fault: Option<&CaptureError>,
    ) -> ReplayReport {
        let end = self.now.max(self.state.finished);
        // A nanosecond where nothing was read, so that rates of nothing are zero.
        let span = end.since(Instant::ZERO).max(Duration::from_nanos(1));
        let account = self.drive.account();
        let mut classes = ClassSums::default();
        let plan = &self.state.policy.link;
        classes.add(&plan.tree, account.leaves(), &self.state.meter);
        classes.mark_hashed(&plan.tree, &self.classifier);
        ReplayReport {
            capture: self.capture_report(totals),
            span,
            link: LinkReport {
                scheduler: plan.scheduler,
                rate: plan.tree.rate(),
                utilisation: self.state.meter.line.busy.as_nanos() as f64 / span.as_nanos() as f64,
            },
            classes: classes.report(span),
            explain: self.state.explained.as_ref().map(Explained::report),
            conservation: self.conservation(totals.frames, Conservation::of(&account)),
            fault: fault.map(|error| FaultReport {
                offset: error.offset,
                frames: error.frames,
                message: error.to_string(),
            }),
            holding: None,
        }
    }

    fn capture_report(&self, totals: CaptureTotals) -> CaptureReport {
        let counts = self.state.counts;
        CaptureReport {
            frames: totals.frames,
            captured_bytes: totals.captured_bytes,
            original_bytes: totals.original_bytes,
            duration: self.now.since(Instant::ZERO),
            cut: totals.cut,
            backward: totals.backward,
            untimed: totals.untimed,
            unread: counts.unread.total(),
            unread_causes: counts.unread,
            foreign: counts.foreign,
            unnamed: if self.state.policy.interfaces.is_empty() { 0 } else { counts.unnamed },
            oversize: counts.oversize,
            overlong: counts.overlong,
            shortened: counts.shortened,
            late: counts.late,
        }
    }

    /// The link's balance, against what was read, what came out, and what is held.
    fn conservation(&self, frames: u64, link: Conservation) -> Conservation {
        let agrees = link.offered == frames
            && link.sent == self.state.counts.sent
            && link.dropped == self.state.counts.dropped
            && link.backlog == self.state.waiting.len() as u64;
        Conservation { holds: link.holds && agrees, ..link }
    }
}

impl ReplayReport {
    /// The class called `name`.
    pub fn class(&self, name: &str) -> Option<&ClassReport> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// Returns facts about the capture that a user should know before believing the numbers, a
    /// sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let of = self.capture.frames;
        let rows = self.capture.oddities();
        let told = rows.iter().filter(|row| row.0 > 0);
        told.map(|(count, what)| format!("{count} of {of} frames {what}")).collect()
    }
}

impl CaptureReport {
    fn oddities(&self) -> Vec<(u64, String)> {
        let mut oddities = self.oddities_of_frames().to_vec();
        let unread = self.unread_causes.each();
        oddities.extend(unread.map(|(cause, frames)| (frames, self.unread(cause))));
        oddities
    }

    /// Says what becomes of frames whose IP header cannot be read.
    fn unread(&self, cause: Unread) -> String {
        match (cause, self.foreign) {
            (Unread::LinkType, Some(link)) => unread_link(link),
            _ => format!("{}; {UNMATCHED}", cause.what()),
        }
    }

    fn oddities_of_frames(&self) -> [(u64, String); 7] {
        [
            (
                self.backward,
                "are earlier than a frame before them and arrived together with that one; \
                 `reordercap IN OUT` sorts a capture"
                    .into(),
            ),
            (
                self.untimed,
                "have no timestamp and arrived together with the latest frame before them".into(),
            ),
            (
                self.unnamed,
                "came in by no interface that the policy names, so rules with one did not match; \
                 say which it was with `--interface`"
                    .into(),
            ),
            (
                self.oversize,
                "are longer than the policy's `mtu` allows: with tags or trailers, or captured \
                 where the network card has not cut them yet; raise `mtu`, or capture on the line \
                 itself"
                    .into(),
            ),
            (
                self.overlong,
                format!("claim more than {PACKET_BYTES_MAX} bytes and counted as that long"),
            ),
            (
                self.shortened,
                format!(
                    "were written with fewer bytes, since those that waited held \
                     {HELD_BYTES_MAX}; lower the limits of queues, or cut frames with \
                     `editcap -s 256 IN OUT`"
                ),
            ),
            (self.late, "are more than 292 years after the first and arrived then".into()),
        ]
    }
}

/// Says which link type cannot be read, which can, and what to do.
fn unread_link(link: CaptureLink) -> String {
    let known = LinkType::ALL.map(LinkType::name).join(", ");
    format!(
        "have the link type {} ({link}), which Weir does not read; {UNMATCHED}, and they count as \
         if their link header were {ETHERNET_HEADER} bytes. Weir reads {known}: capture on such an \
         interface, or cut a header of N bytes before an IP packet off with \
         `editcap -L -C N -T rawip IN OUT`",
        link.0
    )
}

fn causes<S: Serializer>(counts: &UnreadCounts, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.each().map(|(cause, frames)| (cause.name(), frames)))
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CaptureReport { frames, original_bytes, duration, .. } = self.capture;
        writeln!(f, "{frames} frames with {original_bytes} B, captured in {}", brief(duration))?;
        let LinkReport { scheduler, rate, utilisation } = &self.link;
        let (span, percent) = (brief(self.span), utilisation * 100.0);
        writeln!(f, "{scheduler} at {rate}, busy {percent:.2} % of {span}\n")?;
        writeln!(f, "{}\n", class_table(&self.classes))?;
        if let Some(explain) = &self.explain {
            writeln!(f, "{explain}\n")?;
        }
        writeln!(f, "conservation {}", self.conservation)
    }
}

/// A duration in seconds to the microsecond: exact ones are long to read.
fn brief(duration: Duration) -> String {
    let micros = duration.as_nanos() / 1000;
    format!("{}.{:06} s", micros / 1_000_000, micros % 1_000_000)
}

const UNMATCHED: &str = "no rule about addresses, ports, protocols or DSCP matches them";
