//! The handshake of a simulated QUIC connection: TLS's messages with their lengths, but no secrets.
//!
//! [`quinn_proto::crypto::Session`] is what quinn wants of TLS. The messages of a full handshake
//! without a client's certificate [rfc8446 §2] carry the transport parameters and are otherwise
//! empty, keys protect nothing, and each packet has the 16 bytes that a tag of AES-GCM takes
//! [rfc9001 §5.3]. So lengths and flights are real, nothing is random, and no processor time goes
//! into cryptography. Invariant: a session never waits for a message that the other's has not
//! written.

use bytes::BytesMut;
use quinn_proto::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey,
    HmacKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};
use std::any::Any;
use std::sync::Arc;

/// The cryptography of a simulation: configuration and key of everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Null;

/// The next action of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    SendClientHello,
    AwaitServerHello,
    TakeHandshakeKeys,
    AwaitServerFlight,
    SendClientFinished,
    AwaitClientHello,
    SendServerHello,
    SendServerFlight,
    AwaitClientFinished,
    Done,
}

/// One side of a handshake.
struct Handshake {
    side: Side,
    step: Step,
    /// The side's own transport parameters, written.
    own: Vec<u8>,
    peer: Option<TransportParameters>,
    /// The bytes of the next message that have arrived.
    incoming: Vec<u8>,
}

impl Handshake {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let step = if side.is_client() { Step::SendClientHello } else { Step::AwaitClientHello };
        let mut own = Vec::new();
        params.write(&mut own);
        Self { side, step, own, peer: None, incoming: Vec::new() }
    }

    /// Takes a whole message.
    fn receive(&mut self, body: &[u8]) -> Result<(), TransportError> {
        self.step = match self.step {
            Step::AwaitClientHello => Step::SendServerHello,
            Step::AwaitServerHello => Step::TakeHandshakeKeys,
            Step::AwaitServerFlight => Step::SendClientFinished,
            Step::AwaitClientFinished => Step::Done,
            step => unreachable!("no message is sent in step {step:?}"),
        };
        if matches!(self.step, Step::SendServerHello | Step::SendClientFinished) {
            let (length, params) = body.split_first_chunk().expect("they begin with their length");
            let mut params = &params[..usize::from(u16::from_be_bytes(*length))];
            let read = TransportParameters::read(self.side, &mut params);
            self.peer = Some(read.map_err(TransportError::from)?);
        }
        Ok(())
    }

    /// Writes a message whose bytes without transport parameters are `length`.
    fn write(&self, length: usize, with_params: bool, out: &mut Vec<u8>) {
        let params: &[u8] = if with_params { &self.own } else { &[] };
        let body = length - MESSAGE_HEADER + params.len();
        out.extend_from_slice(&(body as u32).to_be_bytes());
        let end = out.len() + body;
        if with_params {
            out.extend_from_slice(&(params.len() as u16).to_be_bytes());
            out.extend_from_slice(params);
        }
        out.resize(end, 0);
    }
}

impl Session for Handshake {
    fn initial_keys(&self, _: &ConnectionId, _: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.incoming.extend_from_slice(bytes);
        while let Some((length, rest)) = self.incoming.split_first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            let Some(body) = rest.get(..length).map(<[u8]>::to_vec) else { break };
            self.incoming.drain(..MESSAGE_HEADER + length);
            self.receive(&body)?;
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let (next, keyed) = match self.step {
            Step::SendClientHello => {
                self.write(CLIENT_HELLO, true, out);
                (Step::AwaitServerHello, false)
            }
            Step::TakeHandshakeKeys => (Step::AwaitServerFlight, true),
            Step::SendClientFinished => {
                self.write(FINISHED, false, out);
                (Step::Done, true)
            }
            Step::SendServerHello => {
                self.write(SERVER_HELLO, false, out);
                (Step::SendServerFlight, true)
            }
            Step::SendServerFlight => {
                self.write(SERVER_FLIGHT, true, out);
                (Step::AwaitClientFinished, true)
            }
            _ => return None,
        };
        self.step = next;
        keyed.then(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(keys().packet)
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        unreachable!("no server asks for a retry")
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(Null), remote: Box::new(Null) },
        packet: KeyPair { local: Box::new(Null), remote: Box::new(Null) },
    }
}

impl ClientConfig for Null {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Handshake::new(Side::Client, params)))
    }
}

impl ServerConfig for Null {
    fn initial_keys(&self, _: u32, _: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _: u32, _: &ConnectionId, _: &[u8]) -> [u8; 16] {
        unreachable!("no server asks for a retry")
    }

    fn start_session(self: Arc<Self>, _: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(Handshake::new(Side::Server, params))
    }
}

impl PacketKey for Null {
    fn encrypt(&self, _: u64, _: &mut [u8], _: usize) {}

    fn decrypt(&self, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for Null {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        SAMPLE
    }
}

impl HmacKey for Null {
    /// A token of a stateless reset is the connection's identifier, so each has its own.
    fn sign(&self, identifier: &[u8], token: &mut [u8]) {
        token.fill(0);
        let length = identifier.len().min(token.len());
        token[..length].copy_from_slice(&identifier[..length]);
    }

    fn signature_len(&self) -> usize {
        SIGNATURE
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }
}

impl HandshakeTokenKey for Null {
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn AeadKey> {
        unreachable!("no server gives tokens")
    }
}

/// The type and the length of a message in TLS; here its length.
const MESSAGE_HEADER: usize = 4;
/// A client's first message without the transport parameters: the usual suites and extensions, a
/// share of X25519 and a server's name of some 20 letters.
const CLIENT_HELLO: usize = 250;
/// Version, random number, suite, and a share of X25519 in their extensions.
const SERVER_HELLO: usize = 90;
/// A chain of two certificates with keys of ECDSA over P-256, of about 1000 bytes each, the
/// server's signature and its last message: 2 KB, which goes in one flight with what the client
/// has sent [rfc9000 §8.1].
const SERVER_FLIGHT: usize = 2200;
/// A message with a hash of SHA-256.
const FINISHED: usize = 36;
/// [rfc9001 §5.3]
const TAG: usize = 16;
/// [rfc9001 §5.4.3] With AES.
const SAMPLE: usize = 16;
/// The length of an HMAC-SHA-256.
const SIGNATURE: usize = 32;
