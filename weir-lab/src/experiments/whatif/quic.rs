//! Downloads and pages by QUIC: a client and a server of quinn, with TLS.
//!
//! Invariant: a request has the bytes of one by TCP, and says how long its response is.

use super::live::{BLOCK, GAP, OBJECTS, REQUEST, next, pause, size};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
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
                let Ok(connecting) = incoming.accept() else { continue };
                tokio::spawn(async move {
                    // A client that has all closes the connection.
                    if let Ok(connection) = connecting.await {
                        while let Ok(stream) = connection.accept_bi().await {
                            tokio::spawn(respond(stream));
                        }
                    }
                });
            }
        };
        let _over = timeout_at(end.into(), accept).await;
        Ok(())
    })
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
pub fn fetch(
    identity: &Identity,
    (socket, server): (UdpSocket, SocketAddr),
    (task, seed): (Task, u64),
    end: Instant,
) -> io::Result<()> {
    let client = identity.client.clone();
    runtime()?.block_on(async {
        let mut endpoint = endpoint(None, socket)?;
        endpoint.set_default_client_config(client);
        // What is cut by the end is no error.
        let _over = timeout_at(end.into(), objects(&endpoint, server, (task, seed))).await;
        Ok(())
    })
}

async fn objects(
    endpoint: &Endpoint,
    server: SocketAddr,
    (task, seed): (Task, u64),
) -> Result<(), Failed> {
    let mut draw = seed;
    if task == Task::Download {
        return object(&endpoint.connect(server, NAME)?.await?, u64::MAX).await;
    }
    loop {
        sleep(pause(&mut draw)).await;
        let connection = endpoint.connect(server, NAME)?.await?;
        for _ in 0..OBJECTS {
            object(&connection, size(next(&mut draw))).await?;
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
