//! Reads lines of a feed, and the rows of a file of circuits.

use super::table::Table;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use weir_control::circuits::{Circuit, Fed, FeedLine};
use weir_policy::csv::Records;

/// Follows the lines of a feed, each as far as it can be; with `whole`, circuits that are not among
/// them leave.
pub fn follow(table: &mut Table, now: Instant, text: &str, whole: bool) -> Fed {
    let mut fed = Fed::default();
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let outcome = match serde_json::from_str::<FeedLine>(line) {
            Ok(FeedLine::Join(circuit)) if whole => {
                all.push((number, circuit));
                continue;
            }
            Ok(FeedLine::Join(circuit)) => table.join(now, circuit),
            Ok(FeedLine::Leave(_)) if whole => Err(LEAVES.to_owned()),
            Ok(FeedLine::Leave(id)) if table.leave(&id, None) => Ok(()),
            Ok(FeedLine::Leave(id)) => Err(format!("there is no circuit `{id}`")),
            Err(error) => Err(in_line(&error)),
        };
        count(&mut fed, number, outcome);
    }
    if whole && all.is_empty() {
        // It may be one that was cut off, or of other things.
        count(&mut fed, 0, Err(NONE.to_owned()));
    } else if whole {
        let (numbers, circuits): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let faults: BTreeMap<_, _> = table.replace(now, circuits).into_iter().collect();
        if faults.len() == numbers.len() {
            count(&mut fed, 0, Err(NONE.to_owned()));
        }
        for (place, number) in numbers.into_iter().enumerate() {
            count(&mut fed, number, faults.get(&place).cloned().map_or(Ok(()), Err));
        }
    }
    fed
}

/// Has the table follow a CSV file with all circuits; returns why not, or which rows it cannot
/// follow. Rows of one id are one circuit with the addresses of all.
pub fn follow_file(table: &mut Table, now: Instant, text: &str) -> Vec<String> {
    let (rows, mut faults) = match rows(text, &table.columns()) {
        Ok(read) => read,
        // A list that cannot be used ends no circuit.
        Err(why) => return vec![why],
    };
    let (lines, circuits): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let refused = table.replace(now, circuits);
    let is_none = refused.len() == lines.len();
    for (place, why) in refused {
        note(&mut faults, lines[place], &why);
    }
    if is_none {
        return vec![no_list(&faults)];
    }
    faults
}

/// Says that a file has no row that can be read.
fn no_list(faults: &[String]) -> String {
    let why = faults.first().map_or("it has no row", String::as_str);
    format!("no circuit can be read of the file, {why}: circuits stay")
}

/// Returns what is wrong with a line of a feed, whose number is told beside it.
fn in_line(error: &serde_json::Error) -> String {
    let (text, place) = (error.to_string(), format!(" at line {}", error.line()));
    let what = text.rsplit_once(&place).map_or(text.as_str(), |(what, _)| what);
    format!("{what}, at column {}", error.column())
}

type Rows = Vec<(usize, Circuit)>;

