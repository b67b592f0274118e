//! The circuits: what joins and leaves, which address is whose, and what the link still has to do.
//!
//! No I/O and no clock. A source says what should be ([`Table::join`], [`Table::leave`],
//! [`Table::replace`]), [`Table::take`] says what to change at the link, and [`Table::answer`]
//! hears what became of it. However fast circuits come and go, one change of each is under way at
//! most, and the next is to what is wanted by then: so nothing waits that is bounded by less than
//! the number of circuits. Invariant: an address belongs to one circuit, the last that named it and
//! could have a class.

use super::ways::{self, Way};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use weir_control::circuits::{Circuit, CircuitStatus, Circuits, Session};
use weir_core::classify::Prefix;
use weir_policy::policy::{CIRCUIT_PREFIX, circuit_class};

/// See the module.
#[derive(Debug, Default)]
pub struct Table {
    /// By the name of their class.
    entries: BTreeMap<String, Entry>,
    /// Whose an address is: by its prefix, the name of the class.
    owners: BTreeMap<String, String>,
    /// Those with something to do at the link, the first first.
    due: VecDeque<String>,
    /// The faulty one that was tried again last.
    retried: String,
    /// The directions that shape circuits.
    ways: Vec<Way>,
    expired: u64,
    moved: u64,
}

#[derive(Debug)]
struct Entry {
    /// The circuit as it should be; `None` for one that leaves.
    wanted: Option<Circuit>,
    /// The circuit as every direction has it, as far as that is known.
    applied: Option<Circuit>,
    /// The directions that have its class, a bit each.
    present: u64,
    fault: Option<String>,
    heard: Instant,
    turn: Turn,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Idle,
    Due,
    /// A change is under way; `again` if another one is to follow.
    Asked {
        again: bool,
    },
}

/// A change of the class of one circuit at the link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The name of the class.
    pub class: String,
    /// The circuit that it is for from now on; `None` if it leaves.
    pub circuit: Option<Circuit>,
    /// The directions that have the class, a bit each.
    pub present: u64,
}

/// The outcome of a change in one direction: why the class gets nothing, if it gets nothing; or why
/// the change was not made.
pub type Made = Result<Option<String>, String>;

/// A class of a circuit that the link has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The directions that have it, a bit each.
    pub present: u64,
    /// The circuit, as its note says; `None` where there is no such note.
    pub circuit: Option<Circuit>,
    /// Whether each direction has what the templates make of it.
    pub is_current: bool,
}

impl Table {
    /// These directions shape circuits from now on.
    pub fn set_ways(&mut self, ways: Vec<Way>) {
        self.ways = ways;
    }

