//! A figure that the README or the documentation claims: its goal, what was measured, the verdict.

use serde::Serialize;
use weir_policy::table::Table;

/// A figure with its goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The measured quantity.
    pub figure: String,
    /// The goal, in words.
    pub goal: String,
    /// The measured value, with its unit.
    pub measured: String,
    /// Whether the goal is met.
    pub holds: bool,
    /// Whether all rounds say so; false where the machine was too busy to tell.
    pub decided: bool,
}

impl Figure {
    /// Returns a figure that must be at most `goal`.
    pub fn at_most(figure: String, goal: f64, measured: f64) -> Self {
        let goal_text = format!("at most {goal}");
        Self {
            figure,
            goal: goal_text,
            measured: format!("{measured:.2}"),
            holds: measured <= goal,
            decided: true,
        }
    }

    /// Returns a figure that must be at most `goal`, and of which single rounds measured values
    /// from `least` to `most`.
    pub fn at_most_in_rounds(
        figure: String,
        goal: f64,
        measured: f64,
        (least, most): (f64, f64),
    ) -> Self {
        let decided = most <= goal || least > goal;
        Self { decided, ..Self::at_most(figure, goal, measured) }
    }

    /// Returns a figure that must be at least `goal`.
    pub fn at_least(figure: String, goal: f64, measured: f64) -> Self {
        let goal_text = format!("at least {goal}");
        let holds = measured >= goal;
        Self { figure, goal: goal_text, measured: format!("{measured:.2}"), holds, decided: true }
    }

    /// Returns the verdict in a word.
    fn verdict(&self) -> &'static str {
        match (self.decided, self.holds) {
            (false, _) => "undecided: rounds differ",
            (true, true) => "holds",
            (true, false) => "MISSED",
        }
    }
}

/// The figures as a table.
pub fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new(["figure", "goal", "measured", "verdict"]).words(&[1, 3]);
    for row in figures {
        table.row([&row.figure, &row.goal, &row.measured, row.verdict()]);
        if !(row.holds && row.decided) {
            table.mark(3);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_at_its_bound_and_missed_beyond() {
        let rows = [
            (Figure::at_most("a".to_owned(), 2.5, 2.5), true),
            (Figure::at_most("a".to_owned(), 2.5, 2.51), false),
            (Figure::at_least("b".to_owned(), 0.94, 0.94), true),
            (Figure::at_least("b".to_owned(), 0.94, 0.93), false),
        ];
        for (figure, holds) in &rows {
            assert_eq!(figure.holds, *holds, "{figure:?}");
        }
        let text = table(&[rows[0].0.clone(), rows[1].0.clone()]).to_string();
        assert!(text.contains("a       at most 2.5      2.51  MISSED"), "{text}");
        let rounds = |least, most| {
            Figure::at_most_in_rounds("a".to_owned(), 2.5, 2.4, (least, most)).verdict()
        };
        assert_eq!(rounds(2.3, 2.5), "holds");
        assert_eq!(rounds(2.3, 2.6), "undecided: rounds differ");
    }
}
