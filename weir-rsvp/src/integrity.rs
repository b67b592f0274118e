//! Integrity of messages between neighbours: keyed digests and sequence numbers `[rfc2747]`.
//!
//! A sender numbers its messages upwards and signs each with a key that both know. A receiver takes
//! a number once, and none that is too far behind the highest. It learns the first number of a
//! sender from a challenge, or, where challenges are off, from the first message whose digest is
//! right.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use hmac::{Hmac, Mac};
use weir_core::random::Random;

use crate::wire::{Body, Message};

/// An INTEGRITY object [rfc2747 §2.1].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Integrity {
    /// The sender answers challenges (the flag HF).
    pub handshake: bool,
    /// The key's identifier: 48 bits.
    pub key: u64,
    /// The number by which a receiver finds repetitions.
    pub sequence: u64,
    /// The keyed digest of the message.
    pub digest: Digest,
}

/// The digest of a message: a multiple of 4 bytes, at most those of SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest {
    bytes: [u8; DIGEST_MAX],
    len: u8,
}

/// The hash below HMAC. [rfc2747 §2] requires MD5; the others are for neighbours that agreed on
/// them with the key [rfc2747 §5].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hash {
    /// HMAC-MD5, 16 bytes `[rfc2104]`.
    Md5,
    /// HMAC-SHA1, 20 bytes.
    Sha1,
    /// HMAC-SHA256, 32 bytes.
    Sha256,
}

/// A key that neighbours share.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// Its identifier: 48 bits.
    pub id: u64,
    /// The hash that it is for.
    pub hash: Hash,
    /// The bytes that both ends share.
    pub secret: Vec<u8>,
}

/// How the messages of an interface are signed and checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Security {
    /// The keys; the first signs.
    pub keys: Vec<Key>,
    /// Whether senders that answer challenges are challenged before their first message counts.
    pub challenge: bool,
    /// The number before the first that this node sends. It must grow from one start of the node to
    /// the next, so it is made from a clock [rfc2747 §3].
    pub first_sequence: u64,
}

/// Signs and checks the messages of an interface.
#[derive(Clone, Debug)]
pub struct Guard {
    security: Security,
    sequence: u64,
    senders: BTreeMap<(IpAddr, u64), Sender>,
}

/// The sequence numbers of a sender, as a receiver tracks them.
#[derive(Clone, Debug)]
enum Sender {
    /// It was asked to repeat this cookie.
    Challenged(Vec<u8>),
    /// Its numbers so far.
    Known(Window),
}

/// The numbers that came: the highest, and which of the 64 up to it [rfc2747 §4.2].
#[derive(Clone, Copy, Debug)]
struct Window {
    highest: u64,
    seen: u64,
}

/// The result of the check of a message.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// It is what its sender sent, and new.
    Good,
    /// It is dropped, for this breach.
    Bad(Breach),
    /// It is dropped, and the sender is to be asked to repeat this cookie.
    Challenge(Vec<u8>),
}

/// Why a message is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Breach {
    /// It has no INTEGRITY, but the interface asks for it.
    Unsigned,
    /// No key has its identifier.
    UnknownKey,
    /// The digest is wrong.
    Digest,
    /// Its number came before, or is too far behind.
    Replay,
    /// There are too many senders.
    Senders,
    /// It answers no challenge of this node.
    Cookie,
}

impl Digest {
    /// A digest on the wire; none if its length is no multiple of 4 from 4 to 32.
    pub fn of_bytes(bytes: &[u8]) -> Option<Digest> {
        let len = bytes.len();
        if len == 0 || len > DIGEST_MAX || !len.is_multiple_of(4) {
            return None;
        }
        let mut whole = [0; DIGEST_MAX];
        whole[..len].copy_from_slice(bytes);
        Some(Digest { bytes: whole, len: len as u8 })
    }

    /// Returns as many bytes as the hash has.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

impl Hash {
    /// Bytes of a digest.
    pub const fn len(self) -> usize {
        match self {
            Hash::Md5 => 16,
            Hash::Sha1 => 20,
            Hash::Sha256 => 32,
        }
    }

    /// A digest is never empty.
    pub const fn is_empty(self) -> bool {
        false
    }
}

impl fmt::Debug for Key {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key {:#x} ({:?})", self.id, self.hash)
    }
}

impl Key {
    /// The keyed digest of these bytes `[rfc2104]`.
    pub fn digest(&self, bytes: &[u8]) -> Digest {
        let any = "HMAC takes keys of any length";
        let tag: Vec<u8> = match self.hash {
            Hash::Md5 => tag(Hmac::<md5::Md5>::new_from_slice(&self.secret).expect(any), bytes),
            Hash::Sha1 => tag(Hmac::<sha1::Sha1>::new_from_slice(&self.secret).expect(any), bytes),
            Hash::Sha256 => {
                tag(Hmac::<sha2::Sha256>::new_from_slice(&self.secret).expect(any), bytes)
            }
        };
        Digest::of_bytes(&tag).expect("each hash has such a length")
    }

