//! Translates a policy that was written for one scheduler into one for another.
//!
//! First the policy is read for what it promises, independently of a scheduler ([`promises()`]): of
//! each class its rate, whether it may have more and up to what, and its precedence. Then the other
//! scheduler's table of parameters says which of them can express that (`words`). Where a class
//! borrows only from its parent, all classes get one parent, the `root`. `docs/compare.md` has the
//! rules. Invariant: leaves, queues, rules and meters stay as they are, and in their order;
//! whatever has no counterpart is noted.

mod convert;
mod promises;
mod rewrite;
pub(crate) mod root;
mod words;

pub use convert::{Converted, convert};
pub use promises::{Promised, promises};

use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Params, Scope};
use weir_core::sched::{self, ClassSpec, Descriptor, Tree, TreeError};
use words::Words;

/// A plan for another scheduler.
#[derive(Clone, Debug)]
pub struct Translated {
    /// The plan for the other scheduler.
    pub plan: LinkPlan,
    /// The class that was added as the parent of all others.
    pub root: Option<ClassId>,
    /// A note on each point that was translated differently or not at all.
    pub notes: Vec<String>,
}

/// Translates `plan` for the scheduler `to`, which is in the registry.
///
/// # Errors
/// Why the other scheduler cannot express it, with value, limit and cure.
pub fn translate(plan: &LinkPlan, to: &'static Descriptor) -> Result<Translated, String> {
    if plan.scheduler == to.keyword {
        return Ok(Translated { plan: plan.clone(), root: None, notes: Vec::new() });
    }
    let promised = promises(plan);
    let mut notes = lost_words(plan);
    let flat = !to.promises.hierarchical;
    if flat && divides_twice(&plan.tree) {
        notes.push("flat: what a class leaves is shared by all, not by its siblings first".into());
    }
    let words = Words::new(plan, &promised, to);
    notes.extend(words.notes());
    let mut classes = Vec::new();
    let root = root::needed(plan, &promised, to);
    if let Some((spec, note)) = &root {
        classes.push(spec.clone());
        notes.push(note.clone());
    }
    let root = root.map(|_| ClassId(0));
    let kept = |id: ClassId| !flat || plan.tree.leaf_of(id).is_some();
    let mut places = vec![root; plan.tree.classes().len()];
    let numbers = (classes.len() as u32..).map(ClassId);
    for ((id, _), number) in plan.tree.classes().filter(|row| kept(row.0)).zip(numbers) {
        places[id.index()] = Some(number);
    }
    let above = |parent: Option<ClassId>| parent.map_or(root, |parent| places[parent.index()]);
    classes.extend(plan.tree.classes().filter(|row| kept(row.0)).map(|(id, class)| ClassSpec {
        name: class.name.clone(),
        parent: above(class.parent.filter(|_| !flat)),
        params: words.of(id),
    }));
    let tree = Tree::new(plan.tree.rate(), plan.tree.mtu(), Params::new(), classes);
    let tree = tree.map_err(|error| no_tree(error, to, root.is_some()))?;
    let plan = LinkPlan { scheduler: to.keyword, tree, ..plan.clone() };
    plan.build().map_err(|error| error.to_string())?;
    Ok(Translated { plan, root, notes })
}

/// Returns whether classes have a parameter of this name under a scheduler.
fn has(scheduler: &Descriptor, name: &str) -> bool {
    scheduler.parameters.iter().any(|row| row.name == name && row.scope != Scope::Link)
}

fn no_tree(error: TreeError, to: &Descriptor, rooted: bool) -> String {
    let why = if rooted { " below the parent of all classes that it needs" } else { "" };
    format!("the classes are no tree for {}{why}: {error}", to.keyword)
}

/// Returns whether a class with children has siblings; then it matters which class gets its unused
/// rate.
fn divides_twice(tree: &Tree) -> bool {
    // The children of each class, and last those of the link.
    let mut siblings = vec![0; tree.classes().len() + 1];
    let place = |class: &ClassSpec| class.parent.map_or(tree.classes().len(), ClassId::index);
    tree.classes().for_each(|(_, class)| siblings[place(class)] += 1);
    tree.classes().any(|(id, class)| tree.leaf_of(id).is_none() && siblings[place(class)] > 1)
}

