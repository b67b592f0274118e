//! The simulator's sources on real sockets and frames, receivers that count, captures compared.
//!
//! A [`Sender`] sends the packets that a source of the simulator sends, at the same instants with
//! the same lengths, paced against the clock by absolute instants: a late packet never delays the
//! next ones. Each packet whose payload has 24 bytes carries a [`mark::Mark`]: a stream, a number,
//! a send time. A [`Receiver`] counts by it what arrived, what is lost, reordered and duplicated,
//! and the one-way delay from the sender's call to the receiver's kernel. Sockets are opened in
//! the network namespace of the calling thread, so both work inside private networks:
//!
//! ```no_run
//! use std::time::Duration;
//! use weir_testbed::{Host, Testbed, TestbedConfig};
//! use weir_traffic::count::{ClassCount, count};
//! use weir_traffic::flood::{Flood, FloodPlan};
//! use weir_traffic::{ReceivePlan, Receiver, SendPlan, Sender, source};
//!
//! let testbed = Testbed::new(TestbedConfig::default())?; // run a bridge in `testbed.weir`
//! let to = Host::Server.ip4();
//!
//! // A source of the simulator, by its own keys, to a receiver in another namespace.
//! let receiver = testbed.server.run(|| Receiver::start(&ReceivePlan::ports(&[5004])))??;
//! let voice = source("voice", "cbr", to, &[("interval", "1 ms"), ("payload", "160 B"),
//!     ("dport", "5004")])?;
//! let plan = SendPlan { duration: Duration::from_secs(30), ..SendPlan::new(vec![voice]) };
//! let sender = testbed.client.run(|| Sender::start(&plan))??;
//! let sent = sender.finish();
//! receiver.wait_ended(Duration::from_secs(2));
//! println!("{}\n{}", sent, receiver.finish());
//!
//! // The same in one call: 30 000 packets at 1000 a second, counted at the receiving host.
//! let class = ClassCount::new(to, 5004);
//! let counted = count(&testbed.client, &testbed.server, &class)?;
//! assert_eq!((counted.lost, counted.sent), (0, 30_000));
//! assert!(counted.delay.p99_us < 5000.0);
//!
//! // A flood of 60-byte frames, as many as the machine can send, on a thread of its own. Frames
//! // for a station that does not exist (02:..:99) pass a bridge and load no receiving stack.
//! let flood = FloodPlan::raw("eth0", to, 9);
//! let flood = testbed.client.run(|| Flood::start(&flood))??;
//! std::thread::sleep(Duration::from_secs(3));
//! println!("{} frames, {} refused", flood.sent(), flood.finish().refused);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! [`flood::FloodPlan`] also limits the rate, mixes guaranteed frames into the flood at stated
//! places of each batch, and sends UDP super-packets.
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod count;
pub mod flood;
pub mod frame;
pub mod loaded;
pub mod mark;
pub mod measure;
mod neighbour;
mod outlet;
pub mod receiver;
pub mod sender;
mod source;
mod transfer;

pub use outlet::RawPort;
pub use receiver::{ReceivePlan, ReceiveReport, Receiver};
pub use sender::{SendPlan, SendReport, Sender};
pub use source::{source, source_text};
