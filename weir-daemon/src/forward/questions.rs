//! Questions to the process of reservations, which knows the sessions.

use crate::keeper::rsvp::AskSessions;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_host::channel::Channel;
use weir_link::status::reservations::{Reservations, SESSIONS_DEFAULT, SESSIONS_MAX};

/// Where they are asked; nowhere as long as the keeper gave no channel.
#[derive(Default)]
pub struct Questions(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    channel: Option<Channel>,
    /// The number of the last question.
    last: u64,
}

impl Questions {
    /// Sends questions by this channel from now on.
    pub fn take(&self, channel: Channel) {
        self.lock().channel = Some(channel);
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
        let mut asked = self.lock();
        asked.last += 1;
        let number = asked.last;
        let channel = asked.channel.as_ref().ok_or(NONE)?;
        channel.send(&AskSessions { number, limit }, &[]).map_err(|_| SILENT)?;
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let answer = channel.receive::<(u64, Reservations)>(left).map_err(|_| SILENT)?;
            match answer.ok_or(SILENT)? {
                ((answered, reservations), _) if answered == number => return Ok(reservations),
                // To a question whose reader did not wait.
                _ => {}
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NONE: &str = "the link takes no reservations, or has just begun; write [deployment.rsvp] and \
                    use `weir restart`, or ask again";
const SILENT: &str = "the process of reservations does not answer; it is started again if it died";
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
        questions.take(channel);
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
