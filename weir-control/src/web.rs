//! The API on a TCP address: its listener, its tokens and its certificate.
//!
//! The keeper reads the files and binds the address; a forwarder, which can open nothing, gets
//! texts and a descriptor.

use crate::protocol::Right;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The API on a TCP address, as the keeper read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Api {
    /// The address.
    pub listen: SocketAddr,
    /// The token that allows everything.
    pub token: Secret,
    /// The token that only allows to read.
    pub read_token: Option<Secret>,
    /// The certificate and those of its issuers, as PEM.
    pub certificate: Option<String>,
    /// Its key, as PEM.
    pub key: Option<Secret>,
    /// Further names by which clients may call it.
    pub hosts: Vec<String>,
}

/// A text that is never printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a secret)")
    }
}

/// The API on a TCP address.
pub struct Web {
    /// The listener; it does not wait.
    pub(crate) listener: TcpListener,
    pub(crate) tokens: Tokens,
    /// The names by which clients may call it, beside its address and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// Without it, the address is one of this machine alone.
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// The tokens of an API.
pub(crate) struct Tokens {
    change: Secret,
    read: Option<Secret>,
}

impl Web {
    /// An API on a listener that the keeper bound.
    ///
    /// # Errors
    /// When a certificate or a key cannot be used, or a token can be guessed; the text says why.
    pub fn new(listener: OwnedFd, api: &Api) -> Result<Self, String> {
        let listener = TcpListener::from(listener);
        let prepared = listener.set_nonblocking(true);
        prepared.map_err(|error| format!("cannot use the address of the API: {error}"))?;
        Self::check(api)?;
        let pair = api.certificate.as_ref().zip(api.key.as_ref());
        let tls = pair.map(|(certificate, key)| tls(certificate, key)).transpose()?;
        let tokens = Tokens { change: api.token.clone(), read: api.read_token.clone() };
        Ok(Self { listener, tokens, hosts: api.hosts.clone(), tls: tls.map(Arc::new) })
    }

    /// Checks what needs no listener, for a keeper before it starts a forwarder.
    ///
    /// # Errors
    /// As [`Web::new`].
    pub fn check(api: &Api) -> Result<(), String> {
        for token in [Some(&api.token), api.read_token.as_ref()].into_iter().flatten() {
            let bytes = token.0.len();
            if bytes < TOKEN_MIN || !token.0.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "a token of the API has {bytes} characters; write at least {TOKEN_MIN}, \
                     letters, digits and signs without spaces, such as `openssl rand -hex 32` \
                     prints"
                ));
            }
        }
        if api.read_token.as_ref() == Some(&api.token) {
            return Err("the two tokens of the API are the same; write two".to_owned());
        }
        let pair = api.certificate.as_ref().zip(api.key.as_ref());
        pair.map_or(Ok(()), |(certificate, key)| tls(certificate, key).map(drop))
    }
}

impl Web {
    /// Returns its configuration of TLS, if it has one.
    pub fn tls(&self) -> Option<&Arc<ServerConfig>> {
        self.tls.as_ref()
    }

    /// Accepts a client, if one waits.
    ///
    /// # Errors
    /// `WouldBlock` if none waits, or what the system says.
    pub fn accept(&self) -> io::Result<TcpStream> {
        self.listener.accept().map(|(stream, _)| stream)
    }
}

impl Tokens {
    /// Returns what a token allows, in a time that depends on its length alone.
    pub(crate) fn right(&self, token: &str) -> Option<Right> {
        let is_it = |secret: &Secret| secret.0.as_bytes().ct_eq(token.as_bytes());
        let may_read = self.read.as_ref().is_some_and(|read| bool::from(is_it(read)));
        let may_change = bool::from(is_it(&self.change));
        if may_change { Some(Right::Change) } else { may_read.then_some(Right::Read) }
    }
}

impl AsFd for Web {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Makes the server's side of TLS 1.3.
fn tls(certificate: &str, key: &Secret) -> Result<ServerConfig, String> {
    let wrong = |what: &str, error: &dyn Display| {
        format!("cannot use the {what} of the API: {error}; write one in PEM")
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain = chain.map_err(|error| wrong("certificate", &error))?;
    if chain.is_empty() {
        return Err(wrong("certificate", &"its file has none"));
    }
    let key = PrivateKeyDer::from_pem_slice(key.0.as_bytes());
    let key = key.map_err(|error| wrong("key", &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]);
    let builder = builder.map_err(|error| wrong("certificate", &error))?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong("certificate with this key", &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Binds the address of an API.
///
/// # Errors
/// When the system refuses.
pub fn bind(api: &Api) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(api.listen)?;
    // Those that are accepted inherit it (tcp(7)): the sandbox has no call for it.
    rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
    Ok(listener)
}

/// The shortest token: 128 bits, as 32 hexadecimal digits.
const TOKEN_MIN: usize = 32;
