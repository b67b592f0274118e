//! The policies that a link had: each change with its number, instant, user, reason and texts.
//!
//! Keeper and forwarder each keep one: the forwarder makes the changes, and the keeper outlives it.
//! Invariant: the last entry is the policy in force; numbers ascend by one; there are at most
//! [`ENTRIES_MAX`] entries, and their texts have at most [`TEXTS_MAX`] bytes, but that the last
//! entry always has its texts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bound: changes that the history of a link keeps; the oldest goes.
pub const ENTRIES_MAX: usize = 100;
/// Bound: bytes of texts that the history keeps; those of older changes are forgotten.
pub const TEXTS_MAX: usize = 32 << 20;
/// Bound: the time for which the requests of one user that let classes join and leave share an
/// entry of the history; then another begins.
pub const FLOOD_TIME: Duration = Duration::from_secs(60);
/// Bound: classes that joined one policy whose texts the history has; those of further ones are not
/// kept.
pub const ADDED_MAX: usize = 1 << 17;
/// Bound: bytes of name and table of a class that joined; a longer text is not kept.
pub const TABLE_MAX: usize = 4096;
/// The most bytes of a reason.
pub const REASON_MAX: usize = 500;

/// A deployment with every file that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Texts {
    /// The deployment, under the name by which findings call it.
    pub deployment: File,
    /// The files that it names, under the paths by which it reads them.
    pub files: Vec<File>,
    /// The tables of classes that joined while the link ran: by the path of their policy, then by
    /// the name of the class. All states of a link share them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub added: BTreeMap<String, BTreeMap<String, Arc<str>>>,
}

/// Classes that joined, were retuned, or left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// The path of their policy.
    pub file: String,
    /// The names of classes that left.
    pub removed: Vec<String>,
    /// The names of classes that joined or were retuned, each with its table.
    pub tables: Vec<(String, Arc<str>)>,
    /// How many joined, were retuned, and left.
    pub counts: Counts,
}

/// How many classes did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Classes that joined.
    pub added: u64,
    /// Classes that got other values.
    pub retuned: u64,
    /// Classes that left.
    pub removed: u64,
}

/// A file as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct File {
    /// Its name or path.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// A change of the policies of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Its number, from 1.
    pub number: u64,
    /// When it came into force, in nanoseconds of CLOCK_REALTIME.
    pub at_ns: u64,
    /// The user who asked for it; `None` if none did, or the kernel does not tell.
    pub user: Option<u32>,
    /// The command or the cause of the change.
    pub origin: Origin,
    /// Why, in the words of that user.
    pub reason: String,
    /// A line that names the differences.
    pub what: String,
    /// Of classes that joined and left one by one: how many, in all requests that the entry stands
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The change is undone unless it is confirmed, or unless guards hold.
    #[serde(default)]
    pub on_trial: bool,
    /// The texts that were in force after it; `None` if they were forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<Texts>,
}

/// The command or the cause of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// `weir up` or `weir restart`: the files were read.
    #[default]
    Start,
    /// `weir set`: values were changed.
    Set,
    /// `weir reload`, or SIGHUP.
    Reload,
    /// `weir rollback`: an earlier change was undone.
    Rollback,
    /// `weir class`: classes joined or left.
    Class,
    /// A change on trial was not confirmed, broke a guard, or ended with its process.
    Returned,
}

/// The last changes of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    entries: VecDeque<Entry>,
    last: u64,
    /// The contents of the files when they were read last, and the time before; however many
    /// changes there were since.
    #[serde(default)]
    read: [Option<Identity>; 2],
}

/// SHA-256 of the files of a deployment, without the classes that joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity([u8; 32]);

impl Texts {
    /// Returns the text of a file that the deployment names, with the tables of classes that
    /// joined.
    pub fn file(&self, name: &str) -> Option<String> {
        let file = self.files.iter().find(|file| file.name == name)?;
        Some(self.whole(file))
    }

