//! The datapath of a live link: ports, rings, the loop, and what readers and changes need of it.
//!
//! A [`port::Port`] turns an interface into frames in a [`pool::FramePool`] and back. What asks the
//! kernel and moves no frame is in [`weir_host`].
#![allow(unsafe_code)]

pub mod alarm;
pub mod authority;
pub mod bridge;
pub mod change;
pub mod deploy;
pub mod doctor;
pub mod events;
pub mod intake;
pub mod lane;
pub mod memory;
pub mod offload;
pub mod pool;
pub mod port;
pub mod recorder;
mod ring;
pub mod sorter;
pub mod stations;
pub mod status;
mod xsk;
