//! Records of running links, made again: the same calls to the same core, and a comparison of what
//! it does with what the record says.
//!
//! [`replay`] stops at the first difference and shows it. Invariant: a link is called with nothing
//! that a record could make panic; what the core cannot be asked is a fault of the record.

mod lane;

pub(crate) use lane::{departed, dropped, plain};

use crate::record::{File, Head, RecordError, RecordReader, Step, policy};
use lane::{Lane, Mismatch};
use serde::Serialize;
use std::fmt;
use weir_core::units::{Duration, Instant};
use weir_policy::{Policy, render};

/// The result of a replay of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordReport {
    /// The name of the link.
    pub name: String,
    /// The version of Weir that recorded.
    pub weir: String,
    /// The steps of the record that were made again, or compared.
    pub steps: u64,
    /// Each direction, up to the first difference.
    pub directions: Vec<DirectionReport>,
    /// The first difference, if there is one.
    pub difference: Option<Difference>,
    /// Why the record ends, if it says so.
    pub end: Option<&'static str>,
    /// Whether the record has all that was to be recorded.
    pub is_whole: bool,
    /// The fault of the record itself, if it has one.
    pub fault: Option<String>,
}

/// The events of one direction that the replay repeated as they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectionReport {
    /// The name of the direction.
    pub direction: String,
    /// Frames that arrived.
    pub arrivals: u64,
    /// Frames that left, each at the recorded instant.
    pub departures: u64,
    /// Frames that the link dropped, each at the recorded instant and with the recorded cause.
    pub drops: u64,
    /// Frames that were lost outside the link, which a replay does not make again.
    pub lost: u64,
    /// Changes of the policy.
    pub changes: u64,
    /// Checkpoints after the first, each with the state that the replay had there.
    pub checkpoints: u64,
}

/// Where a replay differs from its record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name of the direction.
    pub direction: String,
    /// The number of the step in the record, from 1.
    pub step: u64,
    /// The instant, from the first instant of the record.
    #[serde(rename = "at_s", serialize_with = "crate::shown::seconds")]
    pub at: Duration,
    /// The name of the class.
    pub class: String,
    /// The packet's number at the port.
    pub packet: u32,
    /// The event in the record.
    pub expected: String,
    /// The event in the replay.
    pub found: String,
}

/// Why a record cannot be replayed at all.
#[derive(Debug)]
pub enum RecordedError {
    /// It cannot be read, or is no record.
    Record(RecordError),
    /// The policy of a direction is not read or built as it was.
    Policy(String),
}

/// Makes a record again, up to its end, its fault or the first difference.
///
/// # Errors
/// When it is no record, or a link cannot be built from it.
pub fn replay(mut reader: RecordReader<'_>) -> Result<RecordReport, RecordedError> {
    let head = reader.head().clone();
    let mut lanes = head
        .lanes
        .iter()
        .map(|lane| Lane::new(lane, &head))
        .collect::<Result<Vec<_>, _>>()
        .map_err(RecordedError::Policy)?;
    let mut report = RecordReport {
        name: head.name.clone(),
        weir: head.weir.clone(),
        ..RecordReport::default()
    };
    loop {
        let (lane, step) = match reader.next_step() {
            Ok(Some((_, Step::End(end)))) => {
                report.end = Some(end.name());
                report.is_whole = end.is_whole();
                let mut ends = lanes.iter();
                let Some(difference) = ends.find_map(|lane| lane.settle().err()) else {
                    break;
                };
                note(&mut report, difference);
                break;
            }
            Ok(Some(step)) => step,
            Ok(None) => break,
            Err(error) => {
                report.fault = Some(error.to_string());
                break;
            }
        };
        report.steps += 1;
        if let Err(mismatch) = lanes[lane].step(&step, &head, report.steps) {
            note(&mut report, mismatch);
            break;
        }
    }
    report.directions = lanes.into_iter().map(Lane::report).collect();
    Ok(report)
}

fn note(report: &mut RecordReport, mismatch: Mismatch) {
    match mismatch {
        Mismatch::Differs(difference) => report.difference = Some(*difference),
        Mismatch::Faulty(fault) => report.fault = Some(fault),
    }
}

/// Reads a policy of a record: one of `files`, in a deployment with these ports.
///
/// # Errors
/// When it is not there or has errors.
pub fn policy_of(name: &str, files: &[File], head: &Head) -> Result<Policy, String> {
    let text = policy::text(name, files)?;
    let outcome = policy::parse((name, text), files, Some(&head.ports));
    let failed = outcome.failed();
    outcome.plan.filter(|_| !failed).ok_or_else(|| {
        let findings = render::render(&outcome.findings, &outcome.sources, false);
        format!("the record's policy `{name}` has errors for this version of Weir:\n{findings}")
    })
}

impl RecordReport {
    /// Returns whether everything that the record holds was the same again.
    pub fn is_identical(&self) -> bool {
        self.difference.is_none() && self.fault.is_none()
    }
}

impl fmt::Display for RecordReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for lane in &self.directions {
            let DirectionReport { direction, arrivals, departures, drops, lost, .. } = lane;
            write!(
                f,
                "{direction}: {arrivals} frames came; the same again: {departures} departures and \
                 {drops} drops with their times"
            )?;
            if *lost > 0 {
                write!(f, "; {lost} lost outside the link")?;
            }
            if lane.changes > 0 {
                write!(f, "; {} changes", lane.changes)?;
            }
            writeln!(f)?;
        }
        if let Some(difference) = &self.difference {
            return writeln!(f, "{difference}");
        }
        if let Some(end) = self.end.filter(|_| !self.is_whole) {
            writeln!(f, "the record ends early: {end}")?;
        }
        match &self.fault {
            Some(fault) => writeln!(f, "identical up to a fault of the record: {fault}"),
            None => writeln!(f, "identical: {} steps of {}", self.steps, self.name),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { direction, step, at, class, packet, expected, found } = self;
        write!(
            f,
            "different at step {step}, {at} after the beginning: direction {direction}, class \
             {class}, packet {packet}\n  expected: {expected}\n  found:    {found}"
        )
    }
}

impl fmt::Display for RecordedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(error) => write!(f, "{error}"),
            Self::Policy(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RecordedError {}

/// Returns the time from one instant to another, for people.
fn after(start: Option<Instant>, at: Instant) -> Duration {
    start.map_or(Duration::ZERO, |start| at.since(start.min(at)))
}
