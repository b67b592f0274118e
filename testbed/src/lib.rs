//! The parts of a live test: private networks, `weir up` between them, numbered datagrams through
//! it, children that are supervised, conditions that are awaited, and rows.
//!
//! ```no_run
//! # const POLICY: &str = "";
//! use weir_testbed::{Scene, Stream, StreamConfig, until};
//!
//! # fn example() -> weir_testbed::Result<()> {
//! let scene = Scene::plan("weir", POLICY).deployment("on_exit = \"open\"").start()?;
//! let stream = Stream::numbered(&scene.testbed, StreamConfig::default())?;
//! stream.await_another()?;
//! let former = scene.forwarder()?;
//! weir_testbed::signal(former, "KILL")?;
//! until("another forwarder", || scene.forwarder().is_ok_and(|now| now != former))?;
//! stream.await_another()?;
//! assert_eq!(stream.finish()?.repeated, 0);
//! # Ok(())
//! # }
//! ```
//!
//! Tests, the lab and the demo use it; no other part of a program does. Invariant: whatever is made
//! here goes with the value that made it, however the test ends.

mod cable;
mod failure;
pub mod firewall;
mod flood;
pub mod groups;
mod netlink;
mod networks;
mod process;
pub mod reserving;
mod routers;
#[cfg(feature = "rows")]
pub mod rows;
mod running;
mod scene;
mod stream;
mod until;

pub use cable::{CableEnd, connect, wait_for_carrier};
pub use failure::{Failure, Result};
pub use flood::{Flood, FloodConfig, exchange};
pub use netlink::{Netlink, Vxlan};
pub use networks::{END, Host, LEFT, RIGHT, Testbed, TestbedConfig};
pub use process::{Ended, Process, children, has_argument, is_alive, signal};
pub use routers::{Routers, Shaped};
pub use running::RunningBridge;
pub use scene::{PortKind, Scene, ScenePlan, end_all, has_drops, processes_in};
pub use stream::{Ends, Found, Gap, Stream, StreamConfig, bind};
pub use until::{PATIENCE, until, until_ok, until_seen, until_some};
