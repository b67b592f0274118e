//! Reservations by RSVP: messages, the state machine of a router or host, integrated services.
//!
//! Nothing here opens a socket, reads a clock or draws an unseeded random number. A driver (the
//! simulator's node, the router, `weir reserve`) hands packets and the time to a [`node::Node`] and
//! carries out the actions that it returns. The same calls give the same actions.
//!
//! - [`wire`]: messages and objects as bytes, parsed without trust [rfc2205 §3, rfc2961].
//! - [`intserv`]: Tspecs, Rspecs, adspecs and their arithmetic [rfc2210, rfc2211, rfc2212].
//! - [`integrity`]: keyed digests and sequence numbers `[rfc2747]`.
//! - [`admission`]: which reservations a link takes, and the classes that they become.
//! - [`receiver`]: the reservation for the senders of a session, and when it is made.
//! - [`ip`]: the IP packets that carry messages.
//! - [`node`]: path state, reservation state, merging, admission, timers [rfc2205, rfc2209].
//!
//! Floats occur only where the protocol has them: the rates and sizes of [rfc2210 §3] are `f32` on
//! the wire, and formulas of `[rfc2212]`, and delay bounds, are computed in `f64` from them.

pub mod admission;
pub mod integrity;
pub mod intserv;
pub mod ip;
pub mod node;
pub mod receiver;
pub mod wire;

pub use admission::Admission;
pub use intserv::{Adspec, Flowspec, Rspec, Tspec};
pub use node::{Action, Node, NodeParams};
pub use wire::{Filter, Message, Session, Style};
