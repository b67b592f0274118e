//! Models of applications: a script gives packets, a work gives transfers over TCP.
//!
//! The models themselves are in [`crate::kinds`]. A script and a work draw from the random numbers
//! of their own source only.

use crate::random::Random;
use serde::Serialize;
use std::fmt::Debug;
use weir_core::units::{Bytes, Duration};
use weir_trace::shown::{micros, micros_or_null};

/// Packets that an application sends regardless of losses.
pub trait Script: Debug + Send + Sync {
    /// The word in scenarios and reports.
    fn keyword(&self) -> &'static str;

    /// Begins the script anew.
    fn start(&self) -> Box<dyn Player>;

    /// Its datagrams, if each may be cut into several frames.
    fn datagram(&self) -> Option<Datagram> {
        None
    }

    /// Returns the bytes that its plan holds on the heap, for estimates of memory.
    fn held_bytes(&self) -> u64 {
        0
    }
}

/// A datagram that is cut into frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// How many frames it is.
    pub frames: u32,
    /// Its bytes after the UDP header.
    pub payload: u32,
}

/// A script that runs.
pub trait Player: Debug + Send {
    /// The next packet; `None` after the last.
    fn next(&mut self, random: &mut Random) -> Option<Step>;
}

/// A packet that a script sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// How long after the packet before it, or after the start.
    pub after: Duration,
    /// The length of the frame.
    pub length: u32,
    /// Which datagram, counted from 0, it is a part of.
    pub datagram: u32,
}

/// The transfers that an application makes over connections.
pub trait Work: Debug + Send + Sync {
    /// The word in scenarios and reports.
    fn keyword(&self) -> &'static str;

    /// Begins the work anew.
    fn start(&self) -> Box<dyn Turns>;
}

/// A work in progress.
pub trait Turns: Debug + Send {
    /// The next transfer; `None` without one.
    fn next(&mut self, random: &mut Random) -> Option<Turn>;

    /// Returns the pause after `turn`, whose transfer `took` so long; `None` if it was the last.
    fn pause(&mut self, turn: Turn, _took: Duration) -> Option<Duration> {
        turn.pause
    }

    /// Returns how the receiver's playback went so far, if it plays. `ongoing` is how long the
    /// present transfer takes already.
    fn playback(&self, _ongoing: Option<Duration>) -> Option<Playback> {
        None
    }
}

/// The start and the pauses of a playback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Playback {
    /// From the first request to the first picture; `None` before.
    #[serde(rename = "startup_us", serialize_with = "micros_or_null")]
    pub startup: Option<Duration>,
    /// How often it stood still as nothing was left to play.
    pub stalls: u64,
    /// For how long in all.
    #[serde(rename = "stalled_us", serialize_with = "micros")]
    pub stalled: Duration,
}

/// One transfer, over a connection of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// How much, at least a byte; `None` for no end.
    pub bytes: Option<Bytes>,
    /// From its end to the beginning of the next; `None` if it is the last.
    pub pause: Option<Duration>,
}