    /// Returns the files with the tables of classes that joined.
    pub fn whole_files(&self) -> Vec<File> {
        let whole = |file: &File| File { name: file.name.clone(), text: self.whole(file) };
        self.files.iter().map(whole).collect()
    }

    fn whole(&self, file: &File) -> String {
        let mut text = file.text.clone();
        for table in self.added.get(&file.name).into_iter().flat_map(BTreeMap::values) {
            text.push('\n');
            text.push_str(table);
        }
        text
    }

    /// Does what classes did, without a look at the text of any other.
    pub fn follow(&mut self, joined: &Joined) {
        let added = self.added.entry(joined.file.clone()).or_default();
        for name in &joined.removed {
            added.remove(name);
        }
        for (name, table) in &joined.tables {
            // A link refuses what is beyond; so what a forwarder says stays bounded.
            let has_room = added.len() < ADDED_MAX || added.contains_key(name);
            if has_room && name.len() + table.len() <= TABLE_MAX {
                added.insert(name.clone(), Arc::clone(table));
            }
        }
        if added.is_empty() {
            self.added.remove(&joined.file);
        }
    }

    fn identity(&self) -> Identity {
        let mut sum = Sha256::new();
        let mut files: Vec<_> = self.files.iter().collect();
        // They are read in the order in which the deployment names them, which is no part of them.
        files.sort_by_key(|file| &file.name);
        for file in [&self.deployment].into_iter().chain(files) {
            for text in [&file.name, &file.text] {
                sum.update((text.len() as u64).to_le_bytes());
                sum.update(text);
            }
        }
        Identity(sum.finalize().into())
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        let files = self.files.iter().chain([&self.deployment]).map(|file| file.text.len());
        let added = self.added.values().flatten().map(|(name, table)| name.len() + table.len());
        files.chain(added).sum()
    }
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            added: self.added.saturating_add(other.added),
            retuned: self.retuned.saturating_add(other.retuned),
            removed: self.removed.saturating_add(other.removed),
        }
    }

    /// Returns them in a line.
    pub fn line(self) -> String {
        let parts = [("added", self.added), ("retuned", self.retuned), ("removed", self.removed)];
        let some = parts.into_iter().filter(|part| part.1 > 0);
        let texts: Vec<_> = some.map(|(what, count)| format!("{count} {what}")).collect();
        format!("classes: {}", if texts.is_empty() { "none".to_owned() } else { texts.join(", ") })
    }
}

impl Origin {
    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Set => "set",
            Self::Reload => "reload",
            Self::Rollback => "rollback",
            Self::Class => "class",
            Self::Returned => "returned",
        }
    }

    /// Returns whether the files were read then.
    fn is_read(self) -> bool {
        matches!(self, Self::Start | Self::Reload)
    }
}

impl History {
    /// Returns the entries, the oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the entries, to make their texts fit to print.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    /// Returns what is in force.
    pub fn last(&self) -> Option<&Entry> {
        self.entries.back()
    }

    /// Returns the number that the next change gets.
    pub fn next_number(&self) -> u64 {
        self.last + 1
    }

