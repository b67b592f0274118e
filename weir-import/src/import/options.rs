//! The words of a statement as rows of a table: what follows each word, and what it does.

use super::lines::{LineId, Reading};
use super::words::{Words, number, within};

/// The words that a statement about a `T` may have at one place.
pub(super) struct Table<T: 'static> {
    /// Such a word in messages.
    pub noun: &'static str,
    /// Several tables may have a list of rows.
    pub lists: &'static [&'static [Row<T>]],
}

/// One word, or several with a blank between, and what each does.
pub(super) type Row<T> = (&'static str, Effect<T>);

/// The name of a kind of numbers in messages, and their parser.
pub(super) type Kind = (&'static str, fn(&str) -> Option<u64>);

/// How what follows a word is read, and where it goes.
pub(super) enum Effect<T> {
    /// It stands alone.
    Flag(fn(&mut T)),
    /// A number follows.
    Number(Kind, fn(&mut T, u64)),
    /// The function takes what follows.
    Read(Take<T>),
    /// The policy says nothing of it; a number may follow. The text goes behind the word.
    LeftOut(Option<Kind>, &'static str),
}

/// Takes what follows the word that was taken last.
pub(super) type Take<T> = fn(&mut T, &mut Words, &mut Reading) -> Option<()>;

impl<T> Table<T> {
    /// Takes the next word and what follows it; `line` is the statement.
    pub(super) fn take(
        &self,
        target: &mut T,
        line: LineId,
        words: &mut Words,
        reading: &mut Reading,
    ) -> Option<()> {
        let word = words.need(self.noun, reading)?;
        let mut rows = self.lists.iter().copied().flatten();
        let row = rows.find(|row| row.0.split(' ').any(|one| one == word.text));
        let Some((_, effect)) = row else {
            reading.unknown((&word.text, word.span), self.noun, &self.words());
            return None;
        };
        match effect {
            Effect::Flag(set) => set(target),
            Effect::Number((what, parse), set) => {
                set(target, words.value(what, parse, reading)?);
            }
            Effect::Read(read) => read(target, words, reading)?,
            Effect::LeftOut(kind, why) => {
                if let Some((what, parse)) = kind {
                    words.value(what, parse, reading)?;
                }
                reading.approximated(line, format!("`{}` {why}", word.text));
            }
        }
        Some(())
    }

    /// Takes all words that are left.
    pub(super) fn take_all(
        &self,
        target: &mut T,
        line: LineId,
        words: &mut Words,
        reading: &mut Reading,
    ) -> Option<()> {
        while words.peek().is_some() {
            self.take(target, line, words, reading)?;
        }
        Some(())
    }

    /// Returns all words.
    pub(super) fn words(&self) -> Vec<&'static str> {
        self.lists.iter().copied().flatten().flat_map(|row| row.0.split(' ')).collect()
    }
}

pub(super) const A_NUMBER: Kind = ("a number", number);
pub(super) const A_PRIORITY: Kind = ("a priority from 0 to 15, or to 7 with cbq", within::<0, 15>);