    /// Returns the columns that templates name.
    pub fn columns(&self) -> BTreeSet<&'static str> {
        self.ways.iter().flat_map(|way| way.template.columns()).collect()
    }

    /// A circuit joins, or is another one from now on.
    ///
    /// # Errors
    /// When it is no circuit, or one too many; the text says why.
    pub fn join(&mut self, now: Instant, circuit: Circuit) -> Result<(), String> {
        let circuit = sound(circuit)?;
        let class = circuit_class(&circuit.id);
        let known = self.entries.get(&class).and_then(|entry| entry.wanted.as_ref());
        if let Some(other) = known.filter(|known| known.id != circuit.id) {
            return Err(format!("circuit `{}` has the class `{class}` already", other.id));
        }
        if !self.entries.contains_key(&class) && self.entries.len() >= CIRCUITS_MAX {
            return Err(format!("there are {CIRCUITS_MAX} circuits, and no more may join"));
        }
        if known == Some(&circuit) {
            self.entries.get_mut(&class).expect("it is known").heard = now;
            return Ok(());
        }
        // Other circuits keep addresses that this one could not use.
        let refusal = self.others_have(&circuit).then(|| self.refusal(&circuit));
        let fault = refusal.flatten();
        self.disown(&class);
        let is_free = |address: &&String| !self.owners.contains_key(*address);
        let own = circuit.addresses.iter().filter(|one| fault.is_none() || is_free(one));
        own.cloned().collect::<Vec<_>>().iter().for_each(|address| self.own(address, &class));
        let entry = self.entries.entry(class.clone()).or_insert_with(|| Entry::new(now));
        let is_bare = circuit.addresses.is_empty();
        let is_refused = fault.is_some();
        entry.heard = now;
        entry.fault = fault.or_else(|| is_bare.then(|| NO_ADDRESS.to_owned()));
        entry.wanted = Some(circuit);
        if !is_refused {
            self.mark(&class);
        }
        Ok(())
    }

    /// The circuit of this id leaves. The end of a session other than its last one is none of it.
    /// Returns whether it left.
    pub fn leave(&mut self, id: &str, session: Option<&Session>) -> bool {
        let class = circuit_class(id);
        let Some(circuit) = self.entries.get(&class).and_then(|entry| entry.wanted.as_ref()) else {
            return false;
        };
        let last = circuit.session.as_ref();
        if circuit.id != id || session.is_some_and(|ended| last.is_some_and(|it| it != ended)) {
            return false;
        }
        self.let_go(&class);
        true
    }

    /// All circuits of an access server leave.
    pub fn leave_server(&mut self, server: &str) {
        self.leave_if(|entry| {
            let session = entry.wanted.as_ref().and_then(|circuit| circuit.session.as_ref());
            session.is_some_and(|session| session.server == server)
        });
    }

    /// These are all circuits from now on, unless each of them is none; returns the places of those
    /// that are none, and why.
    pub fn replace(&mut self, now: Instant, circuits: Vec<Circuit>) -> Vec<(usize, String)> {
        let mut faults = Vec::new();
        let unsound = |circuit: &Circuit| sound(circuit.clone()).err();
        if circuits.iter().all(|circuit| unsound(circuit).is_some()) {
            // A list that cannot be used ends no circuit.
            let all = circuits.iter().enumerate();
            return all.filter_map(|(place, one)| Some((place, unsound(one)?))).collect();
        }
        let named: BTreeSet<_> =
            circuits.iter().map(|circuit| circuit_class(&circuit.id)).collect();
        let gone = self.entries.keys().filter(|class| !named.contains(*class)).cloned();
        // They leave first, so that there is room for the others.
        gone.collect::<Vec<_>>().iter().for_each(|class| self.let_go(class));
        for (place, circuit) in circuits.into_iter().enumerate() {
            if let Err(why) = self.join(now, circuit) {
                faults.push((place, why));
            }
        }
        faults
    }

    /// Circuits that were not heard of for so long leave.
    pub fn expire(&mut self, now: Instant, after: Duration) {
        let late = |entry: &Entry| now.saturating_duration_since(entry.heard) >= after;
        self.expired += self.leave_if(late);
    }

    /// Tries some of those with a fault again: there may be room now.
    pub fn retry(&mut self) {
        let is_faulty = |(_, entry): &(&String, &Entry)| entry.fault.is_some();
        let behind = self.entries.range(self.retried.clone()..).filter(is_faulty);
        let some: Vec<_> = behind.map(|(class, _)| class.clone()).take(RETRIES_MAX).collect();
        let last = some.get(RETRIES_MAX - 1);
        self.retried = last.map_or(String::new(), |last| format!("{last}\0"));
        for class in some {
            let Some(circuit) = self.entries[&class].wanted.clone() else {
                self.mark(&class);
                continue;
            };
            // A circuit without an address would be no better off.
            let is_bare = circuit.addresses.is_empty();
            if is_bare || self.others_have(&circuit) && self.refusal(&circuit).is_some() {
                continue;
            }
            circuit.addresses.iter().for_each(|address| self.own(address, &class));
            self.mark(&class);
        }
    }

    /// Learns which classes of circuits the link has: at the start, when those that say what they
    /// are for are circuits that were heard of now, and after a change by others.
    pub fn learn(&mut self, now: Instant, found: &BTreeMap<String, Found>, is_start: bool) {
        for (class, found) in found {
            if is_start && let Some(circuit) = found.circuit.clone() {
                // Its note was a circuit before.
                let _no_circuit = self.join(now, circuit);
            }
            // What no source named, such as a class without a note, leaves.
            let entry = self.entries.entry(class.clone()).or_insert_with(|| Entry::new(now));
            if is_start && found.is_current {
                entry.applied.clone_from(&found.circuit);
            }
        }
        for class in self.entries.keys().cloned().collect::<Vec<_>>() {
            let entry = self.entries.get_mut(&class).expect("it is there");
            if matches!(entry.turn, Turn::Asked { .. }) {
                // The answer says more than what was seen before.
                continue;
            }
            let present = found.get(&class).map_or(0, |found| found.present);
            let is_current = found.get(&class).is_some_and(|found| found.is_current);
            // The class that took its packets may be another one now.
            let is_hidden = entry.fault.is_some() && entry.applied.is_some();
            if entry.present != present || !is_current || is_hidden {
                entry.present = present;
                entry.applied = entry.applied.take().filter(|_| is_start && is_current);
                self.mark(&class);
            }
        }
    }

    /// Hears why the class that the link has for a circuit gets nothing. What is asked for since is
    /// answered by the link.
    pub fn hide(&mut self, circuit: &Circuit, why: String) {
        let Some(entry) = self.entries.get_mut(&circuit_class(&circuit.id)) else { return };
        let is_it = entry.applied.as_ref() == Some(circuit) && entry.turn == Turn::Idle;
        if is_it && entry.fault.is_none() {
            entry.fault = Some(why);
        }
    }

    /// Returns up to so many changes to make at the link, for which answers follow. Those that
    /// leave go alone: a place that becomes free serves from the next request on.
    pub fn take(&mut self, most: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        while steps.len() < most {
            let Some(class) = self.due.pop_front() else { break };
            let Some(entry) = self.entries.get_mut(&class) else { continue };
            entry.turn = Turn::Idle;
            let circuit = entry.wanted.clone().filter(|circuit| !circuit.addresses.is_empty());
            let is_own = |address: &String| self.owners.get(address) == Some(&class);
            if circuit.iter().flat_map(|circuit| &circuit.addresses).any(|one| !is_own(one)) {
                // Another circuit keeps an address: this one has to wait.
                continue;
            }
            if circuit.is_none() && entry.present == 0 {
                if entry.wanted.is_none() {
                    self.entries.remove(&class);
                }
                continue;
            }
            if circuit.is_some() && entry.applied == circuit {
                continue;
            }
            entry.turn = Turn::Asked { again: false };
            steps.push(Step { class, circuit, present: entry.present });
        }
        if steps.iter().any(|step| step.circuit.is_none()) {
            let joining = steps.extract_if(.., |step| step.circuit.is_some());
            for step in joining.collect::<Vec<_>>().into_iter().rev() {
                let entry = self.entries.get_mut(&step.class).expect("it is there");
                entry.turn = Turn::Due;
                self.due.push_front(step.class);
            }
        }
        steps
    }

    /// Hears what became of a change, in each direction.
    pub fn answer(&mut self, step: &Step, outcomes: &[Made]) {
        let Some(entry) = self.entries.get_mut(&step.class) else { return };
        for (way, outcome) in outcomes.iter().enumerate() {
            match (&step.circuit, outcome) {
                (Some(_), Ok(_)) => entry.present |= 1 << way,
                (None, Ok(_)) => entry.present &= !(1 << way),
                (_, Err(_)) => {}
            }
        }
        let refused = outcomes.iter().find_map(|outcome| outcome.as_ref().err());
        let hidden = outcomes.iter().flatten().flatten().next();
        entry.applied = step.circuit.clone().filter(|_| refused.is_none());
        let fault = refused.or(hidden).cloned();
        let has_address = entry.wanted.as_ref().is_some_and(|it| !it.addresses.is_empty());
        if fault.is_some() || has_address {
            entry.fault = fault;
        }
        let again = entry.turn == Turn::Asked { again: true };
        entry.turn = Turn::Idle;
        if again {
            self.mark(&step.class);
        } else if entry.wanted.is_none() && entry.present == 0 {
            self.entries.remove(&step.class);
        }
    }

    /// Returns whether a circuit has this address.
    pub fn knows(&self, address: &str) -> bool {
        let Ok(address) = address.parse::<IpAddr>() else { return false };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (0..=bits).any(|length| self.owners.contains_key(&block(address, length)))
    }

    /// Describes at most so many circuits, those with a fault first.
    pub fn describe(&self, now: Instant, limit: usize) -> Circuits {
        let wanted = || self.entries.iter().filter(|(_, entry)| entry.wanted.is_some());
        let (faulty, sound): (Vec<_>, Vec<_>) =
            wanted().partition(|(_, entry)| entry.fault.is_some());
        let is_done = |entry: &&Entry| entry.turn == Turn::Idle && entry.applied.is_some();
        let waits = |entry: &&Entry| entry.turn != Turn::Idle;
        let status = |(class, entry): (&String, &Entry)| CircuitStatus {
            class: class.clone(),
            circuit: entry.wanted.clone().unwrap_or_default(),
            fault: entry.fault.clone(),
            heard_s: now.saturating_duration_since(entry.heard).as_secs(),
        };
        Circuits {
            known: (faulty.len() + sound.len()) as u64,
            shaped: sound.iter().map(|(_, entry)| *entry).filter(is_done).count() as u64,
            waiting: self.entries.values().filter(waits).count() as u64,
            unshaped: faulty.len() as u64,
            expired: self.expired,
            moved: self.moved,
            shown: faulty.into_iter().chain(sound).take(limit).map(status).collect(),
            ..Circuits::default()
        }
    }

    /// Returns the circuits as they should be.
    pub fn wanted(&self) -> impl Iterator<Item = &Circuit> {
        self.entries.values().filter_map(|entry| entry.wanted.as_ref())
    }

    /// Returns the circuits that may have a class.
    pub fn sound(&self) -> impl Iterator<Item = &Circuit> {
        let sound = self.entries.values().filter(|entry| entry.fault.is_none());
        sound.filter_map(|entry| entry.wanted.as_ref())
    }

    /// Returns the circuits with a fault, and it.
    pub fn faulty(&self) -> impl Iterator<Item = (&Circuit, &str)> {
        self.entries.values().filter_map(|entry| entry.wanted.as_ref().zip(entry.fault.as_deref()))
    }

    /// Gives an address to a circuit; another one that had it has it no more.
    fn own(&mut self, address: &str, class: &str) {
        let former = self.owners.insert(address.to_owned(), class.to_owned());
        let Some(former) = former.filter(|former| former != class) else { return };
        self.moved += 1;
        let entry = self.entries.get_mut(&former).expect("an owner is a circuit");
        let circuit = entry.wanted.as_mut().expect("one that leaves owns nothing");
        circuit.addresses.retain(|own| own != address);
        if circuit.addresses.is_empty() {
            let taker = class.trim_start_matches(CIRCUIT_PREFIX);
            entry.fault = Some(format!("its address {address} went to circuit `{taker}`"));
        }
        self.mark(&former);
    }

    /// Takes a circuit's addresses away.
    fn disown(&mut self, class: &str) {
        let circuit = self.entries.get(class).and_then(|entry| entry.wanted.as_ref());
        for address in circuit.iter().flat_map(|circuit| &circuit.addresses) {
            if self.owners.get(address).is_some_and(|owner| owner == class) {
                self.owners.remove(address);
            }
        }
    }

    fn refusal(&self, circuit: &Circuit) -> Option<String> {
        ways::refusal(&self.ways, circuit)
    }

    /// Returns whether another circuit has one of its addresses.
    fn others_have(&self, circuit: &Circuit) -> bool {
        let class = circuit_class(&circuit.id);
        circuit.addresses.iter().any(|one| self.owners.get(one).is_some_and(|it| *it != class))
    }

    fn let_go(&mut self, class: &str) {
        self.disown(class);
        let Some(entry) = self.entries.get_mut(class) else { return };
        (entry.wanted, entry.fault) = (None, None);
        self.mark(class);
    }

    fn leave_if(&mut self, leaves: impl Fn(&Entry) -> bool) -> u64 {
        let is_it = |(_, entry): &(&String, &Entry)| entry.wanted.is_some() && leaves(entry);
        let gone: Vec<_> =
            self.entries.iter().filter(is_it).map(|(class, _)| class.clone()).collect();
        gone.iter().for_each(|class| self.let_go(class));
        gone.len() as u64
    }

    fn mark(&mut self, class: &str) {
        let Some(entry) = self.entries.get_mut(class) else { return };
        match &mut entry.turn {
            Turn::Due => {}
            Turn::Asked { again } => *again = true,
            turn @ Turn::Idle => {
                *turn = Turn::Due;
                self.due.push_back(class.to_owned());
            }
        }
    }
}