    /// Returns a change by its number.
    pub fn entry(&self, number: u64) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.number == number)
    }

    /// Adds a change, which gets the next number; returns that.
    pub fn push(&mut self, entry: Entry) -> u64 {
        self.last += 1;
        if entry.origin.is_read() {
            self.read = [entry.texts.as_ref().map(Texts::identity), self.read[0]];
        }
        // A change is on trial only while it is the last one.
        self.confirm();
        let mut reason = entry.reason;
        reason.truncate(reason.floor_char_boundary(REASON_MAX));
        self.entries.push_back(Entry { number: self.last, reason, ..entry });
        if self.entries.len() > ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.forget_texts();
        self.last
    }

    /// Adds what classes did, which is in force; returns the number of its entry. Requests of one
    /// user for one reason share an entry for [`FLOOD_TIME`], so that a flood of them fills neither
    /// the history nor its memory.
    pub fn push_joined(&mut self, joined: &Joined, made: Entry) -> u64 {
        let is_same = |last: &&mut Entry| {
            let young = made.at_ns.saturating_sub(last.at_ns) < FLOOD_TIME.as_nanos() as u64;
            let alike = (last.origin, last.user) == (made.origin, made.user);
            young && alike && !last.on_trial && last.reason == made.reason
        };
        if let Some(last) = self.entries.back_mut().filter(is_same) {
            let counts = last.counts.unwrap_or_default().plus(joined.counts);
            (last.what, last.counts) = (counts.line(), Some(counts));
            if let Some(texts) = &mut last.texts {
                texts.follow(joined);
            }
            return last.number;
        }
        let mut texts = self.last().and_then(|last| last.texts.clone());
        if let Some(texts) = &mut texts {
            texts.follow(joined);
        }
        let (what, counts) = (joined.counts.line(), Some(joined.counts));
        self.push(Entry { texts, what, counts, ..made })
    }

    /// Takes back the change that was added last.
    pub fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_back()?;
        self.last -= 1;
        if entry.origin.is_read() {
            self.read = [self.read[1], None];
        }
        Some(entry)
    }

    /// Notes that the last change stays; returns whether it was on trial.
    pub fn confirm(&mut self) -> bool {
        let last = self.entries.back_mut();
        last.is_some_and(|last| std::mem::take(&mut last.on_trial))
    }

    /// Returns what was in force before the last change that still stands: a change that was
    /// undone, or did not pass its trial, does not.
    pub fn before_standing(&self) -> Option<&Entry> {
        let mut standing: Vec<&Entry> = Vec::new();
        for entry in &self.entries {
            let returns = matches!(entry.origin, Origin::Rollback | Origin::Returned);
            let is_same = |other: &&Entry| other.texts.is_some() && other.texts == entry.texts;
            match standing.iter().rposition(is_same).filter(|_| returns) {
                Some(place) => standing.truncate(place + 1),
                None => standing.push(entry),
            }
        }
        standing.into_iter().rev().nth(1)
    }

    /// Returns what was in force before the last change, if that is known.
    fn before_last(&self) -> Option<&Entry> {
        self.entries.iter().rev().nth(1)
    }

    /// The process that forwarded died. A change on trial goes with it; returns whether one was.
    pub fn give_up_trial(&mut self, at_ns: u64, why: &str) -> bool {
        let on_trial = self.last().is_some_and(|last| last.on_trial);
        let Some(before) = self.before_last().filter(|_| on_trial) else { return false };
        let what = format!("as after change {}", before.number);
        let returned = Entry {
            at_ns,
            user: None,
            origin: Origin::Returned,
            reason: why.to_owned(),
            what,
            ..before.clone()
        };
        self.confirm();
        self.push(returned);
        true
    }

    /// Returns the entries without their texts.
    pub fn reported(&self) -> Vec<Entry> {
        let without = |entry: &Entry| Entry {
            texts: None,
            number: entry.number,
            at_ns: entry.at_ns,
            user: entry.user,
            origin: entry.origin,
            reason: entry.reason.clone(),
            what: entry.what.clone(),
            counts: entry.counts,
            on_trial: entry.on_trial,
        };
        self.entries.iter().map(without).collect()
    }

    /// Returns the numbers of the changes by `weir set` that files do not have: reading those
    /// replaces them.
    pub fn set_since_files(&self) -> Vec<u64> {
        set_since_files(self.entries.iter().rev())
    }

    /// Returns whether the files contain `texts` as they did when they were read last, so that
    /// changes since then still hold.
    pub fn goes_on_from(&self, texts: &Texts) -> bool {
        self.read[0] == Some(texts.identity())
    }

    /// Forgets the texts of the oldest entries beyond the bound.
    fn forget_texts(&mut self) {
        let mut left = TEXTS_MAX;
        let mut entries = self.entries.iter_mut().rev();
        if let Some(texts) = entries.next().and_then(|last| last.texts.as_ref()) {
            left = left.saturating_sub(texts.bytes());
        }
        for entry in entries {
            let bytes = entry.texts.as_ref().map_or(0, Texts::bytes);
            if bytes > left {
                (entry.texts, left) = (None, 0);
            } else {
                left -= bytes;
            }
        }
    }
}

