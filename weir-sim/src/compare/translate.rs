//! Translates a policy that was written for one scheduler into one for another.
//!
//! First the policy is read for what it promises, independently of a scheduler: of each class its
//! rate, whether it may have more and up to what, and its precedence. Then the other scheduler's
//! table of parameters says which of them can express that. `docs/compare.md` has the rules.
//! Invariant: leaves, queues, rules and meters stay as they are, and in their order; every
//! parameter without a counterpart is noted.

use serde::Serialize;
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Kind, Parameter, Params, Scope, Value};
use weir_core::sched::{self, ClassSpec, Descriptor, Tree};
use weir_core::units::{Bytes, Dimension, Quantity, Rate, Share};

/// A plan for another scheduler.
#[derive(Clone, Debug)]
pub struct Translated {
    /// The plan.
    pub plan: LinkPlan,
    /// What was translated differently, and what could not be translated.
    pub notes: Vec<String>,
}

/// What a policy promises a class.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Promised {
    /// The rate that it may always have, in bit/s.
    pub rate: f64,
    /// The most it may have, in bit/s; `None` for as much as there is.
    pub ceil: Option<f64>,
    /// The number of precedence levels before it: 0 goes first.
    pub rank: u64,
}

/// Translates `plan` for the scheduler `to`, which is in the registry.
///
/// # Errors
/// Why the other scheduler cannot express it, with value, limit and cure.
pub fn translate(plan: &LinkPlan, to: &'static Descriptor) -> Result<Translated, String> {
    if plan.scheduler == to.keyword {
        return Ok(Translated { plan: plan.clone(), notes: Vec::new() });
    }
    let promised = promises(plan);
    let mut notes = lost_words(plan);
    let flat = !to.promises.hierarchical;
    if flat && divides_twice(&plan.tree) {
        notes.push("flat: what a class leaves is shared by all, not by its siblings first".into());
    }
    let words = Words::new(plan, &promised, to);
    notes.extend(words.notes());
    let mut places = vec![None; plan.tree.classes().len()];
    let mut classes = Vec::new();
    for (id, class) in plan.tree.classes() {
        if flat && plan.tree.leaf_of(id).is_none() {
            continue;
        }
        places[id.index()] = Some(ClassId(classes.len() as u32));
        classes.push((id, class));
    }
    let spec = |&(id, class): &(ClassId, &ClassSpec)| ClassSpec {
        name: class.name.clone(),
        parent: class.parent.filter(|_| !flat).and_then(|parent| places[parent.index()]),
        params: words.of(id),
    };
    let classes = classes.iter().map(spec).collect();
    let tree = Tree::new(plan.tree.rate(), plan.tree.mtu(), Params::new(), classes);
    let tree = tree.map_err(|error| format!("the classes are no tree for it: {error:?}"))?;
    let plan = LinkPlan { scheduler: to.keyword, tree, ..plan.clone() };
    plan.build().map_err(|error| error.to_string())?;
    Ok(Translated { plan, notes })
}

/// Returns whether a class with children has siblings; then it matters which class gets its unused
/// rate.
fn divides_twice(tree: &Tree) -> bool {
    let siblings = |parent| tree.classes().filter(move |(_, other)| other.parent == parent).count();
    tree.classes().any(|(id, class)| tree.leaf_of(id).is_none() && siblings(class.parent) > 1)
}

/// What the plan promises each class.
pub fn promises(plan: &LinkPlan) -> Vec<Promised> {
    let tree = &plan.tree;
    let descriptor = sched::find(plan.scheduler).map(|entry| entry.descriptor);
    let ranks = ranks(plan, descriptor);
    let link = tree.rate().bits_per_second() as f64;
    let mut rates = vec![None; tree.classes().len()];
    // From the top down: a class without a rate of its own has a part of what its parent has.
    let mut order: Vec<ClassId> = tree.classes().map(|(id, _)| id).collect();
    order.sort_by_key(|&id| tree.path(id).count());
    for id in order {
        let above = tree.class(id).parent.and_then(|parent| rates[parent.index()]);
        let above = above.unwrap_or(link);
        rates[id.index()] = Some(rate(tree, id, above));
    }
    let promised = |(id, class): (ClassId, &ClassSpec)| {
        let rate = rates[id.index()].unwrap_or(0.0);
        // A limit at the rate of the line does not limit.
        let ceil = ceil(class, descriptor, rate).filter(|&ceil| ceil < link);
        Promised { rate, ceil, rank: ranks[id.index()] }
    };
    tree.classes().map(promised).collect()
}

