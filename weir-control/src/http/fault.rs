//! Why a request of HTTP is not met: a status, the reason, and its cure.

use crate::server::Refusal;
use crate::service::Cause;
use std::io;

/// Why a request is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The status.
    pub status: u16,
    /// The reason and the cure.
    pub text: String,
    /// A header that goes with it.
    pub header: Option<(&'static str, &'static str)>,
}

impl Fault {
    /// A fault with this status, and the reason with its cure.
    pub fn new(status: u16, text: impl Into<String>) -> Self {
        let header = match status {
            401 => Some(("WWW-Authenticate", "Bearer")),
            503 => Some(("Retry-After", "1")),
            _ => None,
        };
        Self { status, text: text.into(), header }
    }

    /// What was sent is no request.
    pub fn bad(text: impl Into<String>) -> Self {
        Self::new(400, text)
    }

    pub(super) fn slow(error: &io::Error) -> Self {
        Self::new(408, crate::server::unheard(error))
    }

    /// A refusal of the server, whatever protocol the client speaks.
    pub(super) fn of((cause, text): Refusal) -> Self {
        let status = match cause {
            Cause::Busy => 503,
            Cause::Silent => 408,
            Cause::TooLong => 413,
            Cause::NotAllowed | Cause::Foreign => 403,
            Cause::Unknown => 404,
            Cause::Failed => 500,
            Cause::Malformed | Cause::NotRead => 400,
        };
        Self::new(status, text)
    }

    pub(super) fn cause(&self) -> Cause {
        match self.status {
            503 => Cause::Busy,
            408 => Cause::Silent,
            413 | 431 => Cause::TooLong,
            401 | 421 => Cause::Foreign,
            403 => Cause::NotAllowed,
            404 | 405 => Cause::Unknown,
            500 => Cause::Failed,
            _ => Cause::Malformed,
        }
    }
}
