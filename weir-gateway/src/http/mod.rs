//! HTTP/1.1: connections, heads, who may ask, and answers.
//!
//! A [`serve::Server`] accepts clients at its endpoints, each with a router of axum behind it.
//! Between a socket and hyper stands [`wire`], which reads each head first and has the limits of
//! time; [`talk`] is what both ends of a connection know of it. [`guard`] says who may ask.

mod ask;
pub mod fault;
pub mod guard;
pub mod heading;
pub mod memory;
pub mod respond;
pub mod serve;
pub mod talk;
pub mod wire;

pub use ask::{Asking, body};
pub use fault::Fault;
