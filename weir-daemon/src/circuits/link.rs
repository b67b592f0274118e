//! The classes of circuits at the link: a thread that asks for them by the control socket.
//!
//! It fills in the template of each direction, and gives several changes to the link in one
//! request. The loop goes on meanwhile, and hears of each change later.

use super::table::{Found, Made, Step};
use super::ways::{self, Way, fill};
use crate::companion::{Connect, LinkClient, refused};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};
use weir_control::circuits::{Circuit, UnknownHost};
use weir_control::protocol::{Answer, Changed, Query, Request, Tables, Texts};
use weir_control::texts;
use weir_host::watch::Waker;
use weir_policy::deployment::{Circuits, Deployment, Rehearsal};
use weir_policy::policy::{CIRCUIT_PREFIX, CircuitTemplate, circuit_class};
use weir_policy::render;

/// Something that the thread has done, or heard of the link.
#[derive(Debug)]
pub enum Outcome {
    /// The link and its classes, at the start and after a change by others.
    Seen(Box<Seen>),
    /// The outcomes of changes, in each direction.
    Made(Vec<(Step, Vec<Made>)>),
    /// Circuits whose classes the link has and which get nothing, and why.
    Hidden(Vec<(Circuit, String)>),
    /// Hosts in the default classes, those that a circuit has among them.
    Hosts(Vec<UnknownHost>),
    /// The link cannot be used.
    Failed(String),
}

/// The circuits of a link, as its texts say them.
#[derive(Debug)]
pub struct Seen {
    /// The section of the deployment.
    pub settings: Circuits,
    /// The directions that shape them.
    pub ways: Vec<Way>,
    /// The classes of circuits that it has, by their names.
    pub classes: BTreeMap<String, Found>,
}

/// The thread's other end.
pub struct Link {
    steps: Sender<Vec<Step>>,
    outcomes: Receiver<Outcome>,
    /// Whether changes are under way.
    pub is_busy: bool,
}

impl Link {
    /// Starts the thread, which wakes the loop for each outcome.
    ///
    /// # Errors
    /// When the system has no thread.
    pub fn start(connect: Connect, waker: Arc<Waker>) -> Result<Self, String> {
        let (steps, arriving) = mpsc::channel();
        let (leaving, outcomes) = mpsc::channel();
        let client = LinkClient::new(REASON, connect);
        let hidden = Hidden::default();
        let worker = Worker { client, ways: Vec::new(), hidden, leaving, waker };
        let started = thread::Builder::new().name("classes".to_owned());
        let started = started.spawn(move || worker.work(&arriving));
        started.map_err(|error| error.to_string())?;
        Ok(Self { steps, outcomes, is_busy: false })
    }

    /// Has changes made; their outcome follows.
    pub fn make(&mut self, steps: Vec<Step>) {
        self.is_busy = true;
        // The thread ends when the keeper is gone, and this process ends soon, too.
        let _ended = self.steps.send(steps);
    }

    /// Returns the next outcome.
    pub fn outcome(&mut self) -> Option<Outcome> {
        let outcome = self.outcomes.try_recv().ok()?;
        self.is_busy &= !matches!(outcome, Outcome::Made(_));
        Some(outcome)
    }
}

struct Worker {
    client: LinkClient,
    ways: Vec<Way>,
    hidden: Hidden,
    leaving: Sender<Outcome>,
    waker: Arc<Waker>,
}

