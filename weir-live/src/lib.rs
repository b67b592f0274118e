//! Linux ports, private network namespaces and waiting: every system call and all `unsafe` of Weir.
//!
//! No crate above this one calls the operating system directly. A [`port::Port`] turns an interface
//! into frames in a [`pool::FramePool`] and back; [`wait::Waiter`] sleeps until a frame or a
//! deadline; [`netns`], [`netlink`] and [`ethtool`] build the private networks for tests and `weir
//! demo`.
#![allow(unsafe_code)]

pub mod alarm;
pub mod authority;
pub mod batch;
pub mod bpf;
pub mod bridge;
pub mod carrier;
pub mod change;
pub mod channel;
pub mod claim;
pub mod deploy;
pub mod doctor;
pub mod error;
pub mod ethtool;
pub mod events;
mod fanout;
pub mod forecast;
pub mod intake;
mod interface;
pub mod keeper;
pub mod lane;
pub mod memory;
pub mod netlink;
pub mod netns;
pub mod offload;
pub mod pages;
pub mod peer;
pub mod pool;
pub mod port;
pub mod precedence;
pub mod printable;
pub mod privilege;
pub mod probe;
pub mod realtime;
pub mod recorder;
mod ring;
pub mod rsvp;
pub mod sandbox;
pub mod signals;
pub mod socket;
pub mod sorter;
pub mod stations;
pub mod status;
pub mod tap;
pub mod wait;
mod xsk;
