//! Questions to the processes of reservations and of circuits, which know sessions and circuits.

use crate::keeper::circuits::{AskCircuits, CircuitsReply};
use crate::keeper::rsvp::AskSessions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_control::circuits::{CIRCUITS_MAX, Circuits, Fed};
use weir_host::channel::Channel;
use weir_link::status::reservations::{Reservations, SESSIONS_DEFAULT, SESSIONS_MAX};

/// Where they are asked; nowhere as long as the keeper gave no channel.
#[derive(Default)]
pub struct Questions {
    reservations: Mutex<Asked>,
    circuits: Mutex<Asked>,
}

/// A process that replies to questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// That of reservations.
    Reservations,
    /// That of circuits.
    Circuits,
}

#[derive(Default)]
struct Asked {
    channel: Option<Channel>,
    /// The number of the last question.
    last: u64,
}

impl Questions {
    /// Sends questions to this process by this channel from now on.
    pub fn take(&self, whom: Asks, channel: Channel) {
        let asked = match whom {
            Asks::Reservations => &self.reservations,
            Asks::Circuits => &self.circuits,
        };
        lock(asked).channel = Some(channel);
    }

    /// Returns the circuits, the first `limit` of them described.
    ///
    /// # Errors
    /// When the link has no circuits that come and go, or their process does not answer.
    pub fn circuits(&self, limit: Option<u32>) -> Result<Circuits, String> {
        if limit.is_some_and(|limit| limit > CIRCUITS_MAX) {
            return Err(format!("an answer holds at most {CIRCUITS_MAX} circuits; ask for fewer"));
        }
        match self.of_circuits(|number| AskCircuits::Describe { number, limit })? {
            CircuitsReply::Described(circuits) => Ok(*circuits),
            CircuitsReply::Fed(_) => Err(OTHER.to_owned()),
        }
    }

    /// Gives lines of a feed to the process of circuits.
    ///
    /// # Errors
    /// When the deployment hears of circuits otherwise, or the process does not answer.
    pub fn feed(&self, lines: &str, whole: bool) -> Result<Fed, String> {
        let lines = lines.to_owned();
        match self.of_circuits(|number| AskCircuits::Feed { number, lines, whole })? {
            CircuitsReply::Fed(outcome) => outcome,
            CircuitsReply::Described(_) => Err(OTHER.to_owned()),
        }
    }

    fn of_circuits(
        &self,
        question: impl FnOnce(u64) -> AskCircuits,
    ) -> Result<CircuitsReply, String> {
        lock(&self.circuits).ask(question, [NO_CIRCUITS, NO_ANSWER]).map_err(str::to_owned)
    }

    /// Returns the sessions, the first `limit` of them described.
    ///
    /// # Errors
    /// When the link takes no reservations, or their process does not answer.
    pub fn ask(&self, limit: Option<u32>) -> Result<Reservations, String> {
        let limit = limit.unwrap_or(SESSIONS_DEFAULT);
        if limit > SESSIONS_MAX {
            return Err(format!(
                "{limit} sessions are more than an answer holds; ask for at most {SESSIONS_MAX}"
            ));
        }
        let question = |number| AskSessions { number, limit };
        lock(&self.reservations).ask(question, [NONE, SILENT]).map_err(str::to_owned)
    }
}

impl Asked {
    /// Sends a question with its number; returns the answer that has the number, or the error of a
    /// process that is not there, or does not answer.
    fn ask<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        question: impl FnOnce(u64) -> Q,
        [none, silent]: [&'static str; 2],
    ) -> Result<A, &'static str> {
        self.last += 1;
        let number = self.last;
        let channel = self.channel.as_ref().ok_or(none)?;
        channel.send(&question(number), &[]).map_err(|_| silent)?;
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let answer = channel.receive::<(u64, A)>(left).map_err(|_| silent)?;
            match answer.ok_or(silent)? {
                ((answered, answer), _) if answered == number => return Ok(answer),
                // To a question whose reader did not wait.
                _ => {}
            }
        }
    }
}

fn lock(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

const NONE: &str = "the link takes no reservations, or has just begun; write [deployment.rsvp] and \
                    use `weir restart`, or ask again";
const SILENT: &str = "the process of reservations does not answer; it is started again if it died";
const NO_CIRCUITS: &str = "the link has no circuits that come and go, or their process does not \
                           run; write [deployment.circuits] and use `weir restart`, or see the \
                           faults of `weir status`";
const NO_ANSWER: &str = "the process of circuits does not answer; it is started again if it died";
const OTHER: &str = "the process of circuits answered something else";
/// How long the process may take: it does nothing that waits.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Asks once where the process gives these answers: the number of a question, and how many
    /// sessions there are. Without any it closes its end.
    fn check(answers: &'static [(u64, u64)], expected: Result<u64, &str>) {
        let questions = Questions::default();
        let (channel, theirs) = Channel::pair().expect("there are descriptors");
        questions.take(Asks::Reservations, channel);
        let process = thread::spawn(move || {
            let patience = Duration::from_secs(20);
            let asked = theirs.receive::<AskSessions>(patience).expect("it is open");
            for (number, sessions) in answers {
                let answer = Reservations { sessions: *sessions, ..Reservations::default() };
                theirs.send(&(*number, answer), &[]).expect("it is read");
            }
            asked.map(|(asked, _none)| asked)
        });
        let found = questions.ask(Some(7)).map(|found| found.sessions);
        assert_eq!(found, expected.map_err(str::to_owned), "{answers:?}");
        let asked = process.join().expect("it does not panic");
        assert_eq!(asked, Some(AskSessions { number: 1, limit: 7 }), "{answers:?}");
    }

    #[test]
    fn an_answer_belongs_to_its_question() {
        check(&[(1, 5)], Ok(5));
        // The reader of an earlier question did not wait for its answer.
        check(&[(0, 9), (1, 5)], Ok(5));
        check(&[], Err(SILENT));
        check(&[(0, 9)], Err(SILENT));
    }

    #[test]
    fn nothing_is_asked_that_cannot_be_answered() {
        let questions = Questions::default();
        assert_eq!(questions.ask(None), Err(NONE.to_owned()));
        let why = questions.ask(Some(SESSIONS_MAX + 1)).expect_err("it is too many");
        assert!(why.starts_with("100001 sessions are more"), "{why}");
    }
}
