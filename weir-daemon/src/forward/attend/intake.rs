//! Whether the bridges of a forwarder take frames: what is wanted of all loops, and whether they
//! have followed.

use std::sync::Arc;
use std::time::Duration;
use weir_host::watch::Waker;
use weir_link::status::Board;

/// The intake of all loops, as it is requested of them.
pub struct IntakeOfAll {
    boards: Vec<Arc<Board>>,
    /// For each loop; there may be more.
    wakers: Vec<Arc<Waker>>,
    /// The last request: open or closed; `None` before the first.
    wanted: Option<bool>,
    /// How long each loop is waited for, as long as one has not followed.
    due: Option<Duration>,
    /// How long each loop is waited for at once.
    patience: Duration,
}

impl IntakeOfAll {
    /// That of the loops with these boards, which these wakers wake.
    pub fn new(boards: Vec<Arc<Board>>, wakers: Vec<Arc<Waker>>) -> Self {
        Self { boards, wakers, wanted: None, due: None, patience: PATIENCE }
    }

    /// Has the loops open or close the intake of every port.
    pub fn set(&mut self, is_open: bool) {
        (self.wanted, self.due) = (Some(is_open), Some(self.patience));
        for (board, waker) in self.boards.iter().zip(&self.wakers) {
            board.intake.want(is_open);
            waker.wake();
        }
    }

    /// Returns once, when every loop has followed, whether the intake is open.
    ///
    /// A loop may pause for seconds, on a machine that is busy with something else, so this is
    /// called again until it has. The keeper replaces a forwarder of which one never does.
    pub fn followed(&mut self) -> Option<bool> {
        let (is_open, patience) = self.wanted.zip(self.due)?;
        self.due = Some(Duration::ZERO);
        let has = |board: &Arc<Board>| board.intake.wait(is_open, patience).is_some();
        if !self.boards.iter().all(has) {
            return None;
        }
        self.due = None;
        Some(is_open)
    }

    /// Returns whether it was closed last.
    pub fn is_closed(&self) -> bool {
        self.wanted == Some(false)
    }

    /// Returns whether it was ever opened or closed.
    pub fn was_set(&self) -> bool {
        self.wanted.is_some()
    }

    /// Returns how soon to look again, if a loop has not followed.
    pub fn interval(&self) -> Option<Duration> {
        self.due.map(|_| INTERVAL)
    }

    /// Has the measurement of delays begin anew.
    pub fn mark(&self) {
        self.boards.iter().for_each(|board| board.request_mark());
    }
}

/// How long each loop is waited for at once to open or close its intake: most take far less.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often a loop is looked at that has not done so by then.
const INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_link::intake::Done;

    /// Runs two loops as a script says: `open`, `close` and `?` are steps of the first thread, with
    /// the answer it gets; `0` and `1` are loops that follow.
    fn check(steps: &str, expected: &str) {
        let boards: Vec<_> = (0..2).map(|_| Arc::new(Board::new())).collect();
        let wakers = (0..2).map(|_| Arc::new(Waker::new().expect("there are descriptors")));
        let mut intake = IntakeOfAll::new(boards.clone(), wakers.collect());
        intake.patience = Duration::ZERO;
        let mut reported = Vec::new();
        for step in steps.split(' ') {
            match step {
                "open" | "close" => intake.set(step == "open"),
                "?" => reported.push(match intake.followed() {
                    Some(true) => "opened",
                    Some(false) => "closed",
                    None if intake.interval().is_some() => "soon",
                    None => "-",
                }),
                number => {
                    let board = &boards[number.parse::<usize>().expect("a loop")];
                    let request = board.intake.wanted().expect("something is wanted");
                    let (number, is_open) = (request.number, request.open);
                    board.intake.report(Done { number, is_open, by_all: true });
                }
            }
        }
        assert_eq!(reported.join(" "), expected, "{steps}");
    }

    #[test]
    fn the_intake_is_open_once_every_loop_has_opened_it() {
        check("?", "-");
        check("open ? 0 ? 1 ? ?", "soon soon opened -");
        check("open 1 0 ? close ? 1 ? 0 ?", "opened soon soon closed");
        check("open 0 close ? 1 ? 0 ? ?", "soon soon closed -");
        check("open 0 1 close 0 1 ?", "closed");
    }
}
