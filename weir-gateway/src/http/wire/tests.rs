//! Tests of a connection's bytes and its limits of time, on a clock that goes on only when all wait.

use super::*;
use crate::http::serve::runtime;
use crate::http::talk::Patience;
use hyper::rt::ReadBuf as HyperBuf;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;

const PATIENCE: Patience =
    Patience { request: Duration::from_secs(2), answer: Duration::from_secs(10) };

fn talk() -> Arc<Talk> {
    let (socket, _other) = UnixStream::pair().expect("a pair");
    let (_ends, ending) = watch::channel(false);
    Arc::new(Talk::new(OwnedFd::from(socket), PATIENCE, ending))
}

/// Runs a test on a clock that goes on only when all wait.
fn run<T>(test: impl Future<Output = T>) -> T {
    runtime().expect("descriptors").block_on(async {
        tokio::time::pause();
        // By that clock: what would wait for ever fails at once.
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("it ends")
    })
}

/// A stream that takes bytes and sends none of them on, as TLS does whose client does not read.
struct Stuck;

impl AsyncRead for Stuck {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Stuck {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[test]
fn a_client_that_does_not_read_holds_no_connection_by_what_tls_keeps() {
    type Wait = fn(Pin<&mut Wire<Stuck>>, &mut Context<'_>) -> Poll<io::Result<()>>;
    let rows: [Wait; 2] = [Write::poll_flush, Write::poll_shutdown];
    // The rest of a whole answer has a part of its time; a part of an endless one has all of it.
    for (left, expected) in [(Some(3), 3), (None, 10)] {
        for wait in rows {
            let took = run(async {
                let (talk, begun) = (talk(), Instant::now());
                talk.answer_until(left.map(|left| begun + Duration::from_secs(left)));
                let mut wire = Wire::new(Stuck, Arc::clone(&talk));
                let ended = poll_fn(|context| wait(Pin::new(&mut wire), context)).await;
                assert_eq!(ended.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
                assert!(talk.refusal().is_some_and(|(cause, _)| cause == Cause::NotRead));
                begun.elapsed()
            });
            assert_eq!(took.as_secs(), expected);
        }
    }
}

/// Reads as hyper does; returns what came.
async fn read(wire: &mut Wire<DuplexStream>) -> Vec<u8> {
    let mut bytes = [0; 4096];
    let mut buffer = HyperBuf::new(&mut bytes);
    let read = poll_fn(|context| Pin::new(&mut *wire).poll_read(context, buffer.unfilled()));
    read.await.expect("the stream is there");
    buffer.filled().to_vec()
}

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Checks what becomes of a second request whose parts come after these pauses.
fn check(pauses_ms: [u64; 2], expected: &str) {
    let became = run(async {
        let talk = talk();
        let (mut client, server) = duplex(4096);
        let mut wire = Wire::new(server, Arc::clone(&talk));
        client.write_all(HEAD).await.expect("there is room");
        assert_eq!(read(&mut wire).await, HEAD);
        assert!(talk.begin().is_some_and(|first| first.is_ok()));
        talk.end();
        let send = async {
            for (pause_ms, part) in pauses_ms.into_iter().zip(HEAD.chunks(HEAD.len() - 5)) {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                client.write_all(part).await.expect("there is room");
            }
        };
        let (_bytes, ()) = tokio::join!(read(&mut wire), send);
        match talk.begin() {
            None => "it ends".to_owned(),
            Some(Ok(asked)) => {
                // The clock of the library has steps of a millisecond.
                let tenths = (asked.until - Instant::now()).as_millis().div_ceil(100);
                format!("it is read, with {tenths} tenths of a second for its body")
            }
            Some(Err(fault)) => fault.status.to_string(),
        }
    });
    assert_eq!(became, expected, "{pauses_ms:?}");
}

#[test]
fn a_request_that_follows_another_has_its_time_from_its_first_byte_on() {
    check([0, 0], "it is read, with 20 tenths of a second for its body");
    check([1900, 0], "it is read, with 20 tenths of a second for its body");
    check([1900, 1900], "it is read, with 1 tenths of a second for its body");
    check([1900, 2100], "408");
    check([2100, 0], "it ends");
}
