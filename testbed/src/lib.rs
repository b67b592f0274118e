//! What a live test is made from: private networks, `weir up` between them, numbered datagrams
//! through it, children that are supervised, conditions that are awaited, and rows.
//!
//! Tests, the lab and the demo use it; no other part of a program does. Invariant: whatever is made
//! here goes with the value that made it, however the test ends.

mod failure;
mod networks;
mod process;
mod stream;
mod until;

pub use failure::{Failure, Result};
pub use networks::{END, Host, LEFT, RIGHT, Testbed, TestbedConfig, wait_for_carrier};
pub use process::{Ended, Process, children, is_alive, signal};
pub use stream::{Ends, Found, Stream, StreamConfig, bind};
pub use until::{PATIENCE, until, until_ok, until_seen, until_some};
