//! `weir tune`: values of a policy that meet goals, searched, proved and handed to a running link.

mod found;

use self::found::Found;
use crate::change::{self, Options};
use crate::output::{Exit, Format, Output};
use crate::picture::{self, Files};
use crate::whole_file::{self, WholeFile};
use crate::{Run, input, python};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Value;
use weir_control::protocol::{Answer, InForce, Request, Terms};
use weir_policy::diff::{self, Difference};
use weir_policy::policy;
use weir_policy::reader::suggest;

/// Searches values of a policy that meet goals, proves them with other seeds, and explains them.
///
/// docs/tuning.md has the forms. It prints what changes, what each class gains and loses, which
/// condition is closest to its limit, and the candidates that none exceeds in every objective. The
/// search is Optuna's: it needs Python's module (`pip install './weir-python[tune]'`). Exits 1 if
/// no values that it tried meet the goals, 2 if an input is wrong, 130 if it was stopped.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Tune {
    /// The policy, in TOML.
    policy: PathBuf,
    /// The goal: a condition such as `voice.delay.p99 < 10 ms`, or an objective such as `max
    /// bulk.rate`; may be given several times.
    #[arg(long, value_name = "GOAL", required = true)]
    goal: Vec<String>,
    /// A further condition, such as `bulk.rate > 5 Mbit/s`; may be given several times.
    #[arg(long, value_name = "CONDITION")]
    keep: Vec<String>,
    /// Scenarios, which run with this policy instead of their own; captures and records stand for
    /// what `weir infer` finds in them.
    #[arg(long, value_name = "FILE,...", required = true, value_delimiter = ',')]
    over: Vec<PathBuf>,
    /// Run each scenario with each of these traces in place of the capacity behind its link; of a
    /// folder all files, except notes (.md). The policy's own promises keep their scenarios.
    #[arg(long, value_name = "FILE|FOLDER,...", value_delimiter = ',')]
    traces: Vec<PathBuf>,
    /// Which values may change, such as `class.*.rate,queue.limit`; by default all numbers and
    /// quantities of classes.
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    free: Vec<String>,
    /// How many values are tried.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = count())]
    trials: u32,
    /// Runs of each scenario in a trial.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = count())]
    seeds: u32,
    /// Runs of each scenario, with other seeds, that prove the pick.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count())]
    fresh: u32,
    /// The seed of the search and of its runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the tuned policy goes; by default it is printed.
    #[arg(short, long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// A picture of what was tried and of the candidates that none exceeds.
    #[arg(long, value_name = "FILE.svg|png|html", value_parser = picture::picture_file())]
    plot: Option<PathBuf>,
    /// Sets the values on this running link, on trial, with the conditions as guards: the link
    /// undoes them as soon as a second breaks one, and unless `weir confirm` comes. Only if the
    /// proof holds.
    #[arg(long, value_name = "NAME")]
    canary: Option<String>,
    /// With --canary: the direction of the link whose policy it is, where it has several policies.
    #[arg(long, value_name = "NAME", requires = "canary")]
    direction: Option<String>,
    /// With --canary: how long the trial lasts.
    #[arg(long, value_name = "TIME", requires = "canary", value_parser = weir_cli::time::time)]
    confirm: Option<Duration>,
    /// With --canary: the control socket of the link, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET", requires = "canary")]
    control: Option<PathBuf>,
}

const EXAMPLE: &str = "Example, in the folder examples/walk:
  weir tune uplink.toml --goal 'web.delay.p99 < 60 ms' --keep 'rest.rate > 3 Mbit/s' \\
      --over evening.toml --free 'class.*.rate'";

/// How long a trial on a link lasts unless `--confirm` says it.
const TRIAL: Duration = Duration::from_secs(60);

fn count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1_000_000)
}

impl Run for Tune {
    fn run(self, output: &Output) -> Exit {
        self.search(output).unwrap_or_else(|why| output.refuse(&why))
    }
}