/// The rate of a class: as written, or by its weight among its siblings.
fn rate(tree: &Tree, id: ClassId, above: f64) -> f64 {
    let class = tree.class(id);
    let written = |class: &ClassSpec| {
        let rate = ["rate", "ls_m2", "rt_m2"].iter().find_map(|name| class.params.rate(name));
        rate.map(|rate| rate.bits_per_second() as f64)
    };
    if let Some(rate) = written(class) {
        return rate;
    }
    if let Some(Quantity::Share(share)) = class.params.quantity("share") {
        return tree.rate().bits_per_second() as f64 * f64::from(share.ppb()) / 1e9;
    }
    // Siblings with a rate have that; the rest is divided by weight or quantum.
    let siblings = || tree.classes().filter(|(_, other)| other.parent == class.parent);
    let taken: f64 = siblings().filter_map(|(_, other)| written(other)).sum();
    let bare = siblings().filter(|(_, other)| written(other).is_none());
    let whole: f64 = bare.map(|(_, other)| weight(tree, other)).sum();
    (above - taken).max(0.0) * weight(tree, class) / whole
}

fn weight(tree: &Tree, class: &ClassSpec) -> f64 {
    let weight = class.params.number("weight").map(|weight| weight as f64);
    let quantum = class.params.bytes("quantum").map(|quantum| quantum.get() as f64);
    weight.or(quantum.map(|quantum| quantum / tree.mtu().get() as f64)).unwrap_or(1.0)
}

/// The most that a class may have.
fn ceil(class: &ClassSpec, descriptor: Option<&Descriptor>, rate: f64) -> Option<f64> {
    let has = |name: &str| descriptor.and_then(|it| it.parameters.iter().find(|p| p.name == name));
    if has("ceil").is_some() {
        let ceil = class.params.rate("ceil").map(|ceil| ceil.bits_per_second() as f64);
        return Some(ceil.unwrap_or(rate));
    }
    if let Some(parameter) = has("borrow") {
        let usual = parameter.default == Some("true");
        return (!class.params.flag("borrow").unwrap_or(usual)).then_some(rate);
    }
    class.params.rate("ul_m2").map(|limit| limit.bits_per_second() as f64)
}

/// The place of each class in the order of precedence; all 0 if the policy makes no difference.
fn ranks(plan: &LinkPlan, descriptor: Option<&Descriptor>) -> Vec<u64> {
    let word = descriptor.and_then(precedence);
    let level = |class: &ClassSpec| {
        let Some((parameter, larger_first)) = word else { return 0 };
        let usual = parameter.default.and_then(|text| text.parse().ok()).unwrap_or(0);
        let level = class.params.number(parameter.name).unwrap_or(usual) as i64;
        if larger_first { -level } else { level }
    };
    let mut known: Vec<i64> = plan.tree.leaves().map(|(_, class)| level(class)).collect();
    known.sort_unstable();
    known.dedup();
    // Classes with children send nothing themselves, so they have no precedence.
    let rank = |(id, class): (ClassId, &ClassSpec)| match plan.tree.leaf_of(id) {
        Some(_) => known.partition_point(|&other| other < level(class)) as u64,
        None => 0,
    };
    plan.tree.classes().map(rank).collect()
}

