//! The client: one request of HTTP to a running link.

use crate::client::connect;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// The type of its body.
    pub kind: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// Sends a request to the link that listens at `path`; one with a body is a POST of JSON.
///
/// # Errors
/// When no link listens there, or the answer is none of HTTP; the text says what to do.
pub fn ask(path: &Path, method: &str, target: &str, body: &str) -> Result<Response, String> {
    let fits = |one: char| one.is_ascii_graphic();
    if !target.starts_with('/') || !target.chars().all(fits) || !method.chars().all(fits) {
        return Err(format!("`{target}` is no path of the API; write one such as /status?limit=1"));
    }
    let mut stream = connect(path)?;
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut bytes = Vec::new();
    let talked = stream
        .set_read_timeout(Some(PATIENCE))
        // A server that turns the client away may not read all.
        .map(|()| stream.write_all(request.as_bytes()))
        .and_then(|_| stream.take(BYTES_MAX).read_to_end(&mut bytes));
    match read(&bytes) {
        Some(response) => Ok(response),
        None => Err(match talked {
            Err(error) => format!("no whole answer on `{}`: {error}", path.display()),
            Ok(_) => format!("no whole answer of HTTP on `{}`", path.display()),
        }),
    }
}

/// Reads an answer; `None` if it is none, or not whole.
fn read(bytes: &[u8]) -> Option<Response> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(end)) = head.parse(bytes) else { return None };
    let status = head.code?;
    let value = |name: &str| {
        let header = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        header.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let kind = value("Content-Type").unwrap_or_default().to_owned();
    let rest = &bytes[end..];
    let body = if value("Transfer-Encoding").is_some() {
        joined(rest)?
    } else {
        let length = value("Content-Length")?.parse().ok()?;
        rest.get(..length)?.to_vec()
    };
    Some(Response { status, kind, body })
}

/// Joins the parts of a body.
fn joined(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let Ok(httparse::Status::Complete((start, length))) = httparse::parse_chunk_size(rest)
        else {
            return None;
        };
        if length == 0 {
            return Some(body);
        }
        let length = usize::try_from(length).ok()?;
        let part = rest.get(start..)?;
        body.extend_from_slice(part.get(..length)?);
        rest = part.get(length..)?.strip_prefix(b"\r\n")?;
    }
}

/// The longest wait for the next part of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any answer has.
const BYTES_MAX: u64 = 1 << 30;
const HEADERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_if_it_is_whole() {
        let parts =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let whole = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
        let response =
            |status, body: &str| Some(Response { status, kind: String::new(), body: body.into() });
        assert_eq!(read(parts.as_bytes()), response(200, "abcde"));
        assert_eq!(read(whole.as_bytes()), response(404, "{}"));
        for cut in 0..parts.len() - 4 {
            assert_eq!(read(&parts.as_bytes()[..cut]), None, "{cut}");
        }
        for cut in 0..whole.len() {
            assert_eq!(read(&whole.as_bytes()[..cut]), None, "{cut}");
        }
        let huge =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc\r\n";
        assert_eq!(read(huge.as_bytes()), None);
    }
}