    /// Returns whether this is the digest of these bytes, in a time that does not depend on where
    /// two digests differ.
    fn verifies(&self, bytes: &[u8], digest: &Digest) -> bool {
        let own = self.digest(bytes);
        let differing = own.bytes.iter().zip(&digest.bytes).fold(0, |sum, (a, b)| sum | (a ^ b));
        differing == 0 && own.len == digest.len
    }
}

fn tag(mut mac: impl Mac, bytes: &[u8]) -> Vec<u8> {
    mac.update(bytes);
    mac.finalize().into_bytes().to_vec()
}

impl Guard {
    /// Guards an interface; none without keys.
    pub fn new(security: &Security) -> Option<Guard> {
        let (security, senders) = (security.clone(), BTreeMap::new());
        let sequence = security.first_sequence;
        (!security.keys.is_empty()).then_some(Guard { security, sequence, senders })
    }

    /// Numbers messages from here on at least from `sequence`: of several nodes of one host that
    /// have the key, none then falls behind the others [rfc2747 §3].
    pub fn raise(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Numbers and signs a message; returns its bytes [rfc2747 §4.1].
    pub fn sign(&mut self, mut message: Message) -> Vec<u8> {
        self.sequence += 1;
        let key = &self.security.keys[0];
        let digest = Digest { bytes: [0; DIGEST_MAX], len: key.hash.len() as u8 };
        let integrity = Integrity { handshake: true, key: key.id, sequence: self.sequence, digest };
        message.integrity = Some(integrity);
        let mut bytes = message.build();
        let digest = key.digest(&bytes);
        let at = COMMON_HEADER + DIGEST_AT;
        bytes[at..at + digest.bytes().len()].copy_from_slice(digest.bytes());
        bytes
    }

    /// Checks a message that came from `source` with these bytes [rfc2747 §4.2].
    pub fn check(
        &mut self,
        source: IpAddr,
        message: &Message,
        bytes: &[u8],
        random: &mut Random,
    ) -> Verdict {
        let Some(integrity) = &message.integrity else { return Verdict::Bad(Breach::Unsigned) };
        let Some(key) = self.security.keys.iter().find(|key| key.id == integrity.key) else {
            return Verdict::Bad(Breach::UnknownKey);
        };
        let Some(cleared) = without_digest(bytes) else { return Verdict::Bad(Breach::Unsigned) };
        if !key.verifies(&cleared, &integrity.digest) {
            return Verdict::Bad(Breach::Digest);
        }
        if let Body::Challenge(_) = message.body {
            // [rfc2747 §4.3] A challenge may come before any number is known, and is answered.
            return Verdict::Good;
        }
        self.judge((source, integrity.key), integrity, message, random)
    }

    fn judge(
        &mut self,
        sender: (IpAddr, u64),
        integrity: &Integrity,
        message: &Message,
        random: &mut Random,
    ) -> Verdict {
        if !self.senders.contains_key(&sender) && self.senders.len() >= SENDERS_MAX {
            return Verdict::Bad(Breach::Senders);
        }
        let known = Sender::Known(Window { highest: integrity.sequence, seen: 1 });
        match (self.senders.get_mut(&sender), &message.body) {
            (Some(Sender::Challenged(cookie)), Body::Response(answer)) if cookie == answer => {
                self.senders.insert(sender, known);
                Verdict::Good
            }
            (_, Body::Response(_)) => Verdict::Bad(Breach::Cookie),
            (Some(Sender::Challenged(cookie)), _) => Verdict::Challenge(cookie.clone()),
            (Some(Sender::Known(window)), _) => match window.take(integrity.sequence) {
                true => Verdict::Good,
                false => Verdict::Bad(Breach::Replay),
            },
            (None, _) if self.security.challenge && integrity.handshake => {
                let cookie = [random.bits(), random.bits()].map(u64::to_be_bytes).concat();
                self.senders.insert(sender, Sender::Challenged(cookie.clone()));
                Verdict::Challenge(cookie)
            }
            (None, _) => {
                self.senders.insert(sender, known);
                Verdict::Good
            }
        }
    }
}

impl Window {
    /// Takes a number; returns false if it came before or is too far behind.
    fn take(&mut self, sequence: u64) -> bool {
        if sequence > self.highest {
            let steps = sequence - self.highest;
            self.seen = if steps < 64 { self.seen << steps | 1 } else { 1 };
            self.highest = sequence;
            return true;
        }
        let behind = self.highest - sequence;
        if behind >= 64 || self.seen >> behind & 1 != 0 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

/// The message with the digest and the checksum set to 0, if INTEGRITY is its first object, as
/// [rfc2747 §2] wants.
fn without_digest(bytes: &[u8]) -> Option<Vec<u8>> {
    let head = bytes.get(COMMON_HEADER..COMMON_HEADER + 4)?;
    let length = usize::from(u16::from_be_bytes([head[0], head[1]]));
    let digest = COMMON_HEADER + DIGEST_AT..COMMON_HEADER + length;
    let mut cleared = bytes.to_vec();
    if head[2] != crate::wire::class::INTEGRITY {
        return None;
    }
    cleared.get_mut(digest)?.fill(0);
    cleared[2..4].fill(0);
    Some(cleared)
}

/// Bytes of the largest digest.
const DIGEST_MAX: usize = 32;
/// Bytes of a message before its first object.
const COMMON_HEADER: usize = 8;
/// Bytes of INTEGRITY before its digest.
const DIGEST_AT: usize = 20;
/// Bound: senders whose sequence numbers an interface knows; messages of a further one are refused.
pub const SENDERS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("the row is hexadecimal");
        (0..text.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        // [rfc2202 §2, §3] test cases 2, [rfc4231 §4.3].
        let rows = [
            (Hash::Md5, "750c783e6ab0b503eaa86e310a5db738"),
            (Hash::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (Hash::Sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        ];
        for (hash, expected) in rows {
            let key = Key { id: 1, hash, secret: b"Jefe".to_vec() };
            let digest = key.digest(b"what do ya want for nothing?");
            assert_eq!(digest.bytes(), hex(expected), "{hash:?}");
            assert_eq!(digest.bytes().len(), hash.len());
        }
    }

    fn guard(hash: Hash, challenge: bool) -> Guard {
        let keys = vec![Key { id: 0x1234_5678_9abc, hash, secret: b"secret".to_vec() }];
        Guard::new(&Security { keys, challenge, first_sequence: 100 }).expect("there is a key")
    }

    fn offer(guard: &mut Guard, bytes: &[u8]) -> Verdict {
        let message = Message::parse(bytes).expect("a message that was signed is well formed");
        let source = IpAddr::from([10, 0, 0, 1]);
        guard.check(source, &message, bytes, &mut Random::new(7, 0))
    }

    #[test]
    fn a_message_counts_once_and_only_unchanged() {
        for hash in [Hash::Md5, Hash::Sha1, Hash::Sha256] {
            let (mut here, mut there) = (guard(hash, false), guard(hash, false));
            // A bundle is signed as a whole [rfc2961 §3.1].
            let body = |number| match number % 2 {
                0 => Body::Ack,
                _ => Body::Bundle(vec![Message::new(1, Body::Ack)]),
            };
            let messages: Vec<_> =
                (0..100).map(|number| here.sign(Message::new(1, body(number)))).collect();
            assert_eq!(offer(&mut there, &messages[1]), Verdict::Good);
            assert_eq!(offer(&mut there, &messages[1]), Verdict::Bad(Breach::Replay));
            assert_eq!(offer(&mut there, &messages[0]), Verdict::Good, "late, but new");
            assert_eq!(offer(&mut there, &messages[99]), Verdict::Good);
            assert_eq!(offer(&mut there, &messages[2]), Verdict::Bad(Breach::Replay), "too late");
            let mut forged = messages[98].clone();
            forged[4] ^= 1;
            assert_eq!(offer(&mut there, &forged), Verdict::Bad(Breach::Digest));
            let bare = Message::new(1, Body::Ack).build();
            assert_eq!(offer(&mut there, &bare), Verdict::Bad(Breach::Unsigned));
        }
    }

    #[test]
    fn a_sender_that_is_challenged_answers_first() {
        let (mut here, mut there) = (guard(Hash::Md5, false), guard(Hash::Md5, true));
        let old = here.sign(Message::new(1, Body::Ack));
        let Verdict::Challenge(cookie) = offer(&mut there, &old) else {
            panic!("an unknown sender is challenged");
        };
        let wrong = here.sign(Message::new(1, Body::Response(vec![0; 16])));
        assert_eq!(offer(&mut there, &wrong), Verdict::Bad(Breach::Cookie));
        let right = here.sign(Message::new(1, Body::Response(cookie)));
        assert_eq!(offer(&mut there, &right), Verdict::Good);
        assert_eq!(offer(&mut there, &old), Verdict::Good, "in the window, and new");
        let next = here.sign(Message::new(1, Body::Ack));
        assert_eq!(offer(&mut there, &next), Verdict::Good);
        assert_eq!(offer(&mut there, &next), Verdict::Bad(Breach::Replay));
    }
}
