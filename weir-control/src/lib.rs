//! The control API: a Unix socket on which a running link answers.
//!
//! A client sends one JSON request on a line and reads one JSON answer on a line; [`protocol`]
//! defines both. [`places`] says where the sockets are, [`listen`] makes one, [`server`] answers on
//! it.

pub mod client;
pub mod listen;
pub mod places;
pub mod protocol;
pub mod server;
pub mod service;

pub use weir_live::printable;
