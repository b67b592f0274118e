//! A figure that the README or the documentation claims: its goal, what was measured, the verdict.

use serde::Serialize;

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What is measured.
    pub figure: String,
    /// The goal.
    pub goal: String,
    /// The measured value.
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

/// The figures as a table; nothing if there are none.
pub fn table(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let width = |of: fn(&Figure) -> &str, title: &str| {
        figures.iter().map(|row| of(row).len()).max().unwrap_or(0).max(title.len())
    };
    let [figure, goal, measured] = [
        width(|row| &row.figure, "figure"),
        width(|row| &row.goal, "goal"),
        width(|row| &row.measured, "measured"),
    ];
    let line = |cells: [&str; 4]| {
        let [a, b, c, d] = cells;
        format!("{a:<figure$}  {b:<goal$}  {c:>measured$}  {d}\n")
    };
    let mut text = line(["figure", "goal", "measured", "verdict"]);
    for row in figures {
        text += &line([&row.figure, &row.goal, &row.measured, row.verdict()]);
    }
    text
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
        let text = table(&[rows[0].0.clone(), rows[1].0.clone()]);
        assert_eq!(
            text,
            "figure  goal         measured  verdict\n\
             a       at most 2.5      2.50  holds\n\
             a       at most 2.5      2.51  MISSED\n"
        );
        assert_eq!(table(&[]), "");
        let rounds = |least, most| {
            Figure::at_most_in_rounds("a".to_owned(), 2.5, 2.4, (least, most)).verdict()
        };
        assert_eq!(rounds(2.3, 2.5), "holds");
        assert_eq!(rounds(2.3, 2.6), "undecided: rounds differ");
    }
}
