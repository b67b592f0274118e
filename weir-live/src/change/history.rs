//! The policies that a link had: each change with its number, instant, user, reason and texts.
//!
//! Keeper and forwarder each keep one: the forwarder makes the changes, and the keeper outlives it.
//! Invariant: the last entry is the policy in force; numbers ascend by one; there are at most
//! [`ENTRIES_MAX`] entries, and their texts have at most [`TEXTS_MAX`] bytes, but that the last
//! entry always has its texts.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most changes that are kept.
pub const ENTRIES_MAX: usize = 100;
/// The most bytes of texts that are kept; the texts of older changes are forgotten.
pub const TEXTS_MAX: usize = 32 << 20;
/// The most bytes of a reason.
pub const REASON_MAX: usize = 500;

/// A deployment with every file that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Texts {
    /// The deployment, under the name by which findings call it.
    pub deployment: File,
    /// The files that it names, under the paths by which it reads them.
    pub files: Vec<File>,
}

/// A file as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct File {
    /// Its name or path.
    pub name: String,
    /// What it contains.
    pub text: String,
}

/// A change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Its number, from 1.
    pub number: u64,
    /// When it came into force, in nanoseconds of CLOCK_REALTIME.
    pub at_ns: u64,
    /// The user who asked for it; `None` if none did, or the kernel does not tell.
    pub user: Option<u32>,
    /// What made it.
    pub origin: Origin,
    /// Why, in the words of that user.
    pub reason: String,
    /// What changed, in a line.
    pub what: String,
    /// Whether it goes unless it is confirmed, or unless guards hold.
    #[serde(default)]
    pub on_trial: bool,
    /// What the link runs since; `None` if it was forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<Texts>,
}

/// What made a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// `weir up` or `weir restart`: the files were read.
    #[default]
    Start,
    /// `weir set`.
    Set,
    /// `weir reload`, or SIGHUP.
    Reload,
    /// `weir rollback`.
    Rollback,
    /// A change on trial was not confirmed, broke a guard, or ended with its process.
    Returned,
}

/// The last changes of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    entries: VecDeque<Entry>,
    last: u64,
}

impl Texts {
    /// Returns the text of a file that the deployment names.
    pub fn file(&self, name: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.name == name)?;
        Some(&file.text)
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.files.iter().chain([&self.deployment]).map(|file| file.text.len()).sum()
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
            Self::Returned => "returned",
        }
    }
}

impl History {
    /// Returns the entries, the oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
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

    /// Takes back the change that was added last.
    pub fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_back()?;
        self.last -= 1;
        Some(entry)
    }

    /// Notes that the last change stays; returns whether it was on trial.
    pub fn confirm(&mut self) -> bool {
        let last = self.entries.back_mut();
        last.is_some_and(|last| std::mem::take(&mut last.on_trial))
    }

    /// Returns what was in force before the last change, if that is known.
    pub fn before_last(&self) -> Option<&Entry> {
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
    pub fn told(&self) -> Vec<Entry> {
        let without = |entry: &Entry| Entry {
            texts: None,
            number: entry.number,
            at_ns: entry.at_ns,
            user: entry.user,
            origin: entry.origin,
            reason: entry.reason.clone(),
            what: entry.what.clone(),
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
        let is_read = |entry: &&Entry| matches!(entry.origin, Origin::Start | Origin::Reload);
        let read = self.entries.iter().rev().find(is_read);
        read.is_some_and(|read| read.texts.as_ref() == Some(texts))
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
    let is_read = |entry: &&Entry| matches!(entry.origin, Origin::Start | Origin::Reload);
    let since = latest_first.take_while(|entry| !is_read(entry));
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
            Texts { deployment, files: Vec::new() }
        };
        let mut history = History::default();
        assert!(!history.goes_on_from(&texts("a")), "nothing was read");
        for (origin, text) in [(Origin::Start, "a"), (Origin::Set, "b"), (Origin::Returned, "c")] {
            history.push(Entry { origin, texts: Some(texts(text)), ..Entry::default() });
        }
        assert!(history.goes_on_from(&texts("a")) && !history.goes_on_from(&texts("b")));
        history.push(Entry { origin: Origin::Reload, ..Entry::default() });
        assert!(!history.goes_on_from(&texts("a")), "what was read last is not known");
    }

    fn entry(bytes: usize, on_trial: bool) -> Entry {
        let deployment = File { name: "d".to_owned(), text: "x".repeat(bytes) };
        let texts = Some(Texts { deployment, files: Vec::new() });
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
}
