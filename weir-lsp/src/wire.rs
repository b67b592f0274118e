//! Messages on a stream: a header with their length, and JSON.
//!
//! `lsp-server` has a reader of its own, which allocates whatever length a client names; here a
//! length is bounded before anything is allocated.

use lsp_server::Message;
use std::io::{self, BufRead, Read, Write};

/// Reads a message; none at the end of the stream.
///
/// # Errors
/// As the stream says, and for what is no message.
pub fn read(stream: &mut impl BufRead) -> io::Result<Option<Message>> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        stream.by_ref().take(HEADER_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() && length.is_none() {
            return Ok(None);
        }
        let line = std::str::from_utf8(&line).map_err(invalid)?;
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(invalid("a header ends with a carriage return and a line feed"));
        };
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header has a colon"))?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<u64>().map_err(invalid)?);
        }
    }
    let length = length.ok_or_else(|| invalid("a message has a Content-Length"))?;
    if length > MESSAGE_BYTES_MAX {
        return Err(invalid(format!("{length} bytes are more than {MESSAGE_BYTES_MAX}")));
    }
    let mut body = Vec::new();
    stream.by_ref().take(length).read_to_end(&mut body)?;
    if (body.len() as u64) < length {
        return Err(invalid("the stream ends inside a message"));
    }
    serde_json::from_slice(&body).map(Some).map_err(invalid)
}

/// Writes a message.
///
/// # Errors
/// As the stream says.
pub fn write(stream: &mut impl Write, message: &Message) -> io::Result<()> {
    message.write(stream)
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Bound: bytes of a line of a header; a longer one ends the server with an error.
const HEADER_BYTES_MAX: u64 = 1024;
/// Bound: bytes of a message, four times the largest file, whose text JSON may escape; a longer one
/// ends the server with an error.
const MESSAGE_BYTES_MAX: u64 = 4 * weir_policy::file::FILE_BYTES_MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether a stream has a message (`Some(true)`), ends (`Some(false)`), or is refused.
    fn check(stream: &str, wanted: Option<bool>) {
        let found = read(&mut stream.as_bytes());
        assert_eq!(found.map(|message| message.is_some()).ok(), wanted, "{stream:?}");
    }

    #[test]
    fn messages_are_read_and_what_is_none_is_refused() {
        let body = r#"{"jsonrpc":"2.0","method":"exit"}"#;
        check(&format!("Content-Length: {}\r\n\r\n{body}", body.len()), Some(true));
        check(&format!("X: y\r\ncontent-length:{}\r\n\r\n{body}", body.len()), Some(true));
        check("", Some(false));
        check("Content-Length: 9\r\n\r\n{}", None);
        check("Content-Length: 2\r\n\r\n{}", None);
        check("Content-Length: 18446744073709551615\r\n\r\n", None);
        check("Content-Length: -1\r\n\r\n", None);
        check("X: y\r\n\r\n", None);
        check("nothing", None);
        check(&"x".repeat(2000), None);
    }
}