/// Returns notes on the written parameters of the link and of classes that enter no promise.
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
    lost.extend(plan.tree.params().iter().map(|row| row.0));
    let mut notes = Vec::new();
    if plan.tree.classes().any(|(_, class)| guarantees_otherwise(&class.params)) {
        let note = "no real-time curves: the rate of a class is that of its link sharing";
        notes.push(note.to_owned());
    }
    if lost.is_empty() {
        return notes;
    }
    let lost: Vec<_> = lost.iter().map(|name| format!("`{name}`")).collect();
    notes.push(format!("left out: {}; its own defaults hold", lost.join(", ")));
    notes
}

/// Returns whether a class is guaranteed another rate than its part of the link is.
fn guarantees_otherwise(params: &Params) -> bool {
    let shares = params.rate("rate").or(params.rate("ls_m2"));
    params.rate("rt_m2").zip(shares).is_some_and(|(own, shares)| own != shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::parameter::Value;

    const CBQ: &str = "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"cbq\"\n\
        [class.top]\nrate = \"9 Mbit/s\"\n[class.a]\nparent = \"top\"\nrate = \"2 Mbit/s\"\n\
        priority = 7\nborrow = false\nmatch = [{ dport = 1 }]\n[class.b]\nparent = \"top\"\n\
        rate = \"7 Mbit/s\"\npriority = 2\nburst = \"9 KB\"\nmatch = [{ dport = 2 }]\n\
        [class.c]\nrate = \"1 Mbit/s\"\npriority = 2\ndefault = true\n";
    const DRR: &str = "[link]\nrate = \"8 Mbit/s\"\nscheduler = \"drr\"\n[class.a]\n\
        quantum = \"1514 B\"\nmatch = [{ dport = 1 }]\n[class.b]\nquantum = \"4542 B\"\n\
        default = true\n";
    const HTB: &str = "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"htb\"\n\
        [class.line]\nrate = \"10 Mbit/s\"\n[class.a]\nparent = \"line\"\n\
        rate = \"4 Mbit/s\"\nceil = \"6 Mbit/s\"\nprio = 1\nmatch = [{ dport = 1 }]\n\
        [class.b]\nparent = \"line\"\nrate = \"6 Mbit/s\"\nprio = 0\nceil = \"10 Mbit/s\"\ndefault = true\n";

    const CURVES: &str = "[link]\nrate = '10 Mbit/s'\nscheduler = 'hfsc'\n[class.a]\n\
        rt_m1 = '8 Mbit/s'\nrt_d = '10 ms'\nrt_m2 = '5 Mbit/s'\nmatch = { dport = 1 }\n\
        [class.b]\nrate = '5 Mbit/s'\ndefault = true\n";

    /// The classes of a policy under another scheduler, each as `name key value ...`.
    fn check(policy: &str, to: &str, expected: &[&str], note: &str) {
        let outcome = crate::policy::parse(policy, "p.toml");
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
                "link rate 10 Mbit/s",
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
            &[
                "line rate 10 Mbit/s borrow true",
                "a rate 4 Mbit/s borrow true priority 6",
                "b rate 6 Mbit/s borrow true priority 7",
            ],
            "no ceilings: `a` may have",
        );
        check(
            HTB,
            "hfsc",
            &["line rate 10 Mbit/s", "a rate 4 Mbit/s ul_m2 6 Mbit/s", "b rate 6 Mbit/s"],
            "no priorities",
        );
        check(
            CURVES,
            "htb",
            &[
                "link rate 10 Mbit/s",
                "a rate 5 Mbit/s ceil 5 Mbit/s",
                "b rate 5 Mbit/s ceil 10 Mbit/s",
            ],
            "`rt_m1`",
        );
        check(
            CURVES,
            "cbq",
            &["a rate 5 Mbit/s borrow false", "b rate 5 Mbit/s borrow true"],
            "left out: `rt_m1`, `rt_d`",
        );
    }

    #[test]
    fn top_classes_that_can_borrow_from_nobody_have_their_rate_only() {
        let alone = HTB.replace("parent = \"line\"\n", "");
        let alone = alone.replace("[class.line]\nrate = \"10 Mbit/s\"\n", "");
        check(
            &alone,
            "cbq",
            &["a rate 4 Mbit/s borrow false priority 6", "b rate 6 Mbit/s borrow false priority 7"],
            "",
        );
    }

    #[test]
    fn classes_that_borrow_get_a_parent_with_a_name_that_is_free() {
        let flat = "[link]\nrate = '10 Mbit/s'\nscheduler = 'cbq'\n[class.link]\n\
            rate = '10 Mbit/s'\ndefault = true\n";
        check(flat, "htb", &["link rate 10 Mbit/s ceil 10 Mbit/s"], "");
        let flat = flat.replace("10 Mbit/s'\ndefault", "6 Mbit/s'\ndefault");
        let rows = ["line rate 10 Mbit/s", "link rate 6 Mbit/s ceil 10 Mbit/s"];
        check(&flat, "htb", &rows, "added class `line`");
        let fixed = flat.replace("default", "borrow = false\ndefault");
        check(&fixed, "htb", &["link rate 6 Mbit/s ceil 6 Mbit/s"], "");
        let all = flat.replace("link]\nrate = '6", "link]\nqueues = 2\nhash = 'full'\nrate = '1");
        let all =
            format!("{all}[class.line]\nrate = '1 Mbit/s'\n[class.root]\nrate = '1 Mbit/s'\n");
        let rows = [
            "link2 rate 10 Mbit/s",
            "link-0 rate 1 Mbit/s ceil 10 Mbit/s",
            "link-1 rate 1 Mbit/s ceil 10 Mbit/s",
            "line rate 1 Mbit/s ceil 10 Mbit/s",
            "root rate 1 Mbit/s ceil 10 Mbit/s",
        ];
        check(&all, "htb", &rows, "added class `link2`");
    }

    #[test]
    fn quanta_are_written_where_those_of_rates_are_not_in_proportion() {
        let policy = |a: &str, b: &str| {
            format!(
                "[link]\nrate = '1 Gbit/s'\nscheduler = 'cbq'\n[class.a]\nrate = '{a}'\n\
                 match = {{ dport = 1 }}\n[class.b]\nrate = '{b}'\ndefault = true\n"
            )
        };
        let check_quanta = |a: &str, b: &str, quanta: [&str; 2]| {
            let row = |(name, rate, quantum): (&str, &str, &str)| {
                let quantum = if quantum.is_empty() { "" } else { &format!(" quantum {quantum}") };
                format!("{name} rate {rate} ceil 1 Gbit/s{quantum}")
            };
            let classes = [("a", a, quanta[0]), ("b", b, quanta[1])].map(row);
            let classes = ["link rate 1 Gbit/s", &classes[0], &classes[1]];
            check(&policy(a, b), "htb", &classes, "added");
        };
        check_quanta("1 Mbit/s", "16 Mbit/s", ["", ""]);
        check_quanta("1 Mbit/s", "20 Mbit/s", ["1.514 KB", "30.28 KB"]);
        check_quanta("100 kbit/s", "1 Mbit/s", ["1.514 KB", "15.14 KB"]);
        // A turn of more would take long.
        check_quanta(
            "100 kbit/s",
            "1 Gbit/s".replace("1 G", "900 M").as_str(),
            ["1.514 KB", "200 KB"],
        );
    }

    #[test]
    fn a_policy_is_not_changed_for_its_own_scheduler() {
        let link = crate::policy::parse(CBQ, "p.toml").plan.expect("a policy").link;
        let own = sched::find("cbq").expect("it is there").descriptor;
        let translated = translate(&link, own).expect("nothing is to be done");
        assert_eq!((translated.plan, translated.notes.len()), (link, 0));
    }
}
