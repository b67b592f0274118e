//! Imports other tools' configurations as policies, with the fate of each statement.
//!
//! A [`Language`] is a file here and a line in [`LANGUAGES`]. Its reader turns text into sketches,
//! one an interface; `sketch` completes them and writes them as TOML, and every resulting policy is
//! checked. Invariant: each statement of the file has one fate, and a lost or approximated one says
//! why or how.

mod altq;
mod altq_classes;
mod altq_meters;
mod conditions;
mod decide;
pub mod known;
mod libreqos;
mod lines;
mod mqc;
mod options;
mod pf;
mod routeros;
mod sketch;
mod sqm;
mod systemd;
mod tc;
mod words;

use lines::Reading;
use serde::Serialize;
use sketch::Sketch;
pub use tc::kernel;
use weir_core::units::Rate;
use weir_policy::codes;
use weir_policy::finding::{Draft, Outcome, Place, Report, Severity, Source};
use weir_policy::reader::decode;

/// A configuration language that Weir reads.
pub struct Language {
    /// The word after `weir import`.
    pub name: &'static str,
    /// One sentence for lists of languages.
    pub summary: &'static str,
    read: fn(&str, &Options, &mut Reading) -> Vec<Sketch>,
}

/// Values that a file does not give.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The rate of an interface for which the file gives none.
    pub rate: Option<Rate>,
    /// The interface of lines that name none, as `tc class show dev NAME` prints them.
    pub device: Option<String>,
    /// The text of the `network.json` beside LibreQoS's `ShapedDevices.csv`.
    pub network: Option<String>,
}

/// The fate of a statement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// The policy says the same.
    Kept,
    /// The policy says something similar, and the note says what differs.
    Approximated,
    /// The policy does not say it, and the note says why.
    Lost,
}

/// One statement of the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Line {
    /// Where the statement is.
    pub place: Place,
    /// Its first line, cut if it is long.
    pub text: String,
    /// How the statement was translated.
    pub fate: Fate,
    /// How it was approximated, or why it was lost.
    pub note: String,
}

/// The policy of one interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Imported {
    /// The interface, as the file calls it.
    pub interface: String,
    /// The policy as TOML; it checks.
    pub policy: String,
}

/// The result of an import.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Import {
    /// One policy an interface, in the order of the file.
    pub policies: Vec<Imported>,
    /// Every statement, in the order of the file.
    pub lines: Vec<Line>,
}

impl Fate {
    /// Returns the word used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Approximated => "approximated",
            Fate::Lost => "lost",
        }
    }
}

/// Returns the language of this name.
pub fn find(name: &str) -> Option<&'static Language> {
    LANGUAGES.iter().find(|language| language.name == name)
}

/// Reads `bytes` of the file `name` as `language`.
pub fn read(language: &Language, bytes: &[u8], name: &str, options: &Options) -> Outcome<Import> {
    let text = match decode(bytes, "split it up") {
        Ok(text) => text,
        Err((text, draft)) => {
            let mut report = Report::new(Source::new(name, text));
            report.push(*draft);
            return report.finish(None);
        }
    };
    let mut reading = Reading::new(Source::new(name, text));
    let sketches = (language.read)(text, options, &mut reading);
    let policies = sketches.into_iter().filter_map(|sketch| imported(sketch, &mut reading));
    let policies: Vec<_> = policies.collect();
    if policies.is_empty() && !reading.report.failed() {
        nothing(language, &mut reading);
    }
    let (report, lines) = reading.finish();
    report.finish(Some(Import { policies, lines }))
}

/// Reports that no policy came of the file, with the reasons of what is lost.
fn nothing(language: &Language, reading: &mut Reading) {
    let reasons = reading.reasons();
    let lost = !reasons.is_empty();
    let why = reading.why_empty.filter(|_| !lost).unwrap_or("the file shapes no interface");
    let mut message = format!("{why}, so there is no policy to write");
    if lost {
        message += &format!(": {}", reasons.join("; "));
    }
    let cure = match lost {
        true => "write a policy by hand for what Weir does not have".to_owned(),
        false => format!("check that the file is {}", language.summary),
    };
    let cure = reading.way_out.filter(|_| !lost).map_or(cure, str::to_owned);
    let span = reading.first_lost().unwrap_or_default();
    reading.report.push(Draft::new(&codes::NOTHING_IMPORTED, span, message).cure(cure));
}

/// Writes a sketch as a policy and checks it.
fn imported(mut sketch: Sketch, reading: &mut Reading) -> Option<Imported> {
    let span = sketch.span;
    sketch.complete(reading);
    if reading.report.failed() {
        return None;
    }
    let policy = sketch.to_toml();
    let outcome = weir_policy::policy::parse(&policy, "the imported policy");
    let error = outcome.findings.iter().find(|finding| finding.severity == Severity::Error);
    if let Some(error) = error {
        let message = format!(
            "interface `{}` cannot be imported: {} {}",
            sketch.interface, error.code, error.message
        );
        let class = class_at(&policy, error.place.line);
        let span = class.and_then(|name| sketch.line_of(name)).map_or(span, |at| reading.span(at));
        reading
            .report
            .push(Draft::new(&codes::IMPORT_REFUSED, span, message).cure(error.cure.as_str()));
        return None;
    }
    Some(Imported { interface: sketch.interface, policy })
}

/// Returns the name of the class whose table holds a line, from 1, of a policy that
/// [`Sketch::to_toml`] wrote.
fn class_at(policy: &str, line: usize) -> Option<&str> {
    let header = policy.lines().take(line).filter(|line| line.starts_with('[')).last()?;
    let name = header.strip_prefix("[class.")?.strip_suffix(']')?;
    Some(name.trim_matches('"'))
}

/// Returns whether a device of this name sends packets without an Ethernet header, as `ppp0` does.
pub fn is_bare(device: &str) -> bool {
    tc::is_bare(device)
}

/// Parses a rate as `tc` writes it, in bit/s.
pub(crate) fn tc_rate(text: &str) -> Option<u64> {
    tc::units::rate(text)
}

/// Returns the size that makes `tc` give the kernel a burst in bytes at a rate in bit/s.
pub(crate) fn tc_burst(burst: u64, rate: u64) -> u64 {
    tc::units::written_burst(burst, rate)
}

/// Returns the burst and the bandwidth in bit/s by which `tc` computes the weight of an average and
/// the pause that halves it, in nanoseconds.
pub(crate) fn tc_burst_of(weight: u64, min: f64, pause: u64) -> Option<(u64, u64)> {
    tc::queues::burst_of(weight, min, pause)
}

/// Returns the bandwidth in bit/s by which the kernel takes a packet of 1000 bytes to last for a
/// time in nanoseconds.
pub(crate) fn tc_bandwidth_of(packet: u64) -> u64 {
    tc::queues::bandwidth_of(packet.max(1) as f64)
}

/// The languages in the order of the help.
pub const LANGUAGES: &[Language] = &[
    altq::LANGUAGE,
    pf::LANGUAGE,
    tc::LANGUAGE,
    sqm::LANGUAGE,
    systemd::LANGUAGE,
    routeros::LANGUAGE,
    mqc::LANGUAGE,
    libreqos::LANGUAGE,
];
