//! The control API: a Unix socket on which a running link answers.
//!
//! A client sends one JSON request on a line and reads one JSON answer on a line; [`protocol`]
//! defines both. The socket is readable only for the user who runs the link.

pub mod client;
pub mod protocol;
pub mod server;
