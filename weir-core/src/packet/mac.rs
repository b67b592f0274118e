//! Addresses of Ethernet stations.

use super::FieldError;
use core::fmt;
use core::str::FromStr;

/// The address of an Ethernet station.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MacAddress(pub [u8; 6]);

/// The stations of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Macs {
    /// The station that the frame goes to on this segment.
    pub destination: MacAddress,
    /// The station that sent the frame on this segment.
    pub source: MacAddress,
}

impl Macs {
    /// Returns the stations in the first bytes of an Ethernet frame; none if it is shorter.
    #[inline]
    pub fn of_frame(frame: &[u8]) -> Option<Macs> {
        let (destination, rest) = frame.split_first_chunk()?;
        let source = rest.first_chunk()?;
        Some(Macs { destination: MacAddress(*destination), source: MacAddress(*source) })
    }

    /// Returns them with source and destination exchanged.
    pub fn reversed(self) -> Macs {
        Macs { destination: self.source, source: self.destination }
    }
}

impl MacAddress {
    /// Returns the address as a number of 48 bits.
    pub fn bits(self) -> u64 {
        self.0.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
    }

    /// Returns the address of the lower 48 bits of a number.
    pub fn of_bits(bits: u64) -> MacAddress {
        let [_, _, address @ ..] = bits.to_be_bytes();
        MacAddress(address)
    }
}

impl FromStr for MacAddress {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<MacAddress, FieldError> {
        parse(text).ok_or_else(|| {
            FieldError::new(
                "MAC address",
                text,
                "is not six bytes of two hexadecimal digits, with `:` or `-` between them",
                "write for instance 02:00:5e:10:00:01",
            )
        })
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let colon = if place > 0 { ":" } else { "" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

fn parse(text: &str) -> Option<MacAddress> {
    let mark = if text.contains('-') { '-' } else { ':' };
    let mut address = [0; 6];
    let mut parts = text.split(mark);
    for byte in &mut address {
        let part = parts.next()?;
        let digits = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| digits)?;
    }
    parts.next().is_none().then_some(MacAddress(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_address_is_read_in_the_forms_that_systems_print() {
        let rows = [
            ("02:00:5e:10:00:01", Some("02:00:5e:10:00:01")),
            ("AA-BB-CC-DD-EE-FF", Some("aa:bb:cc:dd:ee:ff")),
            ("0:0:5e:10:0:1", None),
            ("02:00:5e:10:00", None),
            ("02:00:5e:10:00:01:02", None),
            ("02:00:5e:10:00:0g", None),
            ("02:00:5e:10:00:+1", None),
            ("02-00:5e-10:00-01", None),
            ("02005e100001", None),
            ("", None),
        ];
        for (text, wanted) in rows {
            let read = text.parse::<MacAddress>().ok();
            assert_eq!(read.map(|address| address.to_string()).as_deref(), wanted, "{text}");
            let back = read.map(|address| MacAddress::of_bits(address.bits()));
            assert_eq!(back, read, "{text} as bits");
        }
    }
}