impl Worker {
    fn work(mut self, arriving: &Receiver<Vec<Step>>) {
        match self.client.texts().and_then(|texts| self.see(&texts)) {
            Ok(seen) => self.tell(Outcome::Seen(Box::new(seen))),
            Err(why) => return self.tell(Outcome::Failed(why)),
        }
        let mut checked = Instant::now();
        let mut counted = None;
        loop {
            let patience = if self.hidden.is_done() { CHECK_INTERVAL } else { Duration::ZERO };
            match arriving.recv_timeout(patience) {
                Ok(steps) => {
                    let made = self.make(&steps);
                    self.tell(Outcome::Made(steps.into_iter().zip(made).collect()));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let hidden = self.hidden.some(&self.ways);
            if !hidden.is_empty() {
                self.tell(Outcome::Hidden(hidden));
            }
            if checked.elapsed() < CHECK_INTERVAL {
                continue;
            }
            checked = Instant::now();
            if let Some(texts) = self.client.changed_texts() {
                match self.see(&texts) {
                    Ok(seen) => self.tell(Outcome::Seen(Box::new(seen))),
                    Err(why) => self.tell(Outcome::Failed(why)),
                }
            }
            if counted.is_none_or(|at: Instant| at.elapsed() >= HOSTS_INTERVAL) {
                counted = Some(Instant::now());
                let hosts = self.hosts();
                self.tell(Outcome::Hosts(hosts));
            }
        }
    }

    fn tell(&self, outcome: Outcome) {
        let _ended = self.leaving.send(outcome);
        self.waker.wake();
    }

    /// Reads the texts of a link.
    fn see(&mut self, texts: &Texts) -> Result<Seen, String> {
        let bare = Texts { added: BTreeMap::new(), ..texts.clone() };
        let outcome = texts::read_again(&bare);
        let Some(deployment) = outcome.plan else {
            return Err(render::summary(&outcome.findings));
        };
        let ways = ways::ways(&deployment);
        let settings =
            deployment.circuits.clone().ok_or("the deployment has no [deployment.circuits]")?;
        let is_same = ways == self.ways;
        self.ways = ways;
        let mut classes: BTreeMap<String, Found> = BTreeMap::new();
        for (bit, way) in self.ways.iter().enumerate() {
            let tables = texts.added.get(&way.file).into_iter().flatten();
            for (name, table) in tables.filter(|(name, _)| name.starts_with(CIRCUIT_PREFIX)) {
                let (circuit, is_current) = found(table, is_same, &way.template);
                let new = Found { present: 0, circuit: None, is_current: true };
                let all = classes.entry(name.clone()).or_insert(new);
                all.present |= 1 << bit;
                all.is_current &= is_current;
                all.circuit = all.circuit.take().or(circuit);
            }
        }
        self.hidden = Hidden::new(&deployment, &self.ways, &classes);
        let everywhere = (1 << self.ways.len()) - 1;
        classes.values_mut().for_each(|found| found.is_current &= found.present == everywhere);
        Ok(Seen { settings, ways: self.ways.clone(), classes })
    }

    /// Makes changes; returns what became of each in each direction.
    fn make(&mut self, steps: &[Step]) -> Vec<Vec<Made>> {
        let mut made = vec![Vec::new(); steps.len()];
        for (bit, way) in self.ways.clone().iter().enumerate() {
            let filled: Vec<_> = steps.iter().map(|step| Change::of(step, bit, way)).collect();
            for (outcome, made) in self.make_in(way, &filled).into_iter().zip(&mut made) {
                let named = |why| named(&self.ways, way, why);
                made.push(outcome.map(|hidden| hidden.map(named)).map_err(named));
            }
        }
        made
    }

    /// Makes the changes of one direction.
    fn make_in(&mut self, way: &Way, changes: &[Result<Change<'_>, String>]) -> Vec<Made> {
        let sound: Vec<_> = changes.iter().flatten().collect();
        let all = match sound.as_slice() {
            [] => Some(Vec::new()),
            [_] => None,
            several => {
                let answer = self.client.call(&request(&way.direction, several));
                answer.and_then(warned).ok()
            }
        };
        let one = |change: &Result<Change<'_>, String>| match (change, &all) {
            (Err(why), _) => Err(why.clone()),
            (Ok(change), Some(warnings)) => Ok(change.hidden(warnings)),
            // One of them is wrong, and the others are not.
            (Ok(change), None) => self.make_alone(way, change),
        };
        changes.iter().map(one).collect()
    }

    fn make_alone(&mut self, way: &Way, change: &Change<'_>) -> Made {
        if matches!(change, Change::None) {
            return Ok(None);
        }
        match (change, self.client.call(&request(&way.direction, &[change]))?) {
            // A class that is gone already is as good as one that left.
            (Change::Leave(_), Answer::Changed(_)) => Ok(None),
            (_, Answer::Changed(changed)) if changed.errors > 0 => Err(reason(&changed)),
            (_, answer) => warned(answer).map(|warnings| change.hidden(&warnings)),
        }
    }

    /// Returns the busiest hosts of the default classes.
    fn hosts(&mut self) -> Vec<UnknownHost> {
        let mut hosts = Vec::new();
        for Way { direction, default, .. } in self.ways.clone() {
            let query = Query { class: Some(default), hosts: Some(HOSTS_MAX), ..Query::default() };
            let Ok(Answer::Status(status)) = self.client.call(&Request::Status(query)) else {
                continue;
            };
            let lanes = status.lanes.into_iter().filter(|lane| lane.name == direction);
            let classes = lanes.flat_map(|lane| lane.classes);
            let rows = classes.filter_map(|class| class.hosts).flat_map(|hosts| hosts.rows);
            hosts.extend(rows.filter(|host| !host.address.is_empty()).map(|host| UnknownHost {
                direction: direction.clone(),
                address: host.address,
                bytes: host.sent.bytes,
            }));
        }
        hosts
    }
}

/// The search for circuits whose classes the link has and which get nothing: the texts of the link
/// do not say so. It goes on between requests.
#[derive(Default)]
struct Hidden {
    /// By direction, its policy without circuits.
    rehearsals: Vec<Rehearsal>,
    circuits: Vec<Circuit>,
}

impl Hidden {
    fn new(deployment: &Deployment, ways: &[Way], classes: &BTreeMap<String, Found>) -> Self {
        let circuits: Vec<_> = classes.values().filter_map(|found| found.circuit.clone()).collect();
        if circuits.is_empty() {
            return Self::default();
        }
        let direction = |way: &Way| {
            let all = &deployment.directions;
            all.iter().find(|one| one.name == way.direction).expect("the way is one of them")
        };
        let rehearsals = ways.iter().map(|way| Rehearsal::new(&direction(way).policy)).collect();
        Self { rehearsals, circuits }
    }

    fn is_done(&self) -> bool {
        self.circuits.is_empty()
    }

    /// Looks at some circuits; returns those that get nothing.
    fn some(&mut self, ways: &[Way]) -> Vec<(Circuit, String)> {
        let first = self.circuits.len().saturating_sub(BATCH_MAX);
        let circuits = self.circuits.split_off(first);
        let rows: Vec<_> = circuits.iter().map(ways::row).collect();
        let mut said = Vec::new();
        for (way, rehearsal) in ways.iter().zip(&self.rehearsals) {
            let warnings = rehearsal.hidden(&way.template, &rows);
            said.extend(warnings.into_iter().map(|why| named(ways, way, why)));
        }
        if self.circuits.is_empty() {
            // The policies are not needed any more.
            *self = Self::default();
        }
        let why = |circuit: Circuit| {
            let why = of_class(&circuit_class(&circuit.id), &said)?;
            Some((circuit, why))
        };
        circuits.into_iter().filter_map(why).collect()
    }
}

/// Returns what is said of a circuit in a direction, with its name where there are several.
fn named(ways: &[Way], way: &Way, why: String) -> String {
    if ways.len() == 1 { why } else { format!("{}: {why}", way.direction) }
}

/// Returns which of these warnings says that the class gets nothing.
fn of_class(class: &str, warnings: &[String]) -> Option<String> {
    let own = format!("of class `{class}` decides nothing");
    warnings.iter().find(|warning| warning.contains(&own)).cloned()
}

/// A change of one class in one direction.
enum Change<'s> {
    /// The name of the class, and its table.
    Join(&'s str, String),
    Leave(&'s str),
    /// There is nothing to do.
    None,
}

impl<'s> Change<'s> {
    fn of(step: &'s Step, bit: usize, way: &Way) -> Result<Self, String> {
        match &step.circuit {
            Some(circuit) => {
                fill(&way.template, circuit).map(|table| Self::Join(&step.class, table))
            }
            None if step.present & 1 << bit == 0 => Ok(Self::None),
            None => Ok(Self::Leave(&step.class)),
        }
    }

    /// Returns which of these warnings says that the class gets nothing.
    fn hidden(&self, warnings: &[String]) -> Option<String> {
        let Self::Join(class, _) = self else { return None };
        of_class(class, warnings)
    }
}

/// Returns what the link says of rules that decide nothing.
///
/// # Errors
/// When the change was not made.
fn warned(answer: Answer) -> Result<Vec<String>, String> {
    let warnings = match &answer {
        Answer::Changed(changed) => {
            let hidden = changed.findings.iter().filter(|one| one["code"] == SHADOWED);
            hidden.filter_map(|one| one["message"].as_str()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    refused(answer).map(|()| warnings)
}

fn request(direction: &str, changes: &[&Change<'_>]) -> Request {
    let (mut tables, mut remove) = (String::new(), Vec::new());
    for change in changes {
        match change {
            Change::Join(_, table) => tables += table,
            Change::Leave(class) => remove.push((*class).to_owned()),
            Change::None => {}
        }
    }
    Request::Class {
        direction: Some(direction.to_owned()),
        add: (!tables.is_empty()).then_some(Tables::Text(tables)),
        remove,
        dry_run: false,
        reason: REASON.to_owned(),
    }
}

/// Returns why a class was refused, in a line.
fn reason(changed: &Changed) -> String {
    let is_error = |finding: &&serde_json::Value| finding["severity"] == "error";
    let error = changed.findings.iter().find(is_error);
    let text = |key: &str| error.and_then(|error| error[key].as_str()).unwrap_or_default();
    format!("{}; {}", text("message"), text("cure"))
}

/// Returns the circuit of a class that the link has, and whether its table is what the template
/// makes; with `is_same` the template is the one by which it was made.
fn found(table: &str, is_same: bool, template: &CircuitTemplate) -> (Option<Circuit>, bool) {
    let read = |text: &str| {
        let all: toml::Table = text.parse().ok()?;
        let (_, class) = all.get("class")?.as_table()?.iter().next()?;
        class.as_table().cloned()
    };
    let Some(mut class) = read(table) else { return (None, false) };
    let note = class.get("note").and_then(toml::Value::as_str);
    let circuit: Option<Circuit> = note.and_then(|note| serde_json::from_str(note).ok());
    if is_same {
        return (circuit, true);
    }
    class.remove("place");
    let made = circuit.as_ref().and_then(|circuit| fill(template, circuit).ok());
    let is_current = made.is_some_and(|made| read(&made) == Some(class));
    (circuit, is_current)
}

/// The code of a rule that decides nothing.
const SHADOWED: &str = weir_policy::codes::SHADOWED.id;
/// The reason of its changes in the history of the link.
const REASON: &str = "circuits";
/// How soon a change by others is noticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often hosts of the default classes are counted.
const HOSTS_INTERVAL: Duration = Duration::from_secs(5);
/// The most hosts of a default class that are asked for.
const HOSTS_MAX: u32 = 100;
/// Bound: changes of classes in one request of the circuits; the rest goes into the next.
pub const BATCH_MAX: usize = 64;