/// The parameter that orders classes, and whether the larger goes first. In `cbq-ref`, as in ns-2,
/// and in `htb` it is the smaller; a class with a smaller delay parameter goes earlier, too.
fn precedence(descriptor: &Descriptor) -> Option<(&'static Parameter, bool)> {
    let row = |name: &str| descriptor.parameters.iter().find(|row| row.name == name);
    row("priority")
        .map(|row| (row, descriptor.keyword != "cbq-ref"))
        .or_else(|| row("prio").or_else(|| row("ddp")).map(|row| (row, false)))
}

/// Returns the written parameters of classes that do not enter a promise.
fn lost_words(plan: &LinkPlan) -> Vec<String> {
    let carried = ["rate", "share", "weight", "borrow", "ceil", "priority", "prio", "ddp"];
    let curves = ["ls_m2", "rt_m2", "ul_m2"];
    let quantum_is_weight = sched::find(plan.scheduler)
        .is_some_and(|entry| entry.descriptor.parameters.iter().all(|row| row.name != "rate"));
    let mut lost: Vec<&str> = Vec::new();
    for (_, class) in plan.tree.classes() {
        for &(name, _) in class.params.iter() {
            let known = carried.contains(&name)
                || curves.contains(&name)
                || name == "quantum" && quantum_is_weight;
            if !known && !lost.contains(&name) {
                lost.push(name);
            }
        }
    }
    if lost.is_empty() {
        return Vec::new();
    }
    let lost: Vec<_> = lost.iter().map(|name| format!("`{name}`")).collect();
    vec![format!("left out: {}; its own defaults hold", lost.join(", "))]
}

/// The parameters of the other scheduler, with the scale of its integers.
struct Words<'a> {
    plan: &'a LinkPlan,
    promised: &'a [Promised],
    to: &'static Descriptor,
    /// The smallest rate of a leaf, to which the others are in proportion.
    least: f64,
    /// The factor by which proportions become nearly integer weights.
    scale: u64,
}

impl<'a> Words<'a> {
    fn new(plan: &'a LinkPlan, promised: &'a [Promised], to: &'static Descriptor) -> Self {
        let class = |leaf| plan.tree.class_of(leaf).index();
        let rates: Vec<f64> =
            plan.tree.leaves().map(|(leaf, _)| promised[class(leaf)].rate.max(1.0)).collect();
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let near = |scale: u64| {
            let error = |rate: &f64| {
                let weight = rate / least * scale as f64;
                (weight.round() / weight - 1.0).abs()
            };
            rates.iter().map(error).fold(0.0, f64::max) < WEIGHT_ERROR
        };
        // Small weights make short rounds, so the smallest sufficiently exact scale is used.
        let scale = (1..=SCALE_MAX).find(|&scale| near(scale)).unwrap_or(SCALE_MAX);
        Self { plan, promised, to, least, scale }
    }

    fn has(&self, name: &str) -> bool {
        self.to.parameters.iter().any(|row| row.name == name && row.scope != Scope::Link)
    }

