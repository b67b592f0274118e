//! The control API: a Unix socket on which a running link answers.
//!
//! A client sends one JSON request on a line and reads one JSON answer on a line; [`protocol`]
//! defines both. [`places`] says where the sockets are, [`listen`] makes one, [`server`] answers on
//! it, [`client`] asks. [`texts`] edits and checks the texts of a deployment. HTTP is not spoken
//! here: `weir-gateway` does, a client of the control socket like others, and [`gateway`] is what
//! its process and the keeper tell each other.

pub mod access;
pub mod circuits;
pub mod client;
pub mod gateway;
pub mod listen;
pub mod places;
pub mod protocol;
pub mod server;
pub mod service;
pub mod texts;

pub use weir_host::printable;
