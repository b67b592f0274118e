//! The packets of RADIUS accounting [rfc2866 §3] [rfc2869 §5.14].
//!
//! Twenty bytes of header and a list of attributes: the crates of the registry that read them bring
//! an asynchronous runtime along or make responses only of their own kind, and none checks
//! Message-Authenticator; so this is written here. A [`Packet`] was read without trust, and says
//! nothing before [`Packet::is_authentic`].

use hmac::{Hmac, Mac};
use md5::{Digest, Md5};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A packet, its attributes in bounds.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'p> {
    /// All of it, without what follows its end.
    bytes: &'p [u8],
}

/// Why bytes are no packet that is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// They are fewer or more than their header says, or than a packet may have.
    Length,
    /// It is no Accounting-Request.
    Code,
    /// An attribute ends behind the packet, or a Message-Authenticator is of another length.
    Attribute,
}

impl<'p> Packet<'p> {
    /// Reads an Accounting-Request; bytes behind its end are padding [rfc2865 §3].
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(bytes: &'p [u8]) -> Result<Self, Malformed> {
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or(Malformed::Length)?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if !(HEADER..=LENGTH_MAX).contains(&length) || length > bytes.len() {
            return Err(Malformed::Length);
        }
        if header[0] != ACCOUNTING_REQUEST {
            return Err(Malformed::Code);
        }
        let packet = Self { bytes: &bytes[..length] };
        let mut rest = &packet.bytes[HEADER..];
        while let [kind, length, ..] = *rest {
            let length = usize::from(length);
            let is_sound = kind != MESSAGE_AUTHENTICATOR || length == 2 + DIGEST;
            if length < 2 || length > rest.len() || !is_sound {
                return Err(Malformed::Attribute);
            }
            rest = &rest[length..];
        }
        if rest.is_empty() { Ok(packet) } else { Err(Malformed::Attribute) }
    }

    /// Returns the number by which the client knows the response.
    pub fn identifier(&self) -> u8 {
        self.bytes[1]
    }

    /// Returns the Request Authenticator, which is a digest of the packet with the secret.
    pub fn authenticator(&self) -> [u8; DIGEST] {
        self.bytes[4..HEADER].try_into().expect("it has so many bytes")
    }

    /// Returns the attributes in their order, each with its number.
    pub fn attributes(&self) -> impl Iterator<Item = (u8, &'p [u8])> {
        let mut rest = &self.bytes[HEADER..];
        std::iter::from_fn(move || {
            let (&kind, length) = (rest.first()?, usize::from(*rest.get(1)?));
            let (attribute, more) = rest.split_at_checked(length)?;
            rest = more;
            Some((kind, &attribute[2..]))
        })
    }

    /// Returns the first attribute of a kind, as bytes.
    pub fn attribute(&self, kind: u8) -> Option<&'p [u8]> {
        self.attributes().find(|(own, _)| *own == kind).map(|(_, value)| value)
    }

    /// Returns the first attribute of a kind as text, if it is one.
    pub fn text(&self, kind: u8) -> Option<&'p str> {
        std::str::from_utf8(self.attribute(kind)?).ok().filter(|text| !text.is_empty())
    }

    /// Returns the first attribute of a kind as a number.
    pub fn number(&self, kind: u8) -> Option<u32> {
        self.attribute(kind)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Returns the addresses and networks that the access server gave the subscriber.
    pub fn addresses(&self) -> Vec<String> {
        self.attributes().filter_map(|(kind, value)| address(kind, value)).collect()
    }

    /// Returns whether a client with the secret made it, and each Message-Authenticator in it.
    pub fn is_authentic(&self, secret: &[u8]) -> bool {
        // [rfc2866 §3] Over the packet with sixteen zeros in place of the authenticator.
        let mut bytes = self.bytes.to_vec();
        bytes[4..HEADER].fill(0);
        if !same(&digest(&[&bytes, secret]), &self.authenticator()) {
            return false;
        }
        let Some(found) = self.attribute(MESSAGE_AUTHENTICATOR) else { return true };
        let at = found.as_ptr().addr() - self.bytes.as_ptr().addr();
        bytes[at..at + DIGEST].fill(0);
        // One is allowed [rfc2869 §5.19]: a second one would be part of what the first covers.
        keyed(&bytes, secret).verify_slice(found).is_ok()
    }

    /// Returns the response. It has no Message-Authenticator, of which no standard says how it is
    /// made in a response of accounting, and clients differ.
    pub fn response(&self, secret: &[u8]) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&[ACCOUNTING_RESPONSE, self.identifier(), 0, HEADER as u8]);
        bytes[4..].copy_from_slice(&self.authenticator());
        // [rfc2866 §3] Over the response with the authenticator of the request.
        let authenticator = digest(&[&bytes, secret]);
        bytes[4..].copy_from_slice(&authenticator);
        bytes
    }
}

