//! `weir fork`: two futures of a moment of a record, the recorded one and one with other values.

use crate::output::{Exit, Format, Output};
use crate::set::setting;
use crate::{Run, input};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::BufReader;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use weir_core::units::Duration;
use weir_host::signals::StopSignal;
use weir_infer::Input;
use weir_infer::reacting::{self, Runs};
use weir_sim::replicate;
use weir_trace::driver::model::{Complete, Driver};
use weir_trace::fork::{Ask, Forked, Recorded, fork};
use weir_trace::load::Edit;
use weir_trace::record::RecordReader;

/// Goes on from a moment of a record with other values of the policy, and compares with what
/// happened.
///
/// The link is as it was at the moment; then the values are set as `weir set` would have set them,
/// and it gets the frames that came, at the times at which they came. Without a value to set, the
/// future is the recorded one, and this exits 1 if it is not, to the bit. Senders that react to
/// loss or delay would have sent otherwise: --reacting simulates them. Exits 1 also if the record
/// is damaged, 2 if there is no record or a value cannot be set. docs/record.md describes the
/// output.
#[derive(clap::Args)]
pub struct Fork {
    /// A file of `weir record`.
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// The moment, from the beginning of the record: 3s.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time)]
    at: Duration,
    /// The settings at that moment, as `weir set` takes them: class.voice.rate=2Mbit/s. May be
    /// given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The direction; needed if there are several.
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    /// A card that takes the packets from the moment on, in place of the line: one with a ring of
    /// 128 packets. `chain`, an old one, reports when all that it was given is sent; `packet`
    /// reports each packet.
    #[arg(long, value_name = "REPORTS")]
    card: Option<Card>,
    /// Let the senders of the record react: both futures are simulated with the sources that
    /// `weir infer` finds, the first one is compared with the record, and by so much the second may
    /// be wrong.
    #[arg(long, conflicts_with_all = ["card", "step"])]
    reacting: bool,
    /// With --reacting: the runs of each future, from which follows what differs by chance.
    #[arg(long, value_name = "COUNT", default_value = "3", requires = "reacting")]
    replications: NonZeroU16,
    /// With --reacting: the runs at the same time; by default one a processor.
    #[arg(long, value_name = "COUNT", requires = "reacting")]
    threads: Option<NonZeroU16>,
    /// How long the futures are; until the end of the record at most.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = some_time)]
    length: Duration,
    /// With `--format json`: the width of a bin; by default a few hundred make the length.
    #[arg(long, value_name = "WIDTH", value_parser = some_time)]
    step: Option<Duration>,
}

/// When a card reports what it has sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Card {
    Chain,
    Packet,
}

impl Card {
    fn driver(self) -> Driver {
        match self {
            Self::Chain => Driver::FXP,
            Self::Packet => Driver::Fxp { ring: 128, complete: Complete::Packet },
        }
    }
}

impl Run for Fork {
    fn run(self, output: &Output) -> Exit {
        self.fork(output)
            .unwrap_or_else(|error| output.refuse(&format!("{}: {error}", self.record.display())))
    }
}

impl Fork {
    fn fork(&self, output: &Output) -> Result<Exit, String> {
        let edits = self.set.iter().map(|word| self.edit(word));
        let edits = edits.collect::<Result<Vec<_>, _>>()?;
        let open = || open(&self.record);
        let recorded = Recorded::read(open, self.direction.as_deref())?;
        let at = recorded.load.start.after(self.at);
        let step = match output.format {
            Format::Json => self.step,
            Format::Text => Some(self.length),
        };
        let ask = Ask { at, edits, length: self.length, step, driver: self.card.map(Card::driver) };
        if self.reacting {
            return self.react(&recorded, &ask, output);
        }
        let forked = fork(&recorded, open()?, &ask)?;
        match output.format {
            Format::Json => output.json(&forked.report(&recorded, &ask, CLASSES_MAX)),
            Format::Text => show(&recorded, &forked, &ask, output),
        }
        let fault = forked.fault.iter().map(|fault| format!("the record ends early: {fault}"));
        fault.for_each(|fault| output.warn(&fault));
        let is_off = ask.edits.is_empty() && ask.driver.is_none() && forked.difference.is_some();
        Ok(if is_off || forked.fault.is_some() { Exit::Faults } else { Exit::Clean })
    }

