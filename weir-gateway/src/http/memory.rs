//! A connection to a router by a pair of sockets, on which a client sends some bytes and then
//! nothing: for tests and fuzzing.

use super::serve::{converse, runtime};
use super::talk::{Patience, Talk};
use super::wire::Wire;
use axum::Router;
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;
use weir_control::protocol::Cause;

/// A conversation with a client that has ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The bytes that it received.
    pub answer: Vec<u8>,
    /// Why it was refused, if it was.
    pub refusal: Option<(Cause, String)>,
}

/// Returns what a client receives that sends these bytes and then closes its half of the
/// connection.
///
/// # Panics
/// When the system has no descriptor left.
pub fn answer(bytes: &[u8], router: &Router) -> Outcome {
    runtime().expect("descriptors").block_on(async {
        let (mut own, theirs) = UnixStream::pair().expect("a pair");
        let copy = theirs.as_fd().try_clone_to_owned().expect("a copy");
        let (_ends, ending) = watch::channel(false);
        let talk = Arc::new(Talk::new(copy, Patience::default(), ending));
        let client = async {
            // The server may stop reading.
            let _sent = own.write_all(bytes).await;
            let _closed = own.shutdown().await;
            let mut answer = Vec::new();
            let _read = own.read_to_end(&mut answer).await;
            answer
        };
        let server = async {
            let wire = Wire::new(theirs, Arc::clone(&talk));
            // What it means is in the answer.
            let _ended = converse(wire, &talk, router).await;
        };
        let (answer, ()) = tokio::join!(client, server);
        Outcome { answer, refusal: talk.refusal() }
    })
}
