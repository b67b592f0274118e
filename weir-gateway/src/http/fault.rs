//! Why a request of HTTP is not met: a status, the reason, and its cure.

use super::respond;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weir_control::protocol::Cause;

/// Why a request is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The status code of HTTP.
    pub status: u16,
    /// The reason and the cure.
    pub text: String,
    /// A header that goes with it.
    pub header: Option<(&'static str, &'static str)>,
    /// Whether the link itself refused it, and tells that in an event.
    pub is_told: bool,
}

impl Fault {
    /// A fault with this status, and the reason with its cure.
    pub fn new(status: u16, text: impl Into<String>) -> Self {
        let header = match status {
            401 => Some(("WWW-Authenticate", "Bearer")),
            503 => Some(("Retry-After", "1")),
            _ => None,
        };
        Self { status, text: text.into(), header, is_told: false }
    }

    /// The bytes are no request.
    pub fn bad(text: impl Into<String>) -> Self {
        Self::new(400, text)
    }

    /// No whole request came in time.
    pub fn slow() -> Self {
        Self::new(408, "no whole request came in time; send it at once")
    }

    /// The method is not the one of the path.
    pub fn method(meant: &str, allowed: &'static str) -> Self {
        let fault = Self::new(405, format!("send {meant} here"));
        Self { header: Some(("Allow", allowed)), ..fault }
    }

    /// A refusal of the link.
    pub fn of_link(cause: Cause, text: String) -> Self {
        let status = match cause {
            Cause::Busy => 503,
            Cause::Silent => 408,
            Cause::TooLong => 413,
            Cause::NotAllowed | Cause::Foreign => 403,
            Cause::Unknown => 404,
            Cause::Failed => 500,
            Cause::Malformed | Cause::NotRead => 400,
        };
        Self { is_told: true, ..Self::new(status, text) }
    }

    /// Returns why the client is refused, as an event says it.
    pub fn cause(&self) -> Cause {
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

impl IntoResponse for Fault {
    /// The answer, with which the connection ends.
    fn into_response(self) -> Response {
        let body = json!({ "error": self.text }).to_string();
        let mut response = respond::whole(self.status, respond::JSON, body);
        if let Some((name, value)) = self.header {
            respond::header(&mut response, name, value);
        }
        respond::header(&mut response, "Connection", "close");
        response.extensions_mut().insert(self);
        response
    }
}
