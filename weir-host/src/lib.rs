//! The host: what asks the kernel and moves no frame of a link.
//!
//! Claims of interfaces ([`claim`]), sandboxes ([`sandbox`]), programs in the kernel ([`bpf`]),
//! [`netlink`] and [`ethtool`], private networks ([`netns`]), processes and what they tell each
//! other ([`process`], [`channel`]), the sockets of RSVP ([`rsvp`]), the clock and waiting
//! ([`wait`]). The datapath, which is above this, and everything else above it make no system call
//! that is not here or there.
#![allow(unsafe_code)]

pub mod batch;
pub mod bpf;
pub mod carrier;
pub mod channel;
pub mod claim;
pub mod disciplines;
pub mod echo;
pub mod error;
pub mod ethtool;
pub mod fanout;
pub mod forecast;
pub mod interface;
pub mod netlink;
pub mod netns;
pub mod outlet;
pub mod pages;
pub mod peer;
pub mod precedence;
pub mod printable;
pub mod privilege;
pub mod probe;
pub mod process;
pub mod realtime;
pub mod robust;
pub mod rsvp;
pub mod sandbox;
pub mod script;
pub mod signals;
pub mod socket;
pub mod tap;
pub mod uapi;
pub mod wait;
pub mod watch;
