//! The parts that the processes beside the forwarder share: they give up every right, and are
//! clients of the control socket, which they cannot open.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use weir_control::client;
use weir_control::protocol::{Answer, Entry, Origin, Request, Texts};
use weir_host::precedence::set_niceness;
use weir_host::sandbox::{self, SandboxConfig, User};

/// Becomes another user without capabilities; `user` is that of the deployment, if it names one.
///
/// # Errors
/// When the system refuses.
pub fn give_up_rights(user: Option<&str>) -> Result<(), String> {
    // Frames go first. Where that is not allowed, the process does all the same.
    let _as_before = set_niceness(NICENESS);
    // By the number of this process and not of the keeper: who has the user of another process may
    // end that.
    let own = User::OfLink(std::process::id());
    let dropped = sandbox::drop_capabilities(user.map_or(own, User::Named), false);
    dropped.map(drop).map_err(|error| error.to_string())
}

/// Enters the sandbox: from now on nothing is opened.
///
/// # Errors
/// When the system refuses.
pub fn enter_sandbox() -> Result<(), String> {
    let entered =
        sandbox::enter(&SandboxConfig { locks_memory: false, ..SandboxConfig::default() });
    entered.map(drop).map_err(|error| error.to_string())
}

/// Asks the keeper for a connection to the control socket.
pub type Connect = Box<dyn FnMut() -> Result<UnixStream, String> + Send>;

/// A client of the link, which sees what others change.
pub struct LinkClient {
    connect: Connect,
    connection: Option<UnixStream>,
    /// The reason of its own changes in the history of the link.
    reason: &'static str,
    seen: Seen,
}

/// The part of the link's history that is known.
#[derive(Default)]
struct Seen {
    /// The number of the last change of others.
    others: u64,
    /// The number of the last change.
    last: u64,
}

impl LinkClient {
    /// A client that makes its changes for this reason.
    pub fn new(reason: &'static str, connect: Connect) -> Self {
        Self { connect, connection: None, reason, seen: Seen::default() }
    }

    /// Returns the texts of the link if others changed them.
    pub fn changed_texts(&mut self) -> Option<Texts> {
        let Ok(Answer::Log(entries)) = self.call(&Request::Log {}) else { return None };
        if !self.seen.update(&entries, self.reason) {
            return None;
        }
        match self.call(&Request::Texts {}) {
            Ok(Answer::Texts(texts)) => Some(*texts),
            _ => {
                // With an empty history every entry is new, so the texts are read again.
                self.seen = Seen::default();
                None
            }
        }
    }

    /// Returns the texts of the link.
    ///
    /// # Errors
    /// When it gives none.
    pub fn texts(&mut self) -> Result<Texts, String> {
        if let Answer::Log(entries) = self.call(&Request::Log {})? {
            self.seen.update(&entries, self.reason);
        }
        match self.call(&Request::Texts {})? {
            Answer::Texts(texts) => Ok(*texts),
            Answer::Error(why) => Err(why),
            _ => Err("the link gives no texts".to_owned()),
        }
    }

    /// Sends a request to the link, by another connection if this one is broken: a forwarder may
    /// have been replaced.
    ///
    /// # Errors
    /// When the link does not answer for ten seconds.
    pub fn call(&mut self, request: &Request) -> Result<Answer, String> {
        let mut why = String::new();
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                thread::sleep(ATTEMPT_PAUSE);
            }
            match self.connected().and_then(|link| client::call_on(link, request)) {
                Ok(answer) => return Ok(answer),
                Err(error) => (why, self.connection) = (error, None),
            }
        }
        Err(why)
    }

    fn connected(&mut self) -> Result<&UnixStream, String> {
        if self.connection.is_none() {
            self.connection = Some((self.connect)()?);
        }
        self.connection.as_ref().ok_or_else(|| "there is no connection".to_owned())
    }
}

impl Seen {
    /// Takes the latest entries of the history; returns whether others may have made a change since
    /// the last call: one is among them, or so many were made that some are not.
    fn update(&mut self, entries: &[Entry], reason: &str) -> bool {
        let is_of_others = |entry: &&Entry| entry.origin != Origin::Class || entry.reason != reason;
        let others = entries.iter().rfind(is_of_others).map(|entry| entry.number);
        let is_cut = entries.first().is_some_and(|first| first.number > self.last + 1);
        let is_new = others.is_some_and(|number| number != self.others) || is_cut;
        self.others = others.unwrap_or(self.others);
        self.last = entries.last().map_or(self.last, |entry| entry.number);
        is_new
    }
}

/// Returns why a change was not made.
///
/// # Errors
/// The reason.
pub fn refused(answer: Answer) -> Result<(), String> {
    match answer {
        Answer::Changed(changed) if changed.errors == 0 => Ok(()),
        Answer::Changed(changed) => Err(changed.text.trim().to_owned()),
        Answer::Error(why) => Err(why),
        _ => Err("the link gives another answer than to a change".to_owned()),
    }
}

/// Messages of neighbours may wait; frames may not.
const NICENESS: i32 = 5;
/// Ten seconds: a forwarder that died is replaced sooner.
const ATTEMPTS_MAX: u32 = 20;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: &str = "reservations by RSVP";

    /// Updates twice from a history: entries with numbers, of others or not.
    fn check(before: &[(u64, bool)], now: &[(u64, bool)], changed: bool) {
        let entry = |(number, of_others): &(u64, bool)| Entry {
            number: *number,
            origin: if *of_others { Origin::Reload } else { Origin::Class },
            reason: REASON.to_owned(),
            ..Entry::default()
        };
        let [before, now] = [before, now].map(|rows| rows.iter().map(entry).collect::<Vec<_>>());
        let mut seen = Seen::default();
        seen.update(&before, REASON);
        assert_eq!(seen.update(&now, REASON), changed, "{before:?} {now:?}");
        assert!(!seen.update(&now, REASON), "it is reported once: {now:?}");
    }

    #[test]
    fn a_change_was_made_unless_the_link_says_why_not() {
        let changed = |errors, text: &str| {
            let text = text.to_owned();
            let changed = weir_control::protocol::Changed { errors, text, ..Default::default() };
            Answer::Changed(Box::new(changed))
        };
        let rows = [
            (changed(0, "a warning\n"), Ok(())),
            (changed(1, "no room\n\n"), Err("no room")),
            (Answer::Error("busy".to_owned()), Err("busy")),
            (Answer::Done, Err("the link gives another answer than to a change")),
        ];
        for (answer, expected) in rows {
            let what = format!("{answer:?}");
            assert_eq!(refused(answer), expected.map_err(str::to_owned), "{what}");
        }
    }

    #[test]
    fn a_change_by_others_is_noticed_even_where_the_history_forgot_it() {
        check(&[(1, true)], &[(1, true)], false);
        check(&[(1, true), (2, false)], &[(1, true), (2, false), (3, false)], false);
        check(&[(1, true), (2, false)], &[(1, true), (2, false), (3, true)], true);
        check(&[(1, true), (2, false)], &[(2, false), (3, true), (4, false)], true);
        // Old entries went, and all later ones are known.
        check(&[(1, true), (2, false)], &[(2, false), (3, false)], false);
        // The reload may have been number 3.
        check(&[(1, true), (2, false)], &[(4, false), (5, false)], true);
        check(&[], &[(1, false)], false);
    }
}