/// As [`History::set_since_files`], of entries with the latest first.
pub fn set_since_files<'a>(latest_first: impl Iterator<Item = &'a Entry>) -> Vec<u64> {
    let since = latest_first.take_while(|entry| !entry.origin.is_read());
    let set = since.filter(|entry| entry.origin == Origin::Set);
    let mut numbers: Vec<_> = set.map(|entry| entry.number).collect();
    numbers.reverse();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_hold_as_long_as_the_files_are_as_they_were_read() {
        let texts = |text: &str| {
            let deployment = File { name: "d".to_owned(), text: text.to_owned() };
            Texts { deployment, ..Texts::default() }
        };
        let mut history = History::default();
        assert!(!history.goes_on_from(&texts("a")), "nothing was read");
        for (origin, text) in [(Origin::Start, "a"), (Origin::Set, "b"), (Origin::Returned, "c")] {
            history.push(Entry { origin, texts: Some(texts(text)), ..Entry::default() });
        }
        assert!(history.goes_on_from(&texts("a")) && !history.goes_on_from(&texts("b")));
        history.push(Entry { origin: Origin::Reload, ..Entry::default() });
        assert!(!history.goes_on_from(&texts("a")), "what was read last is not known");
        history.pop();
        assert!(history.goes_on_from(&texts("a")), "the reload is taken back");
        // More changes than are kept.
        for number in 0..5 * ENTRIES_MAX {
            let texts = Some(texts(&number.to_string()));
            history.push(Entry { origin: Origin::Set, texts, ..Entry::default() });
        }
        assert!(history.goes_on_from(&texts("a")) && !history.goes_on_from(&texts("1")));
        let sent = serde_json::to_string(&history).expect("it is text");
        let taken: History = serde_json::from_str(&sent).expect("it is a history");
        assert!(taken.goes_on_from(&texts("a")), "by another process");
    }

    fn entry(bytes: usize, on_trial: bool) -> Entry {
        let deployment = File { name: "d".to_owned(), text: "x".repeat(bytes) };
        let texts = Some(Texts { deployment, ..Texts::default() });
        Entry { texts, on_trial, ..Entry::default() }
    }

    /// Adds changes with texts of these lengths; checks which entries remain, and of which of them
    /// the texts.
    fn check(lengths: &[usize], count: usize, first_with_texts: u64) {
        let mut history = History::default();
        for (index, bytes) in lengths.iter().enumerate() {
            assert_eq!(history.push(entry(*bytes, false)), index as u64 + 1);
        }
        let last = lengths.len() as u64;
        assert_eq!(history.entries().count(), count);
        let numbers: Vec<_> = history.entries().map(|entry| entry.number).collect();
        assert_eq!(numbers, (last + 1 - count as u64..=last).collect::<Vec<_>>());
        for entry in history.entries() {
            assert_eq!(entry.texts.is_some(), entry.number >= first_with_texts, "{}", entry.number);
        }
    }

    #[test]
    fn the_last_changes_are_kept_and_the_texts_of_the_latest() {
        check(&[1, 1, 1], 3, 1);
        check(&[1; 120], ENTRIES_MAX, 21);
        check(&[TEXTS_MAX / 2, TEXTS_MAX / 2, 1], 3, 2);
        // The last is kept however long it is, and then no other.
        check(&[1, TEXTS_MAX, TEXTS_MAX + 1], 3, 3);
        // A gap is never followed by older texts.
        check(&[1, TEXTS_MAX, 1], 3, 3);
    }

    #[test]
    fn what_was_undone_is_not_undone_again() {
        use Origin::{Returned, Rollback, Set, Start};
        let check = |changes: &[(Origin, usize)], before: Option<usize>| {
            let mut history = History::default();
            for (origin, bytes) in changes {
                history.push(Entry { origin: *origin, ..entry(*bytes, false) });
            }
            let bytes = history.before_standing().and_then(|entry| entry.texts.as_ref());
            assert_eq!(bytes.map(Texts::bytes), before, "{changes:?}");
        };
        check(&[(Start, 5)], None);
        check(&[(Start, 5), (Set, 6)], Some(5));
        check(&[(Start, 5), (Set, 6), (Set, 7), (Rollback, 6)], Some(5));
        check(&[(Start, 5), (Set, 6), (Rollback, 5)], None);
        check(&[(Start, 5), (Set, 6), (Returned, 5)], None);
        check(&[(Start, 5), (Set, 6), (Set, 7), (Returned, 6)], Some(5));
        // To where it was undone from, by its number.
        check(&[(Start, 5), (Set, 6), (Set, 7), (Rollback, 5), (Rollback, 7)], Some(5));
        check(&[(Start, 5), (Set, 6), (Set, 5), (Rollback, 6)], Some(5));
    }

    #[test]
    fn a_change_on_trial_goes_with_its_process() {
        for (on_trial, returned) in [(true, true), (false, false)] {
            let mut history = History::default();
            history.push(entry(5, false));
            history.push(entry(7, on_trial));
            assert_eq!(history.give_up_trial(9, "it died"), returned);
            let last = history.last().expect("there is one");
            let bytes = last.texts.as_ref().map(Texts::bytes);
            assert_eq!((bytes, last.on_trial), (Some(if returned { 5 } else { 7 }), false));
            assert!(!history.give_up_trial(9, "again"), "once");
        }
    }

    #[test]
    fn a_confirmed_change_stays() {
        let mut history = History::default();
        history.push(entry(5, false));
        history.push(entry(7, true));
        assert!(history.confirm() && !history.confirm());
        assert!(!history.give_up_trial(9, "it died"));
    }

    #[test]
    fn a_flood_of_classes_shares_an_entry_a_minute() {
        let mut history = History::default();
        history.push(entry(5, false));
        let joined = |name: usize| Joined {
            file: "p".to_owned(),
            removed: if name < 2 { Vec::new() } else { vec![(name - 2).to_string()] },
            tables: vec![(name.to_string(), format!("table {name}").into())],
            counts: Counts { added: 1, retuned: 0, removed: u64::from(name >= 2) },
        };
        for name in 0..1_000 {
            // Two hundred milliseconds each.
            let at_ns = name as u64 * 200_000_000;
            let made = Entry { at_ns, origin: Origin::Class, ..Entry::default() };
            history.push_joined(&joined(name), made);
        }
        let reported: Vec<_> = history.reported().into_iter().map(|entry| entry.what).collect();
        let full = "classes: 300 added, 300 removed".to_owned();
        let first = "classes: 300 added, 298 removed".to_owned();
        let last = "classes: 100 added, 100 removed".to_owned();
        assert_eq!(reported, ["".to_owned(), first, full.clone(), full, last]);
        let texts = history.last().and_then(|last| last.texts.clone()).expect("they are kept");
        let names: Vec<_> = texts.added["p"].keys().cloned().collect();
        assert_eq!(names, ["998", "999"]);
        // Another reason is another entry.
        let made = Entry { origin: Origin::Class, reason: "x".to_owned(), ..Entry::default() };
        assert_eq!(history.push_joined(&joined(1_000), made), 6);
    }
}