/// Returns an attribute that is an address or a network as text.
fn address(kind: u8, value: &[u8]) -> Option<String> {
    match kind {
        FRAMED_IP_ADDRESS => {
            let octets: [u8; 4] = value.try_into().ok()?;
            // [rfc2865 §5.8] Two values are no addresses.
            let is_one = !matches!(octets, [255, 255, 255, 254 | 255]);
            is_one.then(|| Ipv4Addr::from(octets).to_string())
        }
        FRAMED_IPV6_ADDRESS => {
            let octets: [u8; 16] = value.try_into().ok()?;
            Some(Ipv6Addr::from(octets).to_string())
        }
        FRAMED_IPV6_PREFIX | DELEGATED_IPV6_PREFIX => {
            // [rfc3162 §2.3] A reserved byte, the length, and as much of the prefix as is needed.
            let [_, length, prefix @ ..] = value else { return None };
            let mut octets = [0; 16];
            octets.get_mut(..prefix.len())?.copy_from_slice(prefix);
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(u32::from(*length))?).unwrap_or(0);
            let network = u128::from_be_bytes(octets) & mask;
            Some(format!("{}/{length}", Ipv6Addr::from(network)))
        }
        _ => None,
    }
}

fn digest(parts: &[&[u8]]) -> [u8; DIGEST] {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn keyed(bytes: &[u8], secret: &[u8]) -> Hmac<Md5> {
    let mut keyed = <Hmac<Md5> as Mac>::new_from_slice(secret).expect("a key may have any length");
    keyed.update(bytes);
    keyed
}

/// Compares in a time that does not depend on the bytes.
fn same(one: &[u8; DIGEST], other: &[u8; DIGEST]) -> bool {
    one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

const ACCOUNTING_REQUEST: u8 = 4;
const ACCOUNTING_RESPONSE: u8 = 5;
/// Code, identifier, length and authenticator.
pub const HEADER: usize = 20;
/// The longest packet [rfc2865 §3].
pub const LENGTH_MAX: usize = 4096;
/// Bytes of MD5.
pub const DIGEST: usize = 16;
// Numbers of attributes [rfc2865 §5] [rfc2866 §5] [rfc2869 §5] [rfc3162 §2] [rfc4818 §3] [rfc6911
// §3.1].
pub const NAS_IP_ADDRESS: u8 = 4;
const FRAMED_IP_ADDRESS: u8 = 8;
pub const NAS_IDENTIFIER: u8 = 32;
pub const ACCT_STATUS_TYPE: u8 = 40;
pub const ACCT_SESSION_ID: u8 = 44;
const MESSAGE_AUTHENTICATOR: u8 = 80;
pub const NAS_IPV6_ADDRESS: u8 = 95;
const FRAMED_IPV6_PREFIX: u8 = 97;
const DELEGATED_IPV6_PREFIX: u8 = 123;
const FRAMED_IPV6_ADDRESS: u8 = 168;

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Makes an Accounting-Request of these attributes; signed with a Message-Authenticator, too.
    pub fn request(
        identifier: u8,
        attributes: &[(u8, &[u8])],
        secret: &[u8],
        is_signed: bool,
    ) -> Vec<u8> {
        let mut bytes = vec![ACCOUNTING_REQUEST, identifier, 0, 0];
        bytes.extend([0; DIGEST]);
        let signature: (u8, &[u8]) = (MESSAGE_AUTHENTICATOR, &[0; DIGEST]);
        for (kind, value) in attributes.iter().chain(is_signed.then_some(&signature)) {
            bytes.extend([*kind, value.len() as u8 + 2]);
            bytes.extend(*value);
        }
        let length = (bytes.len() as u16).to_be_bytes();
        bytes[2..4].copy_from_slice(&length);
        if is_signed {
            let signature = keyed(&bytes, secret).finalize().into_bytes();
            let at = bytes.len() - DIGEST;
            bytes[at..].copy_from_slice(&signature);
        }
        let authenticator = digest(&[&bytes, secret]);
        bytes[4..HEADER].copy_from_slice(&authenticator);
        bytes
    }

    #[test]
    fn a_packet_says_what_its_attributes_say() {
        let bytes = request(
            7,
            &[
                (1, b"anna"),
                (FRAMED_IP_ADDRESS, &[192, 0, 2, 7]),
                (FRAMED_IP_ADDRESS, &[255, 255, 255, 254]),
                (FRAMED_IPV6_PREFIX, &[0, 60, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0x1f]),
                (DELEGATED_IPV6_PREFIX, &[0, 129]),
                (DELEGATED_IPV6_PREFIX, &[0, 0]),
                (FRAMED_IPV6_ADDRESS, &[0; 16]),
                (ACCT_STATUS_TYPE, &[0, 0, 0, 1]),
                (25, &[0xff]),
            ],
            b"key",
            false,
        );
        let padded = [bytes.as_slice(), &[0, 0]].concat();
        let packet = Packet::parse(&padded).expect("it is one");
        let wanted = ["192.0.2.7", "2001:db8:0:10::/60", "::/0", "::"];
        assert_eq!(packet.addresses(), wanted);
        assert_eq!((packet.text(1), packet.text(25), packet.text(32)), (Some("anna"), None, None));
        assert_eq!((packet.number(ACCT_STATUS_TYPE), packet.number(25)), (Some(1), None));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let sound = request(1, &[(1, b"a")], b"key", false);
        let with = |at: usize, byte: u8| {
            let mut bytes = sound.clone();
            bytes[at] = byte;
            Packet::parse(&bytes).err()
        };
        assert_eq!(with(1, 9), None);
        let rows = [
            (0, 1, Malformed::Code),
            (3, 19, Malformed::Length),
            (3, 24, Malformed::Length),
            (3, 22, Malformed::Attribute),
            (3, 21, Malformed::Attribute),
            (2, 255, Malformed::Length),
            (21, 1, Malformed::Attribute),
            (21, 4, Malformed::Attribute),
            (20, MESSAGE_AUTHENTICATOR, Malformed::Attribute),
        ];
        for (at, byte, wanted) in rows {
            assert_eq!(with(at, byte), Some(wanted), "{at} {byte}");
        }
        assert_eq!(Packet::parse(&sound[..19]).err(), Some(Malformed::Length));
        assert_eq!(Packet::parse(&[]).err(), Some(Malformed::Length));
    }

    #[test]
    fn a_byte_that_was_changed_is_seen() {
        for is_signed in [false, true] {
            let sound = request(1, &[(1, b"anna")], b"key", is_signed);
            let is_authentic = |bytes: &[u8], secret: &[u8]| {
                Packet::parse(bytes).is_ok_and(|packet| packet.is_authentic(secret))
            };
            assert!(is_authentic(&sound, b"key"));
            assert!(!is_authentic(&sound, b"kex"));
            for at in 0..sound.len() {
                let mut bytes = sound.clone();
                bytes[at] ^= 1;
                assert!(!is_authentic(&bytes, b"key"), "{at}");
            }
        }
        // The authenticator is right, and the signature is another's.
        let mut bytes = request(1, &[(1, b"anna")], b"key", true);
        *bytes.last_mut().expect("it is long") ^= 1;
        bytes[4..HEADER].fill(0);
        let authenticator = digest(&[&bytes, b"key"]);
        bytes[4..HEADER].copy_from_slice(&authenticator);
        assert!(!Packet::parse(&bytes).is_ok_and(|packet| packet.is_authentic(b"key")));
    }

    #[test]
    fn a_response_has_the_authenticator_of_its_request() {
        let bytes = request(9, &[(1, b"anna")], b"key", true);
        let packet = Packet::parse(&bytes).expect("it is one");
        let response = packet.response(b"key");
        assert_eq!(response[..4], [ACCOUNTING_RESPONSE, 9, 0, 20]);
        let mut unsigned = response;
        unsigned[4..].copy_from_slice(&packet.authenticator());
        assert_eq!(response[4..], digest(&[&unsigned, b"key"]));
    }
}
