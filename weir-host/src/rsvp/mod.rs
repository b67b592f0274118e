//! RSVP on the sockets of this host, for the messages of a [`weir_rsvp::Node`].
//!
//! [`Descriptors::open`] needs CAP_NET_RAW and opens all sockets. [`KernelNetwork`] uses them, and
//! opens nothing, so it also works behind [`crate::sandbox`] in a process that got the descriptors.
//! A bridge has a [`BridgeNetwork`] instead, over the frames that cross it.
//! [`Driver`] joins it with a node and a clock. Traffic control is the caller's ([`Admission`]).
//!
//! What the kernel does that one would not expect:
//!
//! - IPv4 hands over a packet in transit with the router alert option to *every* raw socket of its
//!   protocol that asked (`IP_ROUTER_ALERT`), and then does not forward it. It does so only where
//!   it would forward: without `net.ipv4.ip_forward` or a route the packet is dropped unseen.
//! - IPv6 has one list of such sockets for all network namespaces of the machine: without
//!   `IPV6_ROUTER_ALERT_ISOLATE` (Linux 5.2) a router sees what another namespace forwards. The
//!   option works only on sockets of `IPPROTO_RAW`, which get the whole packet with its headers,
//!   where a socket of protocol 46 gets the message alone.
//! - IPv6 forwards a *multicast* packet with router alert, and shows it to no such socket. So a
//!   multicast Path of IPv6 passes a router as if RSVP were not there.
//! - A Path has the sender's address as source. `IP_TRANSPARENT` lets a socket send from addresses
//!   of others; to set it CAP_NET_RAW is enough, and later no privilege is needed.
//! - To give the hop-by-hop header of IPv6 with a packet needs CAP_NET_RAW each time; a socket
//!   keeps one without. So there is a second socket, which receives nothing.
//! - A socket is in 20 multicast groups of IPv4 at most (`net.ipv4.igmp_max_memberships`).
//! - When a link goes down, its IPv4 routes go, and no notice tells of them (`routing.rs`).

mod bridge;
mod datagram;
mod driver;
pub(crate) mod filter;
pub mod host;
mod kernel;
pub mod keys;
mod link;
mod open;
mod routing;

pub use bridge::{BridgeNetwork, BridgePlan};
pub use driver::{Admission, AdmitAll, Driver, Network, Received, SendFailure, Turn};
pub use kernel::KernelNetwork;
pub use link::LinkNetwork;
pub use open::{Descriptors, Role};
pub use routing::{Changes, HostInterface, host_interfaces};