impl Tune {
    fn search(&self, output: &Output) -> Result<Exit, String> {
        let named = self.named();
        let inputs: Vec<_> = std::iter::once(&self.policy).chain(&self.over).collect();
        let inputs = inputs.into_iter().chain(&named).chain(&self.traces);
        let inputs: Vec<_> = inputs.map(PathBuf::as_path).collect();
        whole_file::distinct(&[("--out", &self.out), ("--plot", &self.plot)], &inputs)?;
        for input in std::iter::once(&self.policy).chain(&self.over).chain(&self.traces) {
            let cannot = |error| whole_file::cannot("read", &input.display().to_string(), &error);
            std::fs::File::open(input).map_err(cannot)?;
        }
        self.find_link()?;
        let picture = Files::open(self.plot.as_deref(), None)?;
        // Before the search: it would be lost where nothing can be written.
        let out = self.out.as_deref().map(WholeFile::create).transpose();
        let out = out.map_err(|error| error.to_string())?;
        let ended = python::run(self.words(), &[], "weir-python[tune]")?;
        if ended.exit != Exit::Clean {
            return Ok(ended.exit);
        }
        let found: Found = serde_json::from_str(&ended.text)
            .map_err(|error| format!("Python's module answered something else: {error}"))?;
        if self.plot.is_some() {
            picture.write_picture(&found.picture())?;
        }
        match (out, &self.out) {
            (Some(file), _) if found.met => file.finish(found.policy.as_bytes())?,
            (_, Some(out)) => {
                let out = out.display();
                output.warn(&format!("{out} was not written: a condition is broken"));
            }
            (_, None) => {}
        }
        match output.format {
            Format::Json => output.json(&found),
            Format::Text => {
                output.text(&format!("{}\n\n", found.words));
                output.table(&found.table());
                if self.out.is_none() {
                    output.text(&format!("\n{}", found.policy));
                }
            }
        }
        match (&self.canary, found.met) {
            (Some(name), true) => {
                // The link may have changed during the search.
                self.find_link()?;
                Ok(self.hand_over(name, &found, output))
            }
            (Some(name), false) => {
                output.warn(&format!("nothing was changed on `{name}`: a condition is broken"));
                Ok(Exit::Faults)
            }
            (None, met) => Ok(if met { Exit::Clean } else { Exit::Faults }),
        }
    }

    /// Returns the files that the policy's promises and the scenarios name, and those that these
    /// do: inputs, too. What cannot be read or is no TOML, the search says; what is no regular file
    /// can be read only once, and the search reads it.
    fn named(&self) -> Vec<PathBuf> {
        let table = |path: &Path| -> Option<toml::Table> {
            let bytes = path.is_file().then(|| input::read(path))?.ok()?;
            String::from_utf8(bytes).ok()?.parse().ok()
        };
        let beside = |path: &Path, name: &str| path.with_file_name("").join(name);
        let promises = table(&self.policy).and_then(|mut top| top.remove("promise"));
        let promises = promises.and_then(|rows| rows.as_array().cloned()).unwrap_or_default();
        let under = promises.iter().filter_map(|row| row.get("under")?.as_str());
        let mut named: Vec<_> = under.map(|name| beside(&self.policy, name)).collect();
        for scenario in self.over.iter().cloned().chain(named.clone()) {
            let Some(top) = table(&scenario) else { continue };
            let links = top.get("link").and_then(Value::as_array).into_iter().flatten();
            let ways = links.flat_map(|link| [Some(link), link.get("back")]).flatten();
            let policies = ways.map(|way| way.get("policy")).chain([top.get("policy")]).flatten();
            let policies = policies.filter_map(Value::as_str);
            named.extend(policies.map(|name| beside(&scenario, name)));
        }
        named
    }

