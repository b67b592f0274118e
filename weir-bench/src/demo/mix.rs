//! The traffic of the demo, live and simulated: one description for both.

use std::time::Duration;

/// The policy of the link, as `weir check` reads it.
pub const POLICY: &str = include_str!("policy.toml");
/// Its path in the repository.
pub const POLICY_PATH: &str = "weir-bench/src/demo/policy.toml";

/// The name of the link.
pub const NAME: &str = "demo";
/// The settings that are made while the link runs: the greedy classes exchange their rates.
pub const SETTINGS: [(&str, &str); 2] =
    [("class.video.rate", "8 Mbit/s"), ("class.bulk.rate", "6 Mbit/s")];

/// The classes, in the order of the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A telephone call: UDP at an even, low rate.
    Voice,
    /// An unresponsive UDP flood.
    Video,
    /// Short TCP transfers that begin at regular intervals, whether or not earlier ones have ended.
    Web,
    /// A TCP upload without end.
    Bulk,
}

impl Class {
    /// All classes, in the order of the policy.
    pub const ALL: [Class; 4] = [Class::Voice, Class::Video, Class::Web, Class::Bulk];

    /// Returns the name in the policy.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Voice => "voice",
            Class::Video => "video",
            Class::Web => "web",
            Class::Bulk => "bulk",
        }
    }

    /// Returns whether it always wants more than it can get.
    pub const fn is_greedy(self) -> bool {
        matches!(self, Class::Video | Class::Bulk)
    }

    /// Returns the port at the server to which its packets go.
    pub const fn port(self) -> u16 {
        match self {
            Class::Voice => 5004,
            Class::Video => 5006,
            Class::Web => 8080,
            Class::Bulk => 5001,
        }
    }
}

/// The time from one voice packet to the next.
pub const VOICE_INTERVAL: Duration = Duration::from_millis(20);
/// Payload of a voice packet: 160 bytes of G.711 in 20 ms, and the header of RTP.
pub const VOICE_PAYLOAD: usize = 172;
/// The rate of the video sender, counted in frames: three times the link.
pub const VIDEO_RATE: u64 = 60_000_000;
/// Payload of a video packet, which makes the longest frame.
pub const VIDEO_PAYLOAD: usize = 1472;
/// The time from the start of one web transfer to the next.
pub const WEB_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of a web transfer.
pub const WEB_BYTES: usize = 40_000;
/// Headers of Ethernet, IPv4 and UDP in front of a payload.
pub const UDP_HEADERS: usize = 14 + 20 + 8;
/// The time before the measurement, in which queues fill and TCP finds its window.
pub const WARMUP: Duration = Duration::from_secs(2);
