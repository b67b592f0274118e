//! Where what is found in an edited text stands in the text that the user wrote.
//!
//! Both texts are compared line by line: an edit changes few lines, and leaves the others as they
//! are. A place in a line that an edit added is that of the line before. Invariant: every finding
//! names a file that the user has, and a line of it.

use std::ops::Range;
use weir_policy::finding::{Finding, Place, Source, Span};

/// The texts with other values, each beside the one that the user wrote.
pub struct Lines(Vec<Row>);

struct Row {
    /// The file in findings.
    path: String,
    /// As the user wrote it.
    name: String,
    written: String,
    edited: String,
}

impl Lines {
    /// Takes texts: the path that findings have, the name of the file, the text that the user
    /// wrote, and the edited one.
    pub fn of(texts: impl Iterator<Item = (String, String, String, String)>) -> Self {
        let row = |(path, name, written, edited)| Row { path, name, written, edited };
        Self(texts.map(row).collect())
    }

    /// Moves what was found to the user's lines, and names the user's files.
    pub fn restore(&self, findings: &mut [Finding], sources: &mut [Source]) {
        for row in self.0.iter().filter(|row| row.path != row.name || row.written != row.edited) {
            let shown = sources.iter_mut().filter(|source| source.name() == row.path);
            let own = Source::new(row.name.clone(), row.written.clone());
            shown.for_each(|source| *source = own.clone());
            let moved = Moved::between(&row.edited, &row.written);
            let place = |place: &mut Place| {
                if place.file == row.path {
                    *place = own.locate(moved.span(place.span));
                }
            };
            for finding in findings.iter_mut() {
                place(&mut finding.place);
                finding.related.iter_mut().for_each(|related| place(&mut related.place));
                // They are edits of the other text.
                finding.fixes.clear();
                finding.message = finding.message.replace(&row.path, &row.name);
            }
        }
    }
}

/// The lines of an edited text beside those that were written.
struct Moved<'a> {
    edited: Vec<(usize, &'a str)>,
    written: Vec<(usize, &'a str)>,
    /// The written line of each edited one; `None` of a line that was added.
    origins: Vec<Option<usize>>,
}

impl<'a> Moved<'a> {
    fn between(edited: &'a str, written: &'a str) -> Self {
        let (edited, written) = (lines(edited), lines(written));
        let origins = origins(&edited, &written);
        Self { edited, written, origins }
    }

    fn span(&self, span: Span) -> Span {
        let start = self.place(span.start).start;
        let end = self.place(span.end).end.max(start);
        Span { start, end }
    }

    /// Returns the bytes that were written where this one is.
    fn place(&self, at: usize) -> Range<usize> {
        let line = self.edited.partition_point(|(start, _)| *start <= at).max(1) - 1;
        let Some(origin) = self.origins[line] else {
            let before = self.origins[..line].iter().rev().find_map(|origin| *origin);
            let (start, text) = self.written[before.unwrap_or(0)];
            return start..start + text.trim_end().len();
        };
        let ((start, now), (begin, then)) = (self.edited[line], self.written[origin]);
        let at = (at - start).min(now.len());
        let same = |(one, other): &(char, char)| one == other;
        let head: usize =
            now.chars().zip(then.chars()).take_while(same).map(|c| c.0.len_utf8()).sum();
        let tail = now[head..].chars().rev().zip(then[head..].chars().rev());
        let tail: usize = tail.take_while(same).map(|c| c.0.len_utf8()).sum();
        if at <= head {
            return begin + at..begin + at;
        }
        if at + tail >= now.len() {
            let at = begin + then.len() - (now.len() - at);
            return at..at;
        }
        begin + head..begin + then.len() - tail
    }
}

/// Returns the lines with the places where they begin, without their ends.
fn lines(text: &str) -> Vec<(usize, &str)> {
    let mut start = 0;
    let line = |whole: &'_ str| {
        start += whole.len();
        start - whole.len()
    };
    let starts: Vec<usize> = text.split_inclusive('\n').map(line).collect();
    let texts = text.split_inclusive('\n').map(|whole| whole.trim_end_matches(['\n', '\r']));
    let mut lines: Vec<_> = starts.into_iter().zip(texts).collect();
    if lines.is_empty() || text.ends_with('\n') {
        // A finding about a missing key stands at the end of the text.
        lines.push((text.len(), ""));
    }
    lines
}

fn origins(edited: &[(usize, &str)], written: &[(usize, &str)]) -> Vec<Option<usize>> {
    let mut origins = Vec::with_capacity(edited.len());
    let (mut now, mut then) = (0, 0);
    while now < edited.len() {
        if written.get(then).is_some_and(|line| line.1 == edited[now].1) {
            origins.push(Some(then));
            (now, then) = (now + 1, then + 1);
            continue;
        }
        let (added, gone) = meeting(&edited[now..], written.get(then..).unwrap_or(&[]));
        origins.extend((0..added).map(|line| (line < gone).then_some(then + line)));
        (now, then) = (now + added, then + gone);
    }
    origins
}

/// Returns how many lines of both texts differ, up to where they are the same again.
fn meeting(edited: &[(usize, &str)], written: &[(usize, &str)]) -> (usize, usize) {
    let same = |now: usize, then: usize| match (edited.get(now), written.get(then)) {
        (Some(now), Some(then)) => now.1 == then.1,
        (now, then) => now.is_none() && then.is_none(),
    };
    // An empty line alone is no meeting.
    let meets = |now: usize, then: usize| same(now, then) && same(now + 1, then + 1);
    let pairs = (1..=LOOK_MAX).flat_map(|sum| (0..=sum).map(move |now| (now, sum - now)));
    let reach = |(now, then): &(usize, usize)| *now <= edited.len() && *then <= written.len();
    pairs
        .filter(reach)
        .find(|(now, then)| meets(*now, *then))
        .unwrap_or((edited.len(), written.len()))
}

/// How many lines of both texts are compared in search of where they are the same again.
const LOOK_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "a = 1\n\n[b] # of b\nc = \"1 ms\"  # c\n\n[d]\ne = 2\n";

    /// Checks that `found` in the edited text is at a line and a column of the one that was
    /// written.
    fn check(edited: &str, found: &str, place: (usize, usize), text: &str) {
        let at = edited.find(found).expect("it is there");
        let own = Source::new("f.toml", WRITTEN);
        let span = Span { start: at, end: at + found.len() };
        let span = Moved::between(edited, WRITTEN).span(span);
        let told = own.locate(span);
        assert_eq!((told.line, told.column), place, "{found}");
        assert_eq!(&WRITTEN[span.start..span.end], text, "{found}");
    }

    #[test]
    fn what_is_found_is_at_the_users_line() {
        let longer = WRITTEN.replace("1 ms", "25 ms");
        check(&longer, "\"25 ms\"", (4, 5), "\"1 ms\"");
        check(&longer, "e = 2", (7, 1), "e = 2");
        let added = WRITTEN.replace("c = ", "x = 9\ny = [\n]\nc = ");
        check(&added, "x = 9", (3, 1), "[b] # of b");
        check(&added, "\"1 ms\"", (4, 5), "\"1 ms\"");
        check(&added, "e = 2", (7, 1), "e = 2");
        let gone = WRITTEN.replace("c = \"1 ms\"  # c\n", "");
        check(&gone, "e = 2", (7, 1), "e = 2");
        check(&format!("{WRITTEN}\n[new]\nz = 1\n"), "z = 1", (8, 1), "");
    }
}