/// Returns the circuits of a CSV file, each with the number of its first line, and what is wrong
/// with others; templates name these columns.
fn rows(text: &str, columns: &BTreeSet<&str>) -> Result<(Rows, Vec<String>), String> {
    let mut records = Records::new(text);
    let header = records.next().ok_or("the file has no header; write `id,addresses,plan,site`")?;
    let header = header.map_err(|fault| fault.message.into_owned())?.cells;
    let column = |name: &str| header.iter().position(|(cell, _)| cell == name);
    let needed = ["id", "addresses"].into_iter().chain(columns.iter().copied());
    let lacks: BTreeSet<_> = needed.filter(|name| column(name).is_none()).collect();
    let (Some(id), Some(addresses), true) = (column("id"), column("addresses"), lacks.is_empty())
    else {
        let names: Vec<_> = lacks.iter().map(|name| format!("`{name}`")).collect();
        return Err(format!("the header lacks {}: circuits stay", names.join(", ")));
    };
    let (plan, site) = (column("plan"), column("site"));
    let (mut rows, mut faults) = (Rows::new(), Vec::new());
    let mut known = BTreeMap::new();
    let mut lines = Lines { text, at: 0, number: 1 };
    for record in records {
        let (number, cells) = match record {
            Ok(record) if record.cells.len() >= header.len() => {
                (lines.at(record.span.start), record.cells)
            }
            Ok(record) => {
                let (count, wanted) = (record.cells.len(), header.len());
                let why = format!("it has {count} cells, and the header {wanted}");
                note(&mut faults, lines.at(record.span.start), &why);
                continue;
            }
            // Rows behind it may be part of it.
            Err(fault) => {
                let number = lines.at(fault.span.start);
                return Err(format!("line {number}: {}: circuits stay", fault.message));
            }
        };
        let text =
            |column: Option<usize>| column.map_or(Cow::Borrowed(""), |at| cells[at].0.clone());
        let own = text(Some(addresses));
        let own = own.split([',', ';', ' ']).filter(|one| !one.is_empty()).map(str::to_owned);
        let (plan, site) = (text(plan).into_owned(), text(site).into_owned());
        let id = text(Some(id)).into_owned();
        let place = *known.entry(id.clone()).or_insert(rows.len());
        if place == rows.len() {
            rows.push((number, Circuit { id, plan, site, ..Circuit::default() }));
        } else if (&rows[place].1.plan, &rows[place].1.site) != (&plan, &site) {
            note(&mut faults, number, &format!("circuit `{id}` has another plan or site before"));
            continue;
        }
        rows[place].1.addresses.extend(own);
    }
    if rows.is_empty() {
        return Err(no_list(&faults));
    }
    Ok((rows, faults))
}

/// Counts the lines of a text in front of places that grow.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    number: usize,
}

impl Lines<'_> {
    /// Returns the number of the line in which a place is.
    fn at(&mut self, place: usize) -> usize {
        let skipped = self.text.as_bytes().get(self.at..place).unwrap_or_default();
        self.number += skipped.iter().filter(|byte| **byte == b'\n').count();
        self.at = place.max(self.at);
        self.number
    }
}

/// Counts a line of a feed.
fn count(fed: &mut Fed, line: u64, outcome: Result<(), String>) {
    let Err(why) = outcome else {
        fed.taken += 1;
        return;
    };
    fed.refused += 1;
    if fed.faults.len() < FAULTS_MAX {
        fed.faults.push((line, why));
    }
}

fn note(faults: &mut Vec<String>, line: usize, why: &str) {
    if faults.len() < FAULTS_MAX {
        faults.push(format!("line {line}: {why}"));
    }
}

/// Reads any bytes as a feed and as a file, for a fuzz target.
///
/// # Panics
/// When a table breaks its promises.
pub fn exercise(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (mut table, now) = (Table::default(), Instant::now());
    let turn = |table: &mut Table| {
        for step in table.take(8) {
            table.answer(&step, &[Ok(None), Err("no room".to_owned())]);
        }
        table.retry();
        let described = table.describe(now, usize::MAX);
        assert_eq!(described.known, described.shown.len() as u64, "each circuit is described");
    };
    for whole in [false, true] {
        let fed = follow(&mut table, now, text, whole);
        assert!(fed.faults.len() as u64 <= fed.refused, "a fault is counted");
        turn(&mut table);
    }
    follow_file(&mut table, now, text);
    turn(&mut table);
}

