//! The tests of reservations, one program: messages, networks of nodes, an oracle.

mod admission;
mod common;
mod golden;
mod hostile;
mod messages;
mod network;
mod oracle;
#[path = "../../../weir-core/tests/it/common/seeds.rs"]
mod seeds;
