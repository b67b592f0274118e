//! Reports the outcomes of the papers' experiments: one HTML file that needs no other file, and a
//! page of each paper in Markdown with its verdicts in CSV.

mod archive;
mod facts;
mod html;
mod markdown;
mod museum;

pub use archive::{More, archive};
pub use facts::{Headline, fact_line};
pub use html::html;
pub use markdown::{COLUMNS, INDEX, Page, fact_verdicts, index_row, markdown, page, verdicts};
pub use museum::pictures;

use crate::claims::{Outcome, Verdict};

/// The origin of the figures.
#[derive(Clone, Debug)]
pub struct About {
    /// The command line that made the figures.
    pub command: String,
    /// The first seed of the runs.
    pub seed: u64,
    /// The version of the program.
    pub version: String,
    /// The processor, cores and system.
    pub machine: String,
}

impl About {
    /// Describes this program on this machine.
    pub fn this(command: String, seed: u64) -> Self {
        Self { command, seed, version: env!("CARGO_PKG_VERSION").to_owned(), machine: machine() }
    }
}

/// The number of claims with each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Claims that hold as written.
    pub holds: usize,
    /// Claims that fail with a reason in the sheet.
    pub explained: usize,
    /// Claims that fail, and the sheet says that the cause is unknown.
    pub cause_unknown: usize,
    /// Claims that fail without a reason.
    pub fails: usize,
    /// Claims that cannot be tested.
    pub not_reproduced: usize,
}

impl Tally {
    /// Counts all claims of these outcomes.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome<'a>>) -> Self {
        let mut tally = Self::default();
        for claim in outcomes.into_iter().flat_map(|outcome| &outcome.claims) {
            match claim.verdict {
                Verdict::Holds => tally.holds += 1,
                Verdict::FailsBecause => tally.explained += 1,
                Verdict::FailsCauseUnknown => tally.cause_unknown += 1,
                Verdict::Fails => tally.fails += 1,
                Verdict::NotReproduced => tally.not_reproduced += 1,
            }
        }
        tally
    }

    /// Returns the number of claims that can be judged.
    pub const fn judged(&self) -> usize {
        self.holds + self.explained + self.cause_unknown + self.fails
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { holds, explained, cause_unknown, fails, not_reproduced } = self;
        let judged = self.judged();
        write!(
            f,
            "{holds} of {judged} claims hold, {explained} fail with a reason, {cause_unknown} for \
             an unknown one, {fails} without; {not_reproduced} cannot be reproduced"
        )
    }
}

/// Describes processor, cores and system, from Linux.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |line| line.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}
