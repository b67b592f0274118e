//! Downloads and pages by QUIC: a client and a server of quinn, with TLS.
//!
//! Invariant: a request has the bytes of one by TCP, and says how long its response is.

use super::habits::{BLOCK, GAP, OBJECTS, REQUEST, pause, size};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime,
};
use std::error::Error;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout_at};

type Failed = Box<dyn Error + Send + Sync>;

/// The configurations of a server, and of clients that trust it.
pub struct Identity {
    server: ServerConfig,
    client: ClientConfig,
}

/// A client, with its first draw and the address that it asks.
#[derive(Clone, Copy)]
pub struct User {
    /// Its downloads.
    pub task: Task,
    /// From which pauses and sizes follow.
    pub draw: u64,
    /// The server.
    pub server: SocketAddr,
}

/// The downloads of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// One object without end.
    Download,
    /// Pages of objects, each page on a connection of its own.
    Pages,
}

impl Identity {
    /// A server with a new certificate.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn new() -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]);
        let made = made.map_err(io::Error::other)?;
        let certificate = CertificateDer::from(made.cert);
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).map_err(io::Error::other)?;
        let server = ServerConfig::with_single_cert(vec![certificate], key.into());
        let server = server.map_err(io::Error::other)?;
        let client = ClientConfig::with_root_certificates(Arc::new(roots));
        Ok(Self { server, client: client.map_err(io::Error::other)? })
    }
}

/// Serves on a socket until the end.
///
/// # Errors
/// When the system has no descriptor left.
pub fn serve(identity: &Identity, socket: UdpSocket, end: Instant) -> io::Result<()> {
    let server = identity.server.clone();
    runtime()?.block_on(async {
        let endpoint = endpoint(Some(server), socket)?;
        let accept = async {
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(converse(incoming));
            }
        };
        let _over = timeout_at(end.into(), accept).await;
        Ok(())
    })
}

/// Responds to the requests of a client, which closes the connection when it has all.
async fn converse(incoming: Incoming) {
    let Ok(connecting) = incoming.accept() else { return };
    let Ok(connection) = connecting.await else { return };
    while let Ok(stream) = connection.accept_bi().await {
        tokio::spawn(respond(stream));
    }
}

async fn respond((mut answer, mut request): (quinn::SendStream, quinn::RecvStream)) {
    let (mut asked, block) = ([0; REQUEST], vec![0; BLOCK]);
    let read = request.read_exact(&mut asked).await;
    let mut left =
        asked.first_chunk().filter(|_| read.is_ok()).map_or(0, |own| u64::from_be_bytes(*own));
    while left > 0 {
        let part = left.min(BLOCK as u64);
        if answer.write_all(&block[..part as usize]).await.is_err() {
            return;
        }
        left -= part;
    }
    let _gone = answer.finish();
}

/// Fetches by a task until the end.
///
/// # Errors
/// When the system has no descriptor left.
pub fn fetch(identity: &Identity, socket: UdpSocket, user: User, end: Instant) -> io::Result<()> {
    let client = identity.client.clone();
    runtime()?.block_on(async {
        let mut endpoint = endpoint(None, socket)?;
        endpoint.set_default_client_config(client);
        // The end of the measurement cuts some, which is no error.
        let _over = timeout_at(end.into(), objects(&endpoint, user)).await;
        Ok(())
    })
}

async fn objects(endpoint: &Endpoint, user: User) -> Result<(), Failed> {
    let User { task, mut draw, server } = user;
    if task == Task::Download {
        return object(&endpoint.connect(server, NAME)?.await?, u64::MAX).await;
    }
    loop {
        sleep(pause(&mut draw)).await;
        let connection = endpoint.connect(server, NAME)?.await?;
        for _ in 0..OBJECTS {
            object(&connection, size(&mut draw)).await?;
            sleep(GAP).await;
        }
        connection.close(0_u8.into(), b"");
    }
}

async fn object(connection: &Connection, size: u64) -> Result<(), Failed> {
    let (mut send, mut receive) = connection.open_bi().await?;
    let mut request = [0; REQUEST];
    request[..8].copy_from_slice(&size.to_be_bytes());
    send.write_all(&request).await?;
    send.finish()?;
    let mut block = vec![0; BLOCK];
    while receive.read(&mut block).await?.is_some() {}
    Ok(())
}

fn endpoint(server: Option<ServerConfig>, socket: UdpSocket) -> io::Result<Endpoint> {
    Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The name of the server's certificate.
const NAME: &str = "weir";
