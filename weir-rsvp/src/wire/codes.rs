//! Error codes and values of ERROR_SPEC [rfc2205 Appendix B].

use std::fmt;
use std::net::IpAddr;

/// An ERROR_SPEC object: what went wrong, and where [rfc2205 §A.5].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorSpec {
    /// The node that found the error.
    pub node: IpAddr,
    /// A former reservation remains in place (`InPlace`; ResvErr only).
    pub in_place: bool,
    /// The receiver that gets this asked for strictly less than what failed (`NotGuilty`).
    pub not_guilty: bool,
    /// The error code and value.
    pub cause: Cause,
}

/// An error code and its value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cause {
    /// The error code, as IANA assigns it.
    pub code: u8,
    /// The error value; what it means depends on the code.
    pub value: u16,
}

impl Cause {
    /// No error: the code of a confirmation.
    pub const CONFIRMATION: Cause = Cause::new(0, 0);
    /// Admission control: the delay bound cannot be met.
    pub const DELAY: Cause = Cause::new(1, 1);
    /// Admission control: the bandwidth is not available.
    pub const BANDWIDTH: Cause = Cause::new(1, 2);
    /// Admission control: the flowspec's largest packet is larger than the interface's MTU.
    pub const MTU: Cause = Cause::new(1, 3);
    /// The policy of this node refuses.
    pub const POLICY: Cause = Cause::new(2, 0);
    /// A Resv for a session without path state.
    pub const NO_PATH: Cause = Cause::new(3, 0);
    /// A Resv whose filters match no sender.
    pub const NO_SENDER: Cause = Cause::new(4, 0);
    /// The style differs from that of other reservations of the session.
    pub const STYLE_CONFLICT: Cause = Cause::new(5, 0);
    /// The style is unknown.
    pub const STYLE_UNKNOWN: Cause = Cause::new(6, 0);
    /// Sessions for one destination and protocol with and without a port.
    pub const DESTINATION_PORTS: Cause = Cause::new(7, 0);
    /// Senders of one host with and without a port.
    pub const SENDER_PORTS: Cause = Cause::new(8, 0);
    /// The service was preempted.
    pub const PREEMPTED: Cause = Cause::new(12, 0);
    /// Traffic control: two services that cannot be merged.
    pub const SERVICE_CONFLICT: Cause = Cause::new(21, 1);
    /// Traffic control: a service that this node does not offer.
    pub const SERVICE_UNSUPPORTED: Cause = Cause::new(21, 2);
    /// Traffic control: a malformed or unreasonable flowspec.
    pub const BAD_FLOWSPEC: Cause = Cause::new(21, 3);
    /// Traffic control: a malformed or unreasonable Tspec.
    pub const BAD_TSPEC: Cause = Cause::new(21, 4);
    /// RSVP itself: a table is full.
    pub const SYSTEM: Cause = Cause::new(23, 0);

    /// A code with its value.
    pub const fn new(code: u8, value: u16) -> Self {
        Self { code, value }
    }

    /// An object of a class that this node does not know.
    pub const fn unknown_class(class: u8, kind: u8) -> Self {
        Self::new(13, (class as u16) << 8 | kind as u16)
    }

    /// An object of a known class with a type that this node does not know.
    pub const fn unknown_type(class: u8, kind: u8) -> Self {
        Self::new(14, (class as u16) << 8 | kind as u16)
    }

    /// Returns whether admission control refused: the one error that makes blockade state.
    pub const fn is_admission(self) -> bool {
        self.code == 1
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.code, self.value & 0x0fff) {
            (0, _) => "confirmed",
            (1, 1) => "admission refused: the delay bound cannot be met",
            (1, 2) => "admission refused: the bandwidth is not available",
            (1, 3) => "admission refused: packets larger than the MTU",
            (1, _) => "admission refused",
            (2, _) => "refused by policy",
            (3, _) => "no path state for this session",
            (4, _) => "no such sender in this session",
            (5, _) => "another style is reserved in this session",
            (6, _) => "unknown style",
            (7, _) => "sessions with and without destination port",
            (8, _) => "senders with and without source port",
            (12, _) => "preempted",
            (13, _) => "unknown object class",
            (14, _) => "unknown object type",
            (21, 1) => "services that cannot be merged",
            (21, 2) => "service not offered",
            (21, 3) => "bad flowspec",
            (21, 4) => "bad Tspec",
            (21 | 22, _) => "traffic control failed",
            (23, _) => "a table of the RSVP node is full",
            _ => "unknown error",
        };
        write!(f, "{text} (code {}, value {})", self.code, self.value)
    }
}