/// Bound: faults of a feed or a file that are told; further ones are counted or left out.
const FAULTS_MAX: usize = 100;
/// Of a whole list: it ends no circuit.
const NONE: &str = "no line names a circuit that joins: circuits stay";
const LEAVES: &str = "with `whole`, circuits leave that are not named; leave this line out";

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(table: &Table) -> String {
        let shown = table.describe(Instant::now(), 99).shown;
        let one = |one: &weir_control::circuits::CircuitStatus| {
            format!("{}:{}", one.circuit.id, one.circuit.addresses.join("+"))
        };
        shown.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_line_of_a_feed_stands_for_itself() {
        let join = |id: &str, address: &str| {
            format!(r#"{{"join":{{"id":"{id}","addresses":["{address}"],"plan":"gold"}}}}"#)
        };
        let (mut table, now) = (Table::default(), Instant::now());
        let text = format!(
            "{}\n\n{}\n{{\"leave\":\"c\"}}\n{{\"join\":{{\"name\":\"d\"}}}}\nno\n{}\n",
            join("a", "192.0.2.1"),
            join("b", "192.0.2.2"),
            join("e", "192.0.2")
        );
        let fed = follow(&mut table, now, &text, false);
        let lines: Vec<_> = fed.faults.iter().map(|(line, _)| *line).collect();
        assert_eq!((fed.taken, fed.refused, lines), (2, 4, vec![4, 5, 6, 7]), "{fed:?}");
        assert_eq!(ids(&table), "a:192.0.2.1/32 b:192.0.2.2/32");
        let one = "{\"join\":{\"id\":\"a\",\"addresses\":\"192.0.2.1\"}}";
        let why = &follow(&mut table, now, &format!("\n{one}"), false).faults[0];
        assert!(why.0 == 2 && why.1.contains("a sequence, at column "), "{why:?}");
        let fed = follow(&mut table, now, "{\"leave\":\"a\"}", false);
        assert_eq!((fed.taken, ids(&table).as_str()), (1, "b:192.0.2.2/32"));
        let whole = join("c", "192.0.2.3") + "\n" + &join("", "192.0.2.4");
        let fed = follow(&mut table, now, &whole, true);
        assert_eq!((fed.taken, fed.faults[0].0, ids(&table).as_str()), (1, 2, "c:192.0.2.3/32"));
        // Nothing is no whole list.
        let wrong = join("a", "192.0.2.300");
        for text in ["", "no\n", &wrong] {
            let fed = follow(&mut table, now, text, true);
            assert_eq!((fed.taken, ids(&table).as_str()), (0, "c:192.0.2.3/32"), "{fed:?}");
        }
    }

    #[test]
    fn rows_of_one_id_are_one_circuit() {
        let (mut table, now) = (Table::default(), Instant::now());
        let text = "id;plan;addresses;more\na;gold;192.0.2.1;x\nb;gold;192.0.2.2, 192.0.2.3;\n\
                    a;gold;2001:db8::/56;\na;big;192.0.2.9;\nc;gold\n\nd;gold;home;\n";
        let faults = follow_file(&mut table, now, text);
        assert_eq!(ids(&table), "a:192.0.2.1/32+2001:db8::/56 b:192.0.2.2/32+192.0.2.3/32");
        let lines: Vec<_> = faults.iter().map(|fault| &fault[..7]).collect();
        assert_eq!(lines, ["line 5:", "line 6:", "line 8:"], "{faults:?}");
        // What is no list changes nothing.
        let cut = "id,addresses\na,192.0.2.1\n\"b,192.0.2.2\nc,192.0.2.3\n";
        let wrong = "id,addresses\nx,192.0.2.300\n,192.0.2.7\n";
        for text in ["", "name,address\nx,192.0.2.7\n", "id,addresses\n", cut, wrong] {
            assert_eq!(follow_file(&mut table, now, text).len(), 1, "{text}");
            assert_eq!(table.describe(now, 9).known, 2, "{text}");
        }
    }

    #[test]
    fn hostile_texts_do_no_harm() {
        for text in ["", "id,addresses\n\"", "{\"join\":{}}", "id,addresses\na,b\u{0},c\n"] {
            exercise(text.as_bytes());
        }
    }
}
