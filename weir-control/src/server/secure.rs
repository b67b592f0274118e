//! Clients on the address of the API: HTTP, within TLS if the deployment has a certificate.

use super::wire::{Stream, Timed, Wire};
use super::{Refusal, Shared};
use crate::http::{self, Client, Site};
use crate::service::{Cause, Peer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Answers a client until it disconnects.
pub(super) fn converse(stream: &Stream, peer: &Peer, shared: &Shared) -> Result<(), Refusal> {
    let Some(web) = &shared.service.web else { return Ok(()) };
    let client = Client { peer: *peer, site: Site::Web(web), shared };
    let patience = shared.service.patience.request;
    within(stream, web.tls.as_ref(), patience, &mut |wire| http::converse(wire, &client))
}

/// Lets `converse` speak with a client, within TLS if there is a configuration of it.
///
/// # Errors
/// Those of `converse`, and when TLS cannot begin.
pub fn within(
    stream: &Stream,
    tls: Option<&Arc<ServerConfig>>,
    patience: Duration,
    converse: &mut dyn FnMut(&mut dyn Wire) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut wire = Timed::new(stream, patience);
    let Some(config) = tls else { return converse(&mut wire) };
    let connection = ServerConnection::new(Arc::clone(config));
    let connection = connection.map_err(|error| (Cause::Failed, error.to_string()))?;
    let mut wire = Secure(StreamOwned::new(connection, wire));
    let ended = converse(&mut wire);
    wire.0.conn.send_close_notify();
    // It may be gone already.
    let _gone = wire.0.flush();
    ended
}

/// A connection within TLS.
struct Secure<'a>(StreamOwned<ServerConnection, Timed<'a>>);

impl Read for Secure<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Secure<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Wire for Secure<'_> {
    fn until(&mut self, end: Instant) {
        self.0.sock.end = end;
    }

    fn is_gone(&self) -> bool {
        self.0.sock.is_gone()
    }
}
