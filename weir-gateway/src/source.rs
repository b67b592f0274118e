//! The interface between server and what is on view. Each kind of source is a folder or a file of
//! its own.

use crate::http::Fault;
use crate::json::{
    About, Beside, BesideQuery, Fork, ForkQuery, Heat, HeatQuery, History, HistoryQuery, Knob,
    KnobsQuery, Mark, Packets, PacketsQuery, Predict, Prediction, Promises, PromisesQuery,
    SpanQuery, Table,
};
use crate::page::feed::Feed;
use std::os::unix::net::UnixStream;
use weir_control::client::await_on_behalf;
use weir_control::protocol::Right;
use weir_sim::whatif::WhatIf;

/// A link, record or report on view. Each call comes on the thread of a client.
pub trait Source: Send + Sync {
    /// Returns what there is, and what a client with this right can do with it.
    ///
    /// # Errors
    /// When it is not known now.
    fn about(&self, right: Right) -> Result<About, Fault>;

    /// Returns classes over time.
    ///
    /// # Errors
    /// When there is no such direction.
    fn history(&self, query: &HistoryQuery) -> Result<History, Fault>;

    /// Returns the delays of a class over time.
    ///
    /// # Errors
    /// When there is no such class.
    fn heat(&self, query: &HeatQuery) -> Result<Heat, Fault>;

    /// Returns what happened.
    ///
    /// # Errors
    /// When it is not known.
    fn events(&self, query: &SpanQuery) -> Result<Vec<Mark>, Fault> {
        let _none_happened = query;
        Ok(Vec::new())
    }

    /// Returns what can be set.
    ///
    /// # Errors
    /// When nothing can.
    fn knobs(&self, query: &KnobsQuery) -> Result<Vec<Knob>, Fault> {
        let _nothing = query;
        Err(absent("settings"))
    }

    /// Returns what the policy promises, and what it could.
    ///
    /// # Errors
    /// When there is no policy.
    fn promises(&self, query: &PromisesQuery) -> Result<Promises, Fault> {
        let _nothing = query;
        Err(absent("promises"))
    }

    /// Returns what a change would lead to, and changes nothing.
    ///
    /// # Errors
    /// When it cannot be predicted.
    fn predict(&self, predict: &Predict) -> Result<Prediction, Fault> {
        let _nothing = predict;
        Err(absent("settings"))
    }

    /// Returns packets, each with what its delay is made of.
    ///
    /// # Errors
    /// When there are none.
    fn packets(&self, query: &PacketsQuery) -> Result<Packets, Fault> {
        let _nothing = query;
        Err(absent("packets"))
    }

    /// Lets the simulator go on from a moment of the past.
    ///
    /// # Errors
    /// When it cannot.
    fn fork(&self, query: &ForkQuery) -> Result<Fork, Fault> {
        let _nothing = query;
        Err(absent("state to go on from"))
    }

    /// Simulates what comes after a moment of the past with senders that react.
    ///
    /// # Errors
    /// When it cannot.
    fn reacting(&self, query: &ForkQuery) -> Result<WhatIf, Fault> {
        let _nothing = query;
        Err(absent("senders"))
    }

    /// Returns what happened and a simulation of the same.
    ///
    /// # Errors
    /// When nothing was simulated beside it.
    fn beside(&self, query: &BesideQuery) -> Result<Beside, Fault> {
        let _nothing = query;
        let text = "nothing was simulated beside it; `weir demo --view` does that";
        Err(Fault::new(404, text))
    }

    /// Returns the table of many runs.
    ///
    /// # Errors
    /// When it is not of many runs.
    fn runs(&self) -> Result<Table, Fault> {
        Err(Fault::new(
            404,
            "this is one run; `weir sweep --view` and `weir compare --view` show many",
        ))
    }

    /// Returns what happens now, if something still does.
    fn feed(&self) -> Option<&Feed> {
        None
    }
}

/// The way to the control socket of a link.
pub trait Contact: Send + Sync {
    /// Returns a new connection, which acts for a client with this right at most. The link's answer
    /// to that is still to be read ([`weir_control::client::begin_on_behalf`]).
    ///
    /// # Errors
    /// When there is none; the text says what to do.
    fn connect(&self, right: Right) -> Result<UnixStream, String>;

    /// Returns whether those who connect so may change the link.
    fn may_change(&self) -> bool;
}

/// Returns a new connection to a link, on which requests can be sent.
///
/// # Errors
/// When there is none; the text says what to do.
pub fn link(contact: &dyn Contact, right: Right) -> Result<UnixStream, String> {
    await_on_behalf(contact.connect(right)?)
}

/// Refuses what a source does not have.
pub(crate) fn absent(what: &str) -> Fault {
    Fault::new(404, format!("there are no {what} here; a live link or a record of one has them"))
}
