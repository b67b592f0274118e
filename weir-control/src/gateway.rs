//! The messages between the keeper of a link and its gateway, each a value on a channel; and how
//! the gateway is reached.
//!
//! The gateway is a process of its own, which speaks HTTP: it sees what clients of the API and
//! viewers of the page ask, and has no privilege and no traffic. The keeper reads the files, binds
//! the addresses and connects to the control socket; the gateway, which can open nothing, gets
//! texts and descriptors. Each connection acts for a client of the API from its first byte on
//! ([`crate::client::begin_on_behalf`]): the gateway never holds one with the keeper's rights.

use crate::protocol::Right;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use weir_host::printable::fit;

/// The version of these messages: after an update the program on the disk may speak another one.
pub const PROTOCOL: u32 = 2;

/// A message from the keeper to the gateway.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToGateway {
    /// The first message. Its descriptors are the listeners: of the API if the plan has one, and
    /// then of the page if it has one.
    Begin(Box<GatewayPlan>),
    /// A connection to the control socket of the link, as a descriptor, or why there is none. The
    /// answer to [`crate::protocol::Request::OnBehalf`] is the first that comes on it. The number
    /// is that of [`FromGateway::Connect`]: one that comes late is of another client, with other
    /// rights.
    Connection(u64, Result<(), String>),
}

/// The addresses and tokens that a gateway serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayPlan {
    /// The name of the deployment.
    pub name: String,
    /// The user as which it runs, where the keeper may choose one; without a name one that no other
    /// program has.
    pub user: Option<String>,
    /// The address of the API, and who may use it.
    pub api: Option<Api>,
    /// The address of the page, and who may see it.
    pub page: Option<Api>,
}

/// A message from the gateway to the keeper.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromGateway {
    /// The gateway serves clients.
    Ready,
    /// It serves: a sign of life, now and then.
    Beat,
    /// It ends, for this reason.
    Failed(String),
    /// It wants a connection to the control socket, which it cannot open itself, for a client with
    /// this right.
    Connect {
        /// Another one each time.
        number: u64,
        /// The right that the connection gets.
        right: Right,
        /// The connection is for a viewer of the page, whose changes the log has as the keeper's
        /// user's.
        is_viewer: bool,
    },
}

impl FromGateway {
    /// Makes it fit for a keeper, which prints what it is told: a gateway may have been taken over.
    pub fn sanitise(mut self) -> Self {
        if let Self::Failed(why) = &mut self {
            let cut = why.char_indices().nth(TEXT_MAX).map(|(end, _)| end);
            why.truncate(cut.unwrap_or(why.len()));
            fit(why);
        }
        self
    }
}

/// An address at which HTTP is spoken, as the keeper read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Api {
    /// The TCP address on which it listens.
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

impl Api {
    /// Checks its tokens.
    ///
    /// # Errors
    /// When one can be guessed, or both are the same; the text says what to do.
    pub fn check_tokens(&self) -> Result<(), String> {
        for token in [Some(&self.token), self.read_token.as_ref()].into_iter().flatten() {
            let bytes = token.0.len();
            if bytes < TOKEN_MIN || !token.0.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "a token of the API has {bytes} characters; write at least {TOKEN_MIN}, \
                     letters, digits and signs without spaces, such as `openssl rand -hex 32` \
                     prints"
                ));
            }
        }
        if self.read_token.as_ref() == Some(&self.token) {
            return Err("the two tokens of the API are the same; write two".to_owned());
        }
        Ok(())
    }
}

/// A text that is never printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a secret)")
    }
}

/// Binds the address of an API.
///
/// # Errors
/// When the system refuses.
pub fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(listen)?;
    // Those that are accepted inherit it (tcp(7)): the sandbox has no call for it.
    rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
    Ok(listener)
}

/// The shortest token: 128 bits, as 32 hexadecimal digits.
const TOKEN_MIN: usize = 32;
/// The most characters of a text that the gateway tells.
const TEXT_MAX: usize = 4096;
