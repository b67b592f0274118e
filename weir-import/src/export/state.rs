//! Compares the output of `tc class show` with an export.

use super::Export;
use std::collections::BTreeMap;

/// Returns the differences between the classes in `shown`, the output of `tc class show`, and the
/// exported ones. Rates may differ by a thousandth, since `tc` shows four digits.
pub fn differences(export: &Export, shown: &str) -> Vec<String> {
    let classes = classes(shown);
    let mut found = Vec::new();
    for class in &export.classes {
        let Some(fields) = classes.get(class.id.as_str()) else {
            // Classes below a shaper without classes have no rate to compare.
            let has_rate = class.rate.is_some();
            found.extend(
                has_rate.then(|| format!("class {} (`{}`) is missing", class.id, class.name)),
            );
            continue;
        };
        for (key, wanted) in [("rate", class.rate), ("ceil", class.ceil)] {
            let Some(wanted) = wanted else { continue };
            let at = fields.iter().position(|field| *field == key);
            let text = at.and_then(|at| fields.get(at + 1)).copied().unwrap_or("none");
            let got = crate::import::tc_rate(text).unwrap_or(0);
            if got.abs_diff(wanted) > wanted / 1000 + 8 {
                let (id, name) = (&class.id, &class.name);
                found.push(format!(
                    "class {id} (`{name}`): {key} is {text}, exported as {wanted}bit"
                ));
            }
        }
    }
    for id in classes.keys() {
        let meant = export.classes.iter().any(|class| class.id == **id)
            || export.lines.iter().any(|line| line.contains(&format!("classid {id} ")));
        let shaper = ["1:1", "1:"].contains(id);
        if !meant && !shaper && !export.lines.iter().any(|line| line.contains(" prio bands ")) {
            found.push(format!("class {id} is present but was not exported"));
        }
    }
    found
}

/// Returns the words after each class's handle.
fn classes(shown: &str) -> BTreeMap<&str, Vec<&str>> {
    let words = |line: &str| line.starts_with("class ");
    let lines = shown.lines().filter(|line| words(line));
    lines
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(2);
            Some((fields.next()?, fields.collect()))
        })
        .collect()
}

/// Returns the packets that each class has sent, from the output of `tc -s class show`.
pub fn packets_sent(shown: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut class = None;
    for line in shown.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            ["class", _, id, ..] => class = Some((*id).to_owned()),
            ["Sent", _, "bytes", packets, "pkt", ..]
            | ["Sent", _, "bytes", packets, "pkts", ..] => {
                if let (Some(id), Ok(packets)) = (class.take(), packets.parse()) {
                    counts.insert(id, packets);
                }
            }
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Filters, to_tc};

    const SHOWN: &str = "\
class htb 1:1 root rate 20Mbit ceil 20Mbit burst 11600b cburst 11600b
 Sent 300 bytes 3 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
class htb 1:2 parent 1:1 leaf 8001: prio 0 rate 4999Kbit ceil 20Mbit burst 4100b cburst 11600b
 Sent 100 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)
class htb 1:3 parent 1:1 leaf 8002: prio 0 rate 15Mbit ceil 20Mbit burst 9100b cburst 11600b
 Sent 200 bytes 2 pkt (dropped 0, overlimits 0 requeues 0)
";

    fn check(shown: &str, wanted: &[&str]) {
        let text = "[link]\nrate = \"20 Mbit/s\"\nscheduler = \"htb\"\n\
                    [class.line]\nrate = \"20 Mbit/s\"\n\
                    [class.a]\nparent = \"line\"\nrate = \"4999999 bit/s\"\nceil = \"20 Mbit/s\"\n\
                    match = [{ dscp = \"ef\" }]\n\
                    [class.b]\nparent = \"line\"\nrate = \"15 Mbit/s\"\nceil = \"20 Mbit/s\"\n\
                    default = true\n";
        let policy = weir_policy::parse(text, "p").plan.expect("it is right");
        let export = to_tc(&policy, "eth0", Filters::U32).expect("the kernel has HTB");
        assert_eq!(differences(&export, shown), wanted, "{shown}");
    }

    #[test]
    fn classes_of_the_kernel_are_compared_with_the_export() {
        check(SHOWN, &[]);
        check(
            &SHOWN.replace("rate 15Mbit", "rate 14Mbit").replace("1:2 ", "1:7 "),
            &[
                "class 1:2 (`a`) is missing",
                "class 1:3 (`b`): rate is 14Mbit, exported as 15000000bit",
                "class 1:7 is present but was not exported",
            ],
        );
    }

    #[test]
    fn packets_are_counted_by_class() {
        let counts: Vec<_> = packets_sent(SHOWN).into_iter().collect();
        let wanted = [("1:1", 3), ("1:2", 1), ("1:3", 2)];
        assert_eq!(counts, wanted.map(|(id, count)| (id.to_owned(), count)));
    }
}
