//! Calls that block: they return when the connection is there or the data has come.
//!
//! Invariant: a call is settled once, at the time at which its condition became true.

use super::{Driver, Stop, seconds};
use crate::connection::Connection;

/// A call that has not returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pending {
    /// When it returns by the script.
    pub(super) end: i64,
    /// The condition that ends the call.
    pub(super) wait: Wait,
}

/// The condition that ends a blocking call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// The handshake is complete.
    Connection,
    /// So many bytes; none are the end of the data.
    Data(u64),
}

impl Wait {
    fn is_over(self, connection: &Connection) -> bool {
        match self {
            Wait::Connection => connection.is_open(),
            Wait::Data(bytes) => connection.readable() >= bytes,
        }
    }
}

impl Driver {
    /// Lets calls return whose wait is over; those that are late are a difference.
    pub(super) fn settle(&mut self) -> Result<(), Stop> {
        let pending = std::mem::take(&mut self.pending);
        for call in pending {
            let is_over =
                self.connection.as_ref().is_some_and(|connection| call.wait.is_over(connection));
            let (now, end) = (self.now, call.end);
            let is_late = now > end + self.tolerance;
            if is_late || is_over && now < end - self.tolerance {
                let (end, now, wait) = (seconds(end), seconds(now), call.wait);
                let what = format!("{wait:?}: expected the call to end at {end}, it is {now}");
                return Err(Stop::Differs(what));
            }
            if is_over {
                self.end_call(call.wait);
            } else {
                self.pending.push(call);
            }
        }
        Ok(())
    }

    fn end_call(&mut self, wait: Wait) {
        if let (Wait::Data(bytes), Some(connection)) = (wait, &mut self.connection) {
            connection.read(bytes);
        }
    }
}
