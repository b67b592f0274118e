//! The client: one request of HTTP to a running link.

use crate::client::connect;
use crate::printable::printable_lines;
use crate::protocol::Answer;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
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
    expect_path(method, target)?;
    let place = path.display();
    let asked = ask_on(&mut connect(path)?, method, target, (body.as_bytes(), BYTES_MAX));
    asked.map_err(|error| format!("`{place}`: {error}"))
}

/// As [`ask`], on a connection that ends with the answer, of which so many bytes are read.
///
/// # Errors
/// As [`ask`].
pub fn ask_on(
    stream: &mut UnixStream,
    method: &str,
    target: &str,
    (body, bytes_max): (&[u8], u64),
) -> Result<Response, String> {
    expect_path(method, target)?;
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let request = [head.as_bytes(), body].concat();
    let mut bytes = Vec::new();
    let patience = if body.is_empty() { PATIENCE } else { CHANGE_PATIENCE };
    let talked = stream
        .set_read_timeout(Some(patience))
        // A server that turns the client away may not read all.
        .map(|()| stream.write_all(&request))
        .and_then(|_| stream.take(bytes_max).read_to_end(&mut bytes));
    match read(&bytes, method == "HEAD") {
        Some(response) => Ok(response),
        None => Err(match talked {
            Err(error) => format!("no whole answer of the link: {error}"),
            // A keeper without a forwarder says so in a line, whatever is asked.
            Ok(_) => absent(&bytes).unwrap_or("no whole answer of HTTP of the link".to_owned()),
        }),
    }
}

fn expect_path(method: &str, target: &str) -> Result<(), String> {
    let fits = |one: char| one.is_ascii_graphic();
    if target.starts_with('/') && target.chars().all(fits) && method.chars().all(fits) {
        return Ok(());
    }
    Err(format!("`{target}` is no path of the API; write one such as /status?limit=1"))
}

/// Returns what a keeper without a forwarder says in a line.
fn absent(bytes: &[u8]) -> Option<String> {
    let Answer::Error(text) = serde_json::from_slice::<Answer<()>>(bytes).ok()? else {
        return None;
    };
    Some(printable_lines(&text))
}

/// Reads an answer; `None` if it is none, or not whole.
fn read(bytes: &[u8], is_head: bool) -> Option<Response> {
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
    let body = if is_head {
        Vec::new()
    } else if value("Transfer-Encoding").is_some() {
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
/// The same, for other policies to be in force, which may have a million classes.
const CHANGE_PATIENCE: Duration = Duration::from_secs(90);
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
        assert_eq!(read(parts.as_bytes(), false), response(200, "abcde"));
        assert_eq!(read(whole.as_bytes(), false), response(404, "{}"));
        for cut in 0..parts.len() - 4 {
            assert_eq!(read(&parts.as_bytes()[..cut], false), None, "{cut}");
        }
        for cut in 0..whole.len() {
            assert_eq!(read(&whole.as_bytes()[..cut], false), None, "{cut}");
        }
        let huge =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc\r\n";
        assert_eq!(read(huge.as_bytes(), false), None);
    }
}