impl Entry {
    fn new(now: Instant) -> Self {
        let (wanted, applied, fault) = (None, None, None);
        Self { wanted, applied, present: 0, fault, heard: now, turn: Turn::Idle }
    }
}

/// Returns the network of so many bits in which an address is, as a prefix is written.
fn block(address: IpAddr, length: u32) -> String {
    let network = match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            IpAddr::from((u32::from(address) & mask).to_be_bytes())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::from((u128::from(address) & mask).to_be_bytes())
        }
    };
    format!("{network}/{length}")
}

/// Returns a circuit with its addresses in one form and order.
fn sound(mut circuit: Circuit) -> Result<Circuit, String> {
    let texts = [&circuit.id, &circuit.plan, &circuit.site];
    if let Some(text) = texts.into_iter().find(|text| text.len() > TEXT_MAX) {
        return Err(format!("`{text:.20}...` has more than {TEXT_MAX} bytes"));
    }
    let class = circuit_class(&circuit.id);
    if class == CIRCUIT_PREFIX || class.len() > NAME_MAX {
        let id = &circuit.id;
        return Err(format!("{id:?} is no name of a circuit: its class would be `{class}`"));
    }
    if circuit.addresses.len() > ADDRESSES_MAX {
        let count = circuit.addresses.len();
        return Err(format!("it has {count} addresses, and may have {ADDRESSES_MAX}"));
    }
    let mut prefixes = BTreeSet::new();
    for text in &circuit.addresses {
        let prefix = Prefix::parse(text.trim()).map_err(|why| why.to_string())?;
        if prefix.prefix_len() == 0 {
            return Err(format!("{prefix} is every address; write those of the circuit"));
        }
        prefixes.insert(prefix.to_string());
    }
    circuit.addresses = prefixes.into_iter().collect();
    Ok(circuit)
}

/// Bound: circuits of a link; a further one is refused.
pub const CIRCUITS_MAX: usize = 1 << 17;
/// Bound: addresses and networks of a circuit; one with more is refused. As many as a class that
/// joins may have rules.
const ADDRESSES_MAX: usize = 64;
/// Bound: bytes of the id, plan and site of a circuit; one with more is refused. As long as a text
/// of RADIUS.
const TEXT_MAX: usize = 253;
/// Bound: circuits with a fault that are tried again at a time; the others follow the next time.
const RETRIES_MAX: usize = 256;
/// The longest name of a class.
const NAME_MAX: usize = 64;
const NO_ADDRESS: &str = "it has no address";

#[cfg(test)]
mod tests;
