//! The log of the link: lines of JSON, and the faults whose beginning and end they report.

use serde_json::Value;
use std::collections::BTreeMap;

/// A line of the log.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) line: Value,
}

impl Told {
    /// Reads a line; one that is no JSON is kept as text.
    pub(super) fn read(line: &str) -> Self {
        let line = serde_json::from_str(line).unwrap_or_else(|_| Value::String(line.to_owned()));
        Self { line }
    }

    pub(super) fn kind(&self) -> &str {
        self.line.get("event").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind() == kind
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.line.get(key).and_then(Value::as_u64)
    }
}

/// A pair of kinds of events: a fault begins, and ends.
pub(super) type Pair = (&'static str, &'static str);

/// The faults of one pair of kinds in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// How many times it came, by the events that end it.
    pub(super) times: u64,
    /// Beginnings without an end.
    pub(super) open: u64,
    /// Ends without a beginning, or second ones.
    pub(super) stray: u64,
    /// Ends that do not say how many frames it cost.
    pub(super) uncounted: u64,
}

/// Pairs beginnings and ends by the number of their fault.
pub(super) fn tally(told: &[Told], (begin, end): Pair) -> Tally {
    let mut tally = Tally::default();
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    for line in told {
        let fault = line.number("fault").unwrap_or_default();
        if line.is(begin) {
            *open.entry(fault).or_default() += 1;
        } else if line.is(end) {
            match open.remove(&fault) {
                Some(1) => {}
                _ => tally.stray += 1,
            }
            tally.times += line.number("times").unwrap_or(1);
            tally.uncounted += u64::from(line.number("count").is_none());
        }
    }
    tally.open = open.values().sum();
    tally
}

/// Leaves out the faults of a pair that ended sooner than after `seconds`.
pub(super) fn without_short(told: &[Told], (begin, end): Pair, seconds: f64) -> Vec<Told> {
    let duration = |line: &Told| line.line.get("duration_s").and_then(Value::as_f64);
    let is_short = |line: &&Told| line.is(end) && duration(line).is_some_and(|it| it < seconds);
    let short: Vec<_> = told.iter().filter(is_short).map(|line| line.number("fault")).collect();
    let is_left =
        |line: &&Told| !(line.is(begin) || line.is(end)) || !short.contains(&line.number("fault"));
    told.iter().filter(is_left).cloned().collect()
}

/// Returns how long each fault that such an event ended was, in seconds, as text.
pub(super) fn durations(told: &[Told], (_, end): Pair) -> String {
    let ended = told.iter().filter(|line| line.is(end));
    let seconds = ended.filter_map(|line| line.line.get("duration_s")?.as_f64());
    let texts: Vec<String> = seconds.map(|seconds| format!("{seconds:.2}")).collect();
    format!("{} s", texts.join(" "))
}

/// Returns how many events of a kind were told, or left out and counted.
pub(super) fn count(told: &[Told], kind: &str) -> u64 {
    let is_left_out = |line: &&Told| {
        let detail = line.line.get("text").and_then(Value::as_str).unwrap_or_default();
        line.is("events-left-out") && detail.contains(kind)
    };
    let told_once = told.iter().filter(|line| line.is(kind)).count() as u64;
    let left_out = told.iter().filter(is_left_out).filter_map(|line| line.number("count"));
    told_once + left_out.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Told> {
        text.lines().map(|line| Told::read(line.trim())).collect()
    }

    #[test]
    fn a_fault_has_one_beginning_and_one_end() {
        let down = r#"{"event":"port-down","fault":1}"#;
        let up = r#"{"event":"port-up","fault":1,"count":3,"times":1}"#;
        let twice = r#"{"event":"port-up","fault":1,"count":3,"times":2}"#;
        let bare = r#"{"event":"port-up","fault":1}"#;
        let none = Tally::default();
        let rows = [
            (vec![down, up], Tally { times: 1, ..none }),
            (vec![down, twice], Tally { times: 2, ..none }),
            (vec![down], Tally { open: 1, ..none }),
            (vec![up], Tally { times: 1, stray: 1, ..none }),
            (vec![down, down, up], Tally { times: 1, stray: 1, ..none }),
            (vec![down, bare], Tally { times: 1, uncounted: 1, ..none }),
        ];
        for (told, expected) in rows {
            let found = tally(&lines(&told.join("\n")), ("port-down", "port-up"));
            assert_eq!(found, expected, "{told:?}");
        }
    }

    #[test]
    fn short_faults_of_one_pair_are_left_out() {
        let text = r#"{"event":"stall","fault":1}
            {"event":"stall-over","fault":1,"duration_s":0.1}
            {"event":"stall","fault":2}
            {"event":"stall-over","fault":2,"duration_s":0.4}
            {"event":"port-up","fault":3,"duration_s":0.1}"#;
        for (seconds, left) in [(0.0, 5), (0.3, 3), (0.5, 1)] {
            let found = without_short(&lines(text), ("stall", "stall-over"), seconds);
            assert_eq!(found.len(), left, "{seconds} s");
        }
    }

    #[test]
    fn events_that_were_left_out_count() {
        let text = r#"{"event":"mtu-changed"}
            {"event":"events-left-out","text":"`mtu-changed` of x came too often","count":4}
            no JSON"#;
        assert_eq!(count(&lines(text), "mtu-changed"), 5);
        assert_eq!(count(&lines(text), "stall"), 0);
    }
}
