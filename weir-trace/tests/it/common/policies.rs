//! Random policies of every scheduler, for laws about the long run.

use std::fmt::Write;
use weir_core::random::Random;

/// The link of each policy, in bit/s.
pub const LINK: u64 = 10_000_000;
/// In bytes of frames.
pub const MTU: u32 = 1514;

/// A class of a random tree.
struct Class {
    parent: Option<usize>,
    /// In bit/s.
    rate: u64,
    is_leaf: bool,
}

/// Returns a policy of `scheduler`.
pub fn text(scheduler: &str, random: &mut Random) -> String {
    let mut text = format!("[link]\nrate = '{LINK} bit/s'\nscheduler = '{scheduler}'\n");
    if random.below(4) == 0 {
        text += "overhead = 'ethernet'\n";
        text += ["charge = 'frame'\n", "charge = 'wire'\n"][random.below(2) as usize];
    }
    text += &match (scheduler, random.below(3)) {
        ("wrr", 0) => "[link.wrr]\nunit = 'bytes'\n".to_owned(),
        ("tbf", 0) => format!("[link.tbf]\nrate = '{} bit/s'\n", LINK / 3),
        ("cbq", 0) => {
            format!("[link.cbq]\ngeneral = '{}'\n", ["wrr", "prr"][random.below(2) as usize])
        }
        _ => String::new(),
    };
    let entry = weir_core::sched::find(scheduler).expect("it is registered");
    let classes = tree(entry.descriptor.promises.hierarchical, random);
    let last = classes.iter().rposition(|class| class.is_leaf);
    for (index, class) in classes.iter().enumerate() {
        writeln!(text, "[class.c{index}]").expect("a text takes all");
        if let Some(parent) = class.parent {
            writeln!(text, "parent = 'c{parent}'").expect("a text takes all");
        }
        parameters(&mut text, scheduler, class, random);
        if !class.is_leaf {
            continue;
        }
        text += &if Some(index) == last {
            "default = true\n".to_owned()
        } else {
            format!("match = {{ dport = {} }}\n", index + 1)
        };
        text += "queue = { limit = '20 packets' }\n";
    }
    text
}

/// Up to three levels, whose rates sum to their parent's or less.
fn tree(hierarchical: bool, random: &mut Random) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    let mut open = vec![(None, 0, LINK)];
    while let Some((parent, depth, rate)) = open.pop() {
        let parts: Vec<u64> = (0..1 + u64::from(depth == 0) + u64::from(random.below(3)))
            .map(|_| 2 + u64::from(random.below(20)))
            .collect();
        let spare = [0, 0, 10, 25][random.below(4) as usize];
        let whole = parts.iter().sum::<u64>() + spare;
        for part in parts {
            let rate = rate * part / whole;
            let is_leaf = !hierarchical || depth == 2 || random.below(2) == 0;
            if !is_leaf {
                open.push((Some(classes.len()), depth + 1, rate));
            }
            classes.push(Class { parent, rate, is_leaf });
        }
    }
    classes
}

fn parameters(text: &mut String, scheduler: &str, class: &Class, random: &mut Random) {
    let &Class { rate, is_leaf, .. } = class;
    let mut line = |line: String| *text += &format!("{line}\n");
    let more = |random: &mut Random| rate + rate * u64::from(random.below(300)) / 100;
    match scheduler {
        "drr" | "sfq" => line(format!("quantum = '{} B'", 1600 + random.below(4000))),
        "wf2q+" | "wfq" | "qfq" | "wrr" => line(format!("weight = {}", 1 + random.below(12))),
        "priq" => line(format!("priority = {}", random.below(3))),
        "htb" => {
            line(format!("rate = '{rate} bit/s'"));
            match random.below(3) {
                0 => line(format!("ceil = '{LINK} bit/s'")),
                1 => line(format!("ceil = '{} bit/s'", more(random))),
                _ => {}
            }
            if is_leaf && random.below(2) == 0 {
                line(format!("prio = {}", random.below(3)));
            }
            if random.below(4) == 0 {
                line(format!("burst = '{} B'", 1600 + random.below(9000)));
            }
            if is_leaf && random.below(2) == 0 {
                line(format!("quantum = '{} B'", 1600 + random.below(6000)));
            }
        }
        "cbq" => {
            line(format!("rate = '{rate} bit/s'"));
            if is_leaf && random.below(4) == 0 {
                line(format!("priority = {}", random.below(3)));
            }
            line(format!("borrow = {}", random.below(3) != 0));
        }
        "hfsc" => {
            line(format!("rate = '{rate} bit/s'"));
            match random.below(4) {
                0 => line(format!("ls_m2 = '{} bit/s'", more(random) / 2)),
                1 => line(format!("ul_m2 = '{} bit/s'", more(random))),
                2 if is_leaf => line(format!("rt_m2 = '{} bit/s'", rate / 2)),
                _ => {}
            }
            if is_leaf && random.below(4) == 0 {
                line(format!("rt_m1 = '{} bit/s'", rate / 2));
                line(format!("rt_d = '{} ms'", 1 + random.below(30)));
            }
        }
        _ if has(scheduler, "rate") => line(format!("rate = '{rate} bit/s'")),
        _ if has(scheduler, "share") => {
            line(format!("share = '{} %'", rate as f64 * 100.0 / LINK as f64));
        }
        _ => {}
    }
}

/// Whether classes have such a parameter.
fn has(scheduler: &str, name: &str) -> bool {
    let entry = weir_core::sched::find(scheduler).expect("it is registered");
    let row = entry.descriptor.parameters.iter().find(|row| row.name == name);
    row.is_some_and(|row| row.scope == weir_core::parameter::Scope::Class)
}
