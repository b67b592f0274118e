//! What the demo sends, live and simulated: one description for both.

use std::time::Duration;

/// The policy of the link, as `weir check` reads it.
pub const POLICY: &str = include_str!("policy.toml");
/// Where that stands in the repository.
pub const POLICY_PATH: &str = "weir-lab/src/demo/policy.toml";

/// The classes that are told apart, in the order of the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A telephone call: UDP at an even, low rate.
    Voice,
    /// An unresponsive UDP flood.
    Video,
    /// Short TCP transfers, begun at even distances whatever becomes of those before.
    Web,
    /// A TCP upload without end.
    Bulk,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 4] = [Class::Voice, Class::Video, Class::Web, Class::Bulk];

    /// The name in the policy.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Voice => "voice",
            Class::Video => "video",
            Class::Web => "web",
            Class::Bulk => "bulk",
        }
    }

    /// Whether it wants more than it can get, all the time.
    pub const fn is_greedy(self) -> bool {
        matches!(self, Class::Video | Class::Bulk)
    }

    /// The port at the server that its packets go to.
    pub const fn port(self) -> u16 {
        match self {
            Class::Voice => 5004,
            Class::Video => 5006,
            Class::Web => 8080,
            Class::Bulk => 5001,
        }
    }
}

/// From one voice packet to the next.
pub const VOICE_INTERVAL: Duration = Duration::from_millis(20);
/// Payload of a voice packet: 160 bytes of G.711 in 20 ms, and the header of RTP.
pub const VOICE_PAYLOAD: usize = 172;
/// What the video sender offers, counted in frames: three times the link.
pub const VIDEO_RATE: u64 = 60_000_000;
/// Payload of a video packet, such that the frame is the longest.
pub const VIDEO_PAYLOAD: usize = 1472;
/// From the start of one web transfer to the next.
pub const WEB_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of a web transfer.
pub const WEB_BYTES: usize = 40_000;
/// Headers of Ethernet, IPv4 and UDP in front of a payload.
pub const UDP_HEADERS: usize = 14 + 20 + 8;
/// Not measured: queues fill and TCP finds its window.
pub const WARMUP: Duration = Duration::from_secs(2);
