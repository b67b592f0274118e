//! The client: requests the status of a running link.

use crate::protocol::{Answer, Request};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use weir_live::status::Status;

/// Returns the status of the link that listens at `path`.
///
/// # Errors
/// When no link listens there or the answer is invalid; the text says what to do.
pub fn status(path: &Path) -> Result<Status, String> {
    match call(path, &Request::Status)? {
        Answer::Status(status) => Ok(*status),
        Answer::Error(error) => Err(error),
    }
}

/// Sends one request and reads its answer.
///
/// # Errors
/// When no link listens at `path`, or the answer does not follow this protocol.
pub fn call(path: &Path, request: &Request) -> Result<Answer, String> {
    let place = path.display();
    let mut stream = UnixStream::connect(path).map_err(|error| {
        format!(
            "no link answers on `{place}`: {error}; start one with `weir up`, or name its \
                 socket with --control"
        )
    })?;
    let mut converse = || -> std::io::Result<String> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        stream.write_all(line.as_bytes())?;
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer)?;
        Ok(answer)
    };
    let answer = converse().map_err(|error| format!("no answer on `{place}`: {error}"))?;
    serde_json::from_str(&answer)
        .map_err(|error| format!("the answer on `{place}` is not valid: {error}"))
}

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
