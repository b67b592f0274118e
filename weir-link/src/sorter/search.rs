//! How a program finds a word among the arms of a node: what both kinds of program have in common.

use super::graph::{Goal, Node};

/// A test of the word that was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Test {
    /// It is the number.
    Equal,
    /// It is greater than the number.
    Above,
    /// It is not less than the number.
    AtLeast,
}

/// Where a jump goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target<L> {
    /// The program ends with this ring.
    Ring(u8),
    /// It goes on at this label.
    To(L),
}

/// The numbers from `low` to `high`.
#[derive(Clone, Copy)]
pub(super) struct Range {
    low: u32,
    high: u32,
}

/// A program in the making.
pub(super) trait Branches {
    /// A place in the program.
    type Label: Copy;

    /// Returns a new label, to be placed once.
    fn label(&mut self) -> Self::Label;

    /// Places a label before the next instruction.
    fn here(&mut self, label: Self::Label);

    /// Goes to `yes` if the word that was loaded passes the test, else to `no`.
    fn jump(&mut self, test: Test, number: u32, yes: Target<Self::Label>, no: Target<Self::Label>);

    /// Returns where a decision of the graph that is written leads.
    fn target(&mut self, goal: Goal) -> Target<Self::Label>;

    /// Goes on by the word that was loaded for `node`.
    fn search(&mut self, node: &Node) {
        let otherwise = self.target(node.otherwise);
        self.search_arms(&node.arms, Range { low: 0, high: u32::MAX }, otherwise);
    }

    /// Searches arms for a word that is within `bounds`.
    fn search_arms(
        &mut self,
        arms: &[(u32, u32, Goal)],
        bounds: Range,
        otherwise: Target<Self::Label>,
    ) {
        if arms.len() <= LINEAR_MAX && arms.iter().all(|arm| arm.0 == arm.1) {
            return self.search_singles(arms, otherwise);
        }
        if let [(low, high, goal)] = *arms {
            return self.search_range(Range { low, high }, goal, bounds, otherwise);
        }
        let (left_arms, right_arms) = arms.split_at(arms.len() / 2);
        let pivot = right_arms[0].0;
        let [left, right] = [self.label(), self.label()];
        self.jump(Test::AtLeast, pivot, Target::To(right), Target::To(left));
        self.here(left);
        self.search_arms(left_arms, Range { high: pivot - 1, ..bounds }, otherwise);
        self.here(right);
        self.search_arms(right_arms, Range { low: pivot, ..bounds }, otherwise);
    }

    /// Compares with one number after another.
    fn search_singles(&mut self, arms: &[(u32, u32, Goal)], otherwise: Target<Self::Label>) {
        for (place, (number, _, goal)) in arms.iter().enumerate() {
            let yes = self.target(*goal);
            if place + 1 == arms.len() {
                return self.jump(Test::Equal, *number, yes, otherwise);
            }
            let next = self.label();
            self.jump(Test::Equal, *number, yes, Target::To(next));
            self.here(next);
        }
    }

    /// Compares with the ends of a range, unless they are those of `bounds`.
    fn search_range(
        &mut self,
        range: Range,
        goal: Goal,
        bounds: Range,
        otherwise: Target<Self::Label>,
    ) {
        let yes = self.target(goal);
        if range.high == bounds.high {
            return self.jump(Test::AtLeast, range.low, yes, otherwise);
        }
        if range.low > bounds.low {
            let next = self.label();
            self.jump(Test::AtLeast, range.low, Target::To(next), otherwise);
            self.here(next);
        }
        self.jump(Test::Above, range.high, otherwise, yes);
    }
}

/// Single numbers that are compared one after another; more are searched by halves.
const LINEAR_MAX: usize = 4;
