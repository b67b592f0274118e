//! Who may come to an address of the gateway: its tokens, its names and its certificate.
//!
//! The keeper reads the files; the gateway, which can open nothing, gets texts.

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt::Display;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio_rustls::rustls;
use weir_control::gateway::{Api, Secret};
use weir_control::protocol::Right;

/// The clients of an address: tokens, hosts and TLS.
pub struct Web {
    pub(crate) tokens: Tokens,
    /// The names by which clients may call it, beside its address and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// Without it, the address is one of this machine alone.
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// The tokens of an address.
pub(crate) struct Tokens {
    change: Secret,
    read: Option<Secret>,
}

impl Web {
    /// Reads certificate and key, and checks the tokens.
    ///
    /// # Errors
    /// When a certificate or a key cannot be used, or a token can be guessed; the text says why.
    pub fn new(api: &Api) -> Result<Self, String> {
        api.check_tokens()?;
        let pair = api.certificate.as_ref().zip(api.key.as_ref());
        let tls = pair.map(|(certificate, key)| tls(certificate, key)).transpose()?;
        let tokens = Tokens { change: api.token.clone(), read: api.read_token.clone() };
        Ok(Self { tokens, hosts: api.hosts.clone(), tls: tls.map(Arc::new) })
    }
}

/// Checks what a keeper read, before it starts a gateway.
///
/// # Errors
/// As [`Web::new`].
pub fn check(api: &Api) -> Result<(), String> {
    Web::new(api).map(drop)
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