    /// Returns the notes on the translation.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let shares = ["rate", "share", "weight", "quantum"].iter().any(|name| self.has(name));
        let differ = self.promised.iter().any(|promised| promised.rate != self.promised[0].rate);
        if differ && !shares {
            notes.push("has no rates: shares are as they come".to_owned());
        }
        let limited = self.promised.iter().any(|promised| promised.ceil.is_some());
        if limited && !["borrow", "ceil", "ul_m2"].iter().any(|name| self.has(name)) {
            notes.push("limits no class: each may have what others leave".to_owned());
        }
        let ranked = self.promised.iter().any(|promised| promised.rank > 0);
        match (ranked, precedence(self.to)) {
            (true, None) => notes.push("has no priorities".to_owned()),
            (false, Some((row, _))) if !shares && row.name == "ddp" => {
                notes
                    .push("no priorities to go by: delays grow in the order of declaration".into());
            }
            (false, Some(_)) if !shares => {
                notes.push("no priorities to go by: all classes have the same".into());
            }
            _ => {}
        }
        notes
    }

    /// The parameters of a class.
    fn of(&self, id: ClassId) -> Params {
        let leaf = self.plan.tree.leaf_of(id).is_some();
        let mut params = Params::new();
        for row in self.to.parameters {
            let here = row.scope == Scope::Class || row.scope == Scope::Leaf && leaf;
            if let Some(value) = here.then(|| self.value(row, id)).flatten() {
                params.set(row.name, value);
            }
        }
        params
    }

    /// What the class has for this parameter; `None` for its default.
    fn value(&self, row: &Parameter, id: ClassId) -> Option<Value> {
        let promised = self.promised[id.index()];
        let of_link = promised.rate / self.plan.tree.rate().bits_per_second() as f64;
        let quantity = match (row.name, row.kind) {
            ("rate", Kind::Quantity(Dimension::Rate)) => Quantity::Rate(whole(promised.rate)),
            ("share", Kind::Quantity(Dimension::Share)) => {
                let share = Share::from_ppb((of_link * 1e9) as u64)?;
                Quantity::Share(share)
            }
            ("weight", Kind::Number(least, most)) => {
                let weight = promised.rate / self.least * self.scale as f64;
                Quantity::Number((weight.round() as u64).clamp(least, most))
            }
            ("quantum", Kind::Size(least, most)) if !self.has("rate") => {
                let quantum = promised.rate / self.least * self.plan.tree.mtu().get() as f64;
                Quantity::Bytes(Bytes::new((quantum as u64).clamp(least, most)))
            }
            ("ceil", Kind::Quantity(Dimension::Rate)) => {
                let all = self.plan.tree.rate().bits_per_second() as f64;
                Quantity::Rate(whole(promised.ceil.unwrap_or(all).max(promised.rate)))
            }
            ("ul_m2", Kind::Quantity(Dimension::Rate)) => Quantity::Rate(whole(promised.ceil?)),
            ("borrow", Kind::Flag) => {
                return Some(Value::Flag(promised.ceil.is_none_or(|ceil| ceil > promised.rate)));
            }
            ("priority" | "prio" | "ddp", _) if self.promised.iter().all(|it| it.rank == 0) => {
                return None;
            }
            ("priority" | "prio", Kind::Number(least, most)) => {
                self.precedence(promised, (least, most))
            }
            ("ddp", Kind::Number(_, most)) => {
                let ddp = DELAY_RATIO.saturating_pow(promised.rank.min(32) as u32);
                Quantity::Number(ddp.min(most))
            }
            _ => return None,
        };
        Some(Value::Quantity(quantity))
    }

    fn precedence(&self, promised: Promised, (least, most): (u64, u64)) -> Quantity {
        let larger_first = precedence(self.to).is_some_and(|word| word.1);
        let step = promised.rank.min(most - least);
        Quantity::Number(if larger_first { most - step } else { least + step })
    }
}

/// Returns a rate as a whole number of bit/s, at least one.
fn whole(rate: f64) -> Rate {
    Rate::new((rate as u64).max(1)).expect("it is at least 1")
}

