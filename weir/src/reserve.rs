//! `weir reserve`: reservations of this host's flows, as sender or receiver.
//!
//! `options.rs` reads what is written on the command line, `flow.rs` runs a flow until it ends, and
//! `running.rs` lists and ends the programs that do so.

mod flow;
mod options;
mod running;

use crate::Run;
use crate::output::{Exit, Output};
use options::{Receive, Send, SessionText};

/// Reserves a rate, and a bound on delay, for a flow on the routers of its path.
///
/// The sender's host announces the flow (`weir reserve send`), the receiver's host reserves for it
/// (`weir reserve receive`), and each router that speaks RSVP, such as a `weir up` with
/// [deployment.rsvp], makes it a class or refuses it. Both commands run as long as the reservation
/// is to last. Needs CAP_NET_RAW. docs/guide/reserve.md shows it step by step.
#[derive(clap::Args)]
pub struct Reserve {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Announces a flow that this host sends, until Ctrl-C.
    ///
    /// It sends no packet of the flow. Routers learn from it where the flow comes from and what it
    /// sends at most; receivers can reserve then. What receivers reserve is printed.
    Send(Send),
    /// Reserves for a flow that this host receives, until Ctrl-C.
    ///
    /// Waits until the flow is announced, reserves, and says who accepted or refused it and why.
    /// Without other options it asks for controlled load of what the sender announces. Start it
    /// before the sender: one that is announced already is heard of with the next refresh of the
    /// last router. Exit codes: 0 it was accepted; 1 it was refused, or nobody answered.
    Receive(Receive),
    /// Lists the flows that commands on this host announce or reserve for.
    List,
    /// Ends such commands, and waits until the reservation is taken back.
    Release {
        /// The destination of the flow, as ADDRESS:PORT.
        #[arg(required_unless_present = "all")]
        flow: Option<SessionText>,
        /// End all of them.
        #[arg(long, conflicts_with = "flow")]
        all: bool,
    },
}

impl Run for Reserve {
    fn run(self, output: &Output) -> Exit {
        match self.verb {
            Verb::Send(send) => send.run(output),
            Verb::Receive(receive) => receive.run(output),
            Verb::List => running::list(output),
            Verb::Release { flow, .. } => running::release(flow, output),
        }
    }
}
