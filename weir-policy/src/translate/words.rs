//! The parameters of another scheduler that express what a policy promises.

use super::promises::{Promised, precedence};
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Kind, Parameter, Params, Scope, Value};
use weir_core::sched::{ClassSpec, Descriptor};
use weir_core::units::{Bytes, Dimension, Quantity, Rate, Share};

/// The parameters of the other scheduler, with the scale of its integers.
pub(super) struct Words<'a> {
    plan: &'a LinkPlan,
    promised: &'a [Promised],
    to: &'static Descriptor,
    /// The smallest rate of a leaf, to which the others are in proportion.
    least: f64,
    /// The factor by which proportions become nearly integer weights.
    scale: u64,
    /// Whether classes differ in precedence.
    ranked: bool,
    /// Whether quanta are written although rates give their defaults.
    turns_are_written: bool,
}

impl<'a> Words<'a> {
    pub(super) fn new(
        plan: &'a LinkPlan,
        promised: &'a [Promised],
        to: &'static Descriptor,
    ) -> Self {
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
        let leaves = || plan.tree.leaves().map(|(leaf, _)| promised[class(leaf)]);
        let low = plan.tree.mtu().get().max(QUANTUM_LOW);
        let by_rate =
            |rate: f64| (low as f64..=QUANTUM_HIGH as f64).contains(&(rate / PER_QUANTUM));
        // Long turns are cut short where a class reaches its ceiling within one.
        let is_cut = |class: &Promised| class.ceil.is_some() && class.borrows();
        let turns_are_written = leaves().any(|class| is_cut(&class))
            || leaves().filter(Promised::borrows).any(|class| !by_rate(class.rate));
        let ranked = promised.iter().any(|class| class.rank > 0);
        Self { plan, promised, to, least, scale, ranked, turns_are_written }
    }

    fn has(&self, name: &str) -> bool {
        super::has(self.to, name)
    }

    /// Returns the notes on the translation.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let shares = ["rate", "share", "weight", "quantum"].iter().any(|name| self.has(name));
        let differ = self.promised.iter().any(|promised| promised.rate != self.promised[0].rate);
        if differ && !shares {
            notes.push(self.says("has no rates: shares are as they come"));
        }
        let limited = self.promised.iter().any(|promised| promised.ceil.is_some());
        if limited && !["borrow", "ceil", "ul_m2"].iter().any(|name| self.has(name)) {
            notes.push(self.says("limits no class: each may have what others leave"));
        }
        notes.extend(self.lost_ceilings());
        if self.divides_by_leaves() {
            notes.push(BY_LEAVES.to_owned());
        }
        match (self.ranked, precedence(self.to)) {
            (true, None) => notes.push(self.says("has no priorities")),
            (false, Some((row, _))) if !shares && row.name == "ddp" => {
                let note = "no priorities to go by: delays grow in the order of declaration";
                notes.push(note.to_owned());
            }
            (false, Some(_)) if !shares => {
                notes.push("no priorities to go by: all classes have the same".into());
            }
            _ => {}
        }
        notes
    }

    fn says(&self, what: &str) -> String {
        format!("`{}` {what}", self.to.keyword)
    }

    /// Returns a note on ceilings between a class's rate and the link's, where the scheduler knows
    /// only classes that borrow and classes that do not.
    fn lost_ceilings(&self) -> Option<String> {
        if !self.has("borrow") || ["ceil", "ul_m2"].iter().any(|name| self.has(name)) {
            return None;
        }
        let is_lost = |id: ClassId| {
            let class = self.promised[id.index()];
            class.ceil.is_some() && class.borrows()
        };
        let tree = &self.plan.tree;
        let lost = tree.classes().filter(|(id, _)| is_lost(*id));
        let names: Vec<_> = lost.map(|(_, class)| format!("`{}`", class.name)).collect();
        let shown = &names[..names.len().min(NAMES_MAX)];
        let more = if names.len() > shown.len() { ", ..." } else { "" };
        let shown = shown.join(", ");
        let note = format!("no ceilings: {shown}{more} may have all that their parents lend");
        (!names.is_empty()).then_some(note)
    }

    /// Returns whether classes with children get more than their rate by the turns of their leaves,
    /// beside siblings that get more, too.
    fn divides_by_leaves(&self) -> bool {
        if !self.has("quantum") || !self.has("ceil") {
            return false;
        }
        let tree = &self.plan.tree;
        let place = |class: &ClassSpec| class.parent.map_or(tree.classes().len(), ClassId::index);
        let borrowing = || tree.classes().filter(|(id, _)| self.promised[id.index()].borrows());
        // The borrowing children of each class, and last those of the link.
        let mut siblings = vec![0; tree.classes().len() + 1];
        borrowing().for_each(|(_, class)| siblings[place(class)] += 1);
        let mut interior = borrowing().filter(|(id, _)| tree.leaf_of(*id).is_none());
        interior.any(|(_, class)| siblings[place(class)] > 1)
    }

    /// The parameters of a class.
    pub(super) fn of(&self, id: ClassId) -> Params {
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

    /// Returns the value of the class for this parameter; `None` for its default.
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
                Quantity::Bytes(Bytes::new((self.quantum(promised) as u64).clamp(least, most)))
            }
            ("quantum", Kind::Size(least, most)) if self.turns_are_written => {
                let quantum = (self.quantum(promised) as u64).min(QUANTUM_HIGH);
                Quantity::Bytes(Bytes::new(quantum.clamp(least, most)))
            }
            ("ceil", Kind::Quantity(Dimension::Rate)) => {
                let all = self.plan.tree.rate().bits_per_second() as f64;
                Quantity::Rate(whole(promised.ceil.unwrap_or(all).max(promised.rate)))
            }
            ("ul_m2", Kind::Quantity(Dimension::Rate)) => Quantity::Rate(whole(promised.ceil?)),
            ("borrow", Kind::Flag) => {
                return Some(Value::Flag(promised.ceil.is_none_or(|ceil| ceil > promised.rate)));
            }
            ("priority" | "prio" | "ddp", _) if !self.ranked => {
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

    /// Returns what a class sends in a turn: the least rate's is a largest packet.
    fn quantum(&self, promised: Promised) -> f64 {
        promised.rate / self.least * self.plan.tree.mtu().get() as f64
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

const BY_LEAVES: &str = "turns: what is left is divided by the quanta of leaves, not by the rates \
                         of the classes above them";
/// The largest relative error of a weight.
const WEIGHT_ERROR: f64 = 0.01;
/// [algorithms §5.2] The default quantum where classes have a rate as well: this part of a rate in
/// bit/s, within these bounds in bytes.
const PER_QUANTUM: f64 = 80.0;
const QUANTUM_LOW: u64 = 1000;
const QUANTUM_HIGH: u64 = 200_000;
/// The most classes that a note names.
const NAMES_MAX: usize = 8;
const SCALE_MAX: u64 = 100;
/// The delays of neighbouring ranks: the ratio that `hpd` and `dbhpd` take without one.
const DELAY_RATIO: u64 = 4;