/// The largest relative error of a weight.
const WEIGHT_ERROR: f64 = 0.01;
const SCALE_MAX: u64 = 100;
/// The delays of neighbouring ranks: the ratio that `hpd` and `dbhpd` take without one.
const DELAY_RATIO: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const CBQ: &str = "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"cbq\"\n\
        [class.top]\nrate = \"9 Mbit/s\"\n[class.a]\nparent = \"top\"\nrate = \"2 Mbit/s\"\n\
        priority = 7\nborrow = false\nmatch = [{ dport = 1 }]\n[class.b]\nparent = \"top\"\n\
        rate = \"7 Mbit/s\"\npriority = 2\nburst = \"9 KB\"\nmatch = [{ dport = 2 }]\n\
        [class.c]\nrate = \"1 Mbit/s\"\npriority = 2\ndefault = true\n";
    const DRR: &str = "[link]\nrate = \"8 Mbit/s\"\nscheduler = \"drr\"\n[class.a]\n\
        quantum = \"1514 B\"\nmatch = [{ dport = 1 }]\n[class.b]\nquantum = \"4542 B\"\n\
        default = true\n";
    const HTB: &str = "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"htb\"\n[class.a]\n\
        rate = \"4 Mbit/s\"\nceil = \"6 Mbit/s\"\nprio = 1\nmatch = [{ dport = 1 }]\n\
        [class.b]\nrate = \"6 Mbit/s\"\nprio = 0\nceil = \"10 Mbit/s\"\ndefault = true\n";

    /// The classes of a policy under another scheduler, each as `name key value ...`.
    fn check(policy: &str, to: &str, expected: &[&str], note: &str) {
        let outcome = weir_policy::policy::parse(policy, "p.toml");
        let link = outcome.plan.expect("rows hold policies").link;
        let entry = sched::find(to).expect("rows name schedulers");
        let translated = translate(&link, entry.descriptor).expect("it can be translated");
        let text = |(_, class): (ClassId, &ClassSpec)| {
            let value = |(name, value): &(&str, Value)| match value {
                Value::Quantity(quantity) => format!(" {name} {quantity}"),
                Value::Flag(flag) => format!(" {name} {flag}"),
                Value::Choice(word) => format!(" {name} {word}"),
            };
            class.params.iter().map(value).fold(class.name.clone(), |row, value| row + &value)
        };
        let found: Vec<String> = translated.plan.tree.classes().map(text).collect();
        assert_eq!(found, expected, "{to}");
        let notes = translated.notes.join("; ");
        assert!(notes.contains(note) && (note.is_empty() == notes.is_empty()), "{to}: {notes}");
    }

    #[test]
    fn link_sharing_is_translated_for_other_schedulers() {
        check(
            CBQ,
            "htb",
            &[
                "top rate 9 Mbit/s ceil 10 Mbit/s",
                "a rate 2 Mbit/s ceil 2 Mbit/s prio 0",
                "b rate 7 Mbit/s ceil 10 Mbit/s prio 1",
                "c rate 1 Mbit/s ceil 10 Mbit/s prio 1",
            ],
            "left out: `burst`",
        );
        check(
            CBQ,
            "hfsc",
            &[
                "top rate 9 Mbit/s",
                "a rate 2 Mbit/s ul_m2 2 Mbit/s",
                "b rate 7 Mbit/s",
                "c rate 1 Mbit/s",
            ],
            "has no priorities",
        );
        check(CBQ, "wf2q+", &["a weight 2", "b weight 7", "c weight 1"], "flat");
        check(CBQ, "priq", &["a priority 15", "b priority 14", "c priority 14"], "has no rates");
        check(CBQ, "dbhpd", &["a ddp 1", "b ddp 4", "c ddp 4"], "limits no class");
        check(CBQ, "fifo", &["a", "b", "c"], "has no priorities");
        check(
            CBQ,
            "cbq-ref",
            &[
                "top share 90 % priority 0 borrow true",
                "a share 20 % priority 0 borrow false",
                "b share 70 % priority 1 borrow true",
                "c share 10 % priority 1 borrow true",
            ],
            "left out: `burst`",
        );
    }

    #[test]
    fn quanta_become_parts_of_the_link() {
        check(DRR, "cbq", &["a rate 2 Mbit/s borrow true", "b rate 6 Mbit/s borrow true"], "");
        check(DRR, "qfq", &["a weight 1", "b weight 3"], "");
    }

    #[test]
    fn ceilings_and_small_priorities_are_preserved() {
        check(
            HTB,
            "cbq",
            &["a rate 4 Mbit/s borrow true priority 6", "b rate 6 Mbit/s borrow true priority 7"],
            "",
        );
        check(HTB, "hfsc", &["a rate 4 Mbit/s ul_m2 6 Mbit/s", "b rate 6 Mbit/s"], "no priorities");
    }

    #[test]
    fn a_policy_is_not_changed_for_its_own_scheduler() {
        let link = weir_policy::policy::parse(CBQ, "p.toml").plan.expect("a policy").link;
        let own = sched::find("cbq").expect("it is there").descriptor;
        let translated = translate(&link, own).expect("nothing is to be done");
        assert_eq!((translated.plan, translated.notes.len()), (link, 0));
    }
}
