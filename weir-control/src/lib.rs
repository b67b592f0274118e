//! The control API: a Unix socket on which a running link answers.
//!
//! A client sends one JSON request on a line and reads one JSON answer on a line; [`protocol`]
//! defines both. On the same socket, and on a TCP address if the deployment has one ([`web`]), the
//! same requests are routes of HTTP ([`http`]). [`places`] says where the sockets are, [`listen`]
//! makes one, [`server`] answers on it. [`texts`] edits and checks the texts of a deployment.

pub mod client;
pub mod http;
pub mod listen;
pub mod metrics;
pub mod places;
pub mod protocol;
pub mod server;
pub mod service;
pub mod texts;
pub mod web;

pub use weir_host::printable;
