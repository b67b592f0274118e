//! Evaluates rules of which the last one that matches decides, for all packets at once.
//!
//! pf goes through its rules in order [pf.conf(5)]. A `match` rule that matches sets its queue at
//! once and evaluation goes on; of the `pass` rules that match, the last decides, and its queue, if
//! it names one, replaces that of `match` rules. A rule with `quick` is the last that is looked at.
//! RouterOS's marks of packets are the same: each rule that matches replaces the mark, and one
//! without `passthrough` is the last.
//! Weir takes the first rule that matches, so the decisions here are in the order in which the
//! first whose conditions hold is right.

use super::conditions::Conditions;

/// A rule, with the queues that it names at an interface.
pub(super) struct Step {
    pub conditions: Conditions,
    pub is_match: bool,
    pub quick: bool,
    pub queue: Option<Queues>,
    /// Its place among the rules of the file.
    pub rule: usize,
}

/// A queue, and the second one for packets that request low delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Queues(pub usize, pub Option<usize>);

/// Packets that meet the conditions, and those of no decision before, go to the queue; `None` is
/// the default one.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Decision {
    pub conditions: Conditions,
    pub queue: Option<Queues>,
    /// The rule that decides.
    pub rule: usize,
}

/// The decisions of rules.
#[derive(Default)]
pub(super) struct Decisions<'s> {
    pub list: Vec<Decision>,
    /// Whether there were more than [`DECISIONS_MAX`].
    pub is_cut: bool,
    /// The rules that packets met where they came in, whose queue stays unless another is named.
    before: &'s [Step],
}

impl<'s> Decisions<'s> {
    /// The decisions of `steps` about packets for which `before` may have named a queue already.
    pub(super) fn of(steps: &'s [Step], before: &'s [Step]) -> Self {
        let mut this = Self { before, ..Self::default() };
        this.all(steps, &Conditions::default());
        this
    }

    /// Decides about the packets within the conditions.
    fn all(&mut self, steps: &'s [Step], within: &Conditions) {
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.quick) {
            let Some(here) = within.and(&step.conditions) else { continue };
            let seen = steps[..at].iter().filter(|before| !before.quick).chain([step]);
            self.ended(&seen.collect::<Vec<_>>(), &here);
            self.push(&here, None, step.rule);
        }
        let seen: Vec<_> = steps.iter().filter(|step| !step.quick).collect();
        self.ended(&seen, within);
    }

    /// Decides about packets that meet these rules and no other.
    fn ended(&mut self, steps: &[&'s Step], within: &Conditions) {
        let passes: Vec<_> = steps.iter().filter(|step| !step.is_match).collect();
        // Where no `pass` rule up to here names a queue, it does not matter which of them decides.
        let first = passes.iter().position(|pass| pass.queue.is_some()).unwrap_or(passes.len());
        for pass in passes[first..].iter().rev() {
            let Some(here) = within.and(&pass.conditions) else { continue };
            if pass.queue.is_none() {
                self.matched(steps, &here);
            }
            self.push(&here, pass.queue, pass.rule);
            if here == *within || self.is_cut {
                return;
            }
        }
        self.matched(steps, within);
    }

    /// Decides about packets whose last `pass` rule names no queue.
    fn matched(&mut self, steps: &[&'s Step], within: &Conditions) {
        for step in steps.iter().rev().filter(|step| step.is_match && step.queue.is_some()) {
            if let Some(here) = within.and(&step.conditions) {
                self.push(&here, step.queue, step.rule);
            }
        }
        let before = std::mem::take(&mut self.before);
        if !before.is_empty() {
            self.all(before, within);
        }
        self.before = before;
    }

    fn push(&mut self, conditions: &Conditions, queue: Option<Queues>, rule: usize) {
        let near = self.list.len().saturating_sub(COMPARED_MAX);
        if self.list[near..].iter().any(|before| before.conditions.covers(conditions)) {
            return;
        }
        self.is_cut |= self.list.len() >= DECISIONS_MAX;
        if !self.is_cut {
            self.list.push(Decision { conditions: conditions.clone(), queue, rule });
        }
    }
}

/// Returns the same decisions, of which the first that matches counts, with exceptions: where most
/// protocols meet the conditions, those of the others go before it to what they would find behind
/// it, or to `otherwise`.
pub(super) fn with_exceptions(
    given: &[(Conditions, usize)],
    otherwise: usize,
) -> Vec<(Conditions, usize)> {
    let (mut decided, mut covered): (Vec<_>, Vec<Conditions>) = Default::default();
    for (at, (conditions, target)) in given.iter().enumerate() {
        if covered.iter().any(|before| before.covers(conditions)) {
            continue;
        }
        let Some((others, any)) = conditions.exception() else {
            decided.push((conditions.clone(), *target));
            continue;
        };
        let behind = given[at + 1..].iter();
        decided.extend(behind.filter_map(|(one, target)| Some((others.and(one)?, *target))));
        decided.extend([(others, otherwise), (any.clone(), *target)]);
        covered.push(any);
    }
    decided
}

/// Bound: decisions about an interface; a file with more is refused.
pub(super) const DECISIONS_MAX: usize = 1 << 14;
/// How many decisions before a new one are searched for one that leaves it no packets.
pub(super) const COMPARED_MAX: usize = 256;