    /// Returns the arguments of the search.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["tune".into(), self.policy.clone().into()];
        let mut add = |option: &str, value: &str| words.push(format!("--{option}={value}").into());
        self.goal.iter().for_each(|goal| add("goal", goal));
        self.keep.iter().for_each(|keep| add("keep", keep));
        self.free.iter().for_each(|free| add("free", free));
        let counts = [("trials", self.trials), ("seeds", self.seeds), ("fresh", self.fresh)];
        counts.iter().for_each(|(option, count)| add(option, &count.to_string()));
        add("seed", &self.seed.to_string());
        let files = self.over.iter().map(|scenario| ("--over", scenario));
        for (option, file) in files.chain(self.traces.iter().map(|trace| ("--traces", trace))) {
            words.extend([option.into(), file.clone().into()]);
        }
        words.push("--json".into());
        words
    }

    /// Finds out before the search whether the values can be handed over after it.
    fn find_link(&self) -> Result<(), String> {
        let Some(name) = &self.canary else { return Ok(()) };
        let answer = change::ask(name, self.control.as_ref(), &Request::Policy {})?;
        let Answer::Policy(found) = answer else { return Err(change::OTHER.to_owned()) };
        let names: Vec<&str> = found.directions.iter().map(|row| row.direction.as_str()).collect();
        let several = found.directions.iter().any(|row| row.file != found.directions[0].file);
        match &self.direction {
            Some(direction) if !names.contains(&direction.as_str()) => {
                Err(format!("no direction is called `{direction}`; {}", suggest(direction, &names)))
            }
            None if several => Err(format!(
                "the directions of `{name}` have different policies; say which one is tuned: \
                 --direction {}",
                names.join(", or ")
            )),
            _ => self.compare(name, &found).and_then(|()| self.try_guards(name)),
        }
    }

    /// Refuses a link that runs another policy: the values are tried with this one only.
    fn compare(&self, name: &str, found: &InForce) -> Result<(), String> {
        let is_tuned = |way: &str| self.direction.as_deref().is_none_or(|own| own == way);
        let row = found.directions.iter().find(|row| is_tuned(&row.direction));
        let file = row.and_then(|row| found.files.iter().find(|file| file.name == row.file));
        let Some(file) = file else { return Err(change::OTHER.to_owned()) };
        let place = self.policy.display().to_string();
        let text = std::fs::read(&self.policy);
        let text = text.map_err(|error| whole_file::cannot("read", &place, &error))?;
        let plan = |text: &[u8]| policy::parse_bytes(text, &place, None, &input::read_named).plan;
        // The search refuses a policy with errors, and shows them.
        let Some(own) = plan(&text) else { return Ok(()) };
        let Some(other) = plan(file.text.as_bytes()) else {
            return Err(format!("the policy of `{name}` cannot be compared with {place}"));
        };
        let difference = Difference::between(&other, &own);
        if difference.is_empty() {
            return Ok(());
        }
        let direction = self.direction.iter().map(|way| format!(" --direction {way}"));
        Err(format!(
            "`{name}` runs another policy than {place}, with which the values that are found would \
             be untried; tune the one in force (`weir log {name} --policy{}`), or have the link \
             reload {place}. From the one in force to {place}:\n{}",
            direction.collect::<String>(),
            diff::text(&difference).trim_end()
        ))
    }

    /// Has the link read the conditions as guards, and changes nothing.
    fn try_guards(&self, name: &str) -> Result<(), String> {
        let first = |goal: &str| goal.split_whitespace().next().unwrap_or_default().to_owned();
        let is_objective = |goal: &str| ["min", "max"].contains(&first(goal).as_str());
        let goals = self.goal.iter().filter(|goal| !is_objective(goal));
        let guards = goals.chain(&self.keep).cloned().collect();
        let terms = Terms { dry_run: true, guards, ..Terms::default() };
        let request = Request::Set { settings: Vec::new(), terms };
        let answer = change::ask(name, self.control.as_ref(), &request);
        let cure = "leave the condition out, or tune without --canary";
        let refused = |why| format!("`{name}` cannot watch the conditions: {why}; {cure}");
        answer.map(drop).map_err(refused)
    }

    /// Sets what was found on a running link, on trial.
    fn hand_over(&self, name: &str, found: &Found, output: &Output) -> Exit {
        let guards = found.conditions.iter().filter(|row| row.guard);
        let guards = guards.map(|row| row.condition.clone()).collect();
        let reason = format!("tuned for {}", self.goal.join(", "));
        let trial = self.confirm.unwrap_or(TRIAL);
        let options = Options::trial(self.control.clone(), trial, guards, reason);
        let settings = found.settings(self.direction.as_deref());
        if settings.is_empty() {
            output.warn(&format!("nothing was changed on `{name}`: the policy stays as it is"));
            return Exit::Clean;
        }
        let request = Request::Set { settings, terms: options.terms() };
        change::change(output, name, &options, &request)
    }
}
