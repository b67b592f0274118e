//! Responses: a body that is whole, or one that comes in parts as it is made.

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use hyper::body::{Body as Parts, Frame};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// The type of JSON.
pub const JSON: &str = "application/json";
/// The type of lines of JSON.
pub const LINES: &str = "application/x-ndjson";

/// Returns a response whose body is whole.
pub fn whole(status: u16, kind: &str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    header(&mut response, "Content-Type", kind);
    header(&mut response, "Cache-Control", "no-store");
    header(&mut response, "X-Content-Type-Options", "nosniff");
    response
}

/// Returns a response to a `HEAD` whose body would come in parts.
pub fn without_body(kind: &str) -> Response {
    whole(200, kind, Body::empty())
}

/// Sets a header; name and value are of this program, so they are valid.
pub fn header(response: &mut Response, name: &'static str, value: &str) {
    let name = HeaderName::from_bytes(name.as_bytes());
    let value = HeaderValue::from_str(value);
    let (Ok(name), Ok(value)) = (name, value) else { unreachable!("both are of this program") };
    response.headers_mut().insert(name, value);
}

/// Sends the parts of a body: at most one waits until the client has read the one before. A body
/// whose last message is an error ends without its last part, so that the client sees that it is
/// not whole.
pub type Sender = mpsc::Sender<io::Result<Bytes>>;

/// Returns a response whose body comes in parts, for as long as the client reads it, and what sends
/// them. Another request cannot follow if it `is_endless`.
pub fn parts(kind: &str, is_endless: bool) -> (Sender, Response) {
    let (sender, receiver) = mpsc::channel(1);
    let mut response = whole(200, kind, Body::new(Receiver(receiver)));
    if is_endless {
        header(&mut response, "Connection", "close");
    }
    response.extensions_mut().insert(Endless);
    (sender, response)
}

/// Marks a response that may take as long as its source likes: only each part of it is to be read
/// in time.
#[derive(Clone)]
pub struct Endless;

/// A body of parts that another task makes.
struct Receiver(mpsc::Receiver<io::Result<Bytes>>);

impl Parts for Receiver {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data)))
    }
}