    /// Simulates both futures with senders that react.
    fn react(&self, recorded: &Recorded, ask: &Ask, output: &Output) -> Result<Exit, String> {
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        let replications = usize::from(self.replications.get());
        let threads = self.threads.map_or_else(replicate::cores, |count| count.get().into());
        let bar = ProgressBar::new(2 * replications as u64);
        let done = |ended: usize| bar.set_position(ended as u64);
        let runs = Runs { replications, threads, stop: stop.flag(), done: &done };
        let record = || {
            let record = RecordReader::new(open(&self.record)?);
            record.map(Input::Record).map_err(|error| error.to_string())
        };
        let answer = reacting::fork(recorded, &record, ask, &runs);
        bar.finish_and_clear();
        let whatif = match answer {
            Err(_) if stop.requested() => return Ok(Exit::Interrupted),
            answer => answer?.whatif,
        };
        match output.format {
            Format::Json => output.json(&whatif),
            Format::Text => output.text(&whatif.to_string()),
        }
        let is_damaged = recorded.load.fault.is_some();
        Ok(if is_damaged { Exit::Faults } else { Exit::Clean })
    }

    fn edit(&self, word: &str) -> Result<Edit, String> {
        let setting = setting(word, None)?;
        let own = setting.direction.as_ref();
        if let Some(other) = own.filter(|own| Some(*own) != self.direction.as_ref()) {
            return Err(format!(
                "`{word}` is for direction `{other}`, and a fork goes on with one direction; name \
                 it with --direction {other}"
            ));
        }
        Ok(Edit { key: setting.key, value: setting.value })
    }
}

fn show(recorded: &Recorded, forked: &Forked, ask: &Ask, output: &Output) {
    let window = forked.recorded.window;
    let from: Duration = ask.at.since(recorded.load.start.min(ask.at));
    let length = window.to.since(window.from.min(window.to));
    output.text(&format!(
        "direction {}, from {from} on, for {length}: {} packets came\n",
        recorded.direction, forked.packets
    ));
    output.table(&forked.table());
    let compared = match forked.first_difference(ask) {
        None => "identical: every departure and drop with its times".to_owned(),
        Some(difference) => format!("the first difference, {difference}"),
    };
    output.text(&format!("\n{compared}\n"));
    if let Some(runs) = forked.forked.runs {
        output.text(&format!(
            "The card asked the scheduler {} times, {:.1} % of them while several classes \
             waited.\n",
            runs.all,
            100.0 * runs.contended as f64 / runs.all.max(1) as f64
        ));
    }
    if !ask.edits.is_empty() || ask.driver.is_some() {
        output.text("Arrivals are as recorded: senders that react would differ (--reacting).\n");
    }
}

fn open(path: &Path) -> Result<BufReader<File>, String> {
    Ok(BufReader::with_capacity(PART, input::open(path).map_err(|error| error.to_string())?))
}

/// Parses a time such as `3s`.
fn time(text: &str) -> Result<Duration, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// As [`time`], above 0.
fn some_time(text: &str) -> Result<Duration, String> {
    let is_some = |time: &Duration| *time > Duration::ZERO;
    let error = || "it takes a time above 0; write 1s, for example".to_owned();
    time(text).and_then(|time| Some(time).filter(is_some).ok_or_else(error))
}

/// The bytes of a record that are read at once.
const PART: usize = 256 << 10;
/// The most classes in JSON.
const CLASSES_MAX: usize = 10_000;
