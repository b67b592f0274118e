//! The pcap format: one header for the file, then a record a packet (`[pcap]`).

use super::PACKET_BYTES_MAX;
use super::error::{CaptureError, CaptureFault};
use super::fields::{ByteOrder, Fields};
use super::input::{Input, Record};
use super::interface::{CaptureLink, Interface};
use super::stream::{Part, Stream};
use super::tick::Clock;

/// The byte order and resolution of one pcap file.
pub(super) struct Pcap {
    order: ByteOrder,
    clock: Clock,
}

impl Pcap {
    /// Returns the byte order and resolution that the file's first four bytes give, if the file is
    /// pcap.
    pub fn from_magic(magic: [u8; 4]) -> Option<Self> {
        [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
            let clock = match order.u32(magic) {
                MAGIC_MICROSECONDS => Clock::MICROSECONDS,
                MAGIC_NANOSECONDS => Clock::NANOSECONDS,
                _ => return None,
            };
            Some(Self { order, clock })
        })
    }

    /// Reads the rest of the file's header: its one interface.
    pub fn header(&self, stream: &mut Stream<'_>, part: Part) -> Result<Interface, CaptureError> {
        let bytes: [u8; HEADER_BYTES - 4] = stream.array(part)?;
        let (major, minor, snap_length, link_type) =
            self.header_fields(&bytes).expect("the array is as long as its fields");
        if major != VERSION_MAJOR {
            let supported = VERSION_MAJOR;
            let fault = CaptureFault::Version { format: "pcap", major, minor, supported };
            return Err(part.error(fault));
        }
        Ok(Interface { link_type, name: String::new(), snap_length })
    }

    fn header_fields(&self, bytes: &[u8]) -> Option<(u16, u16, u32, CaptureLink)> {
        let mut fields = Fields::new(bytes, self.order);
        let (major, minor) = (fields.u16()?, fields.u16()?);
        // [pcap §4] Two reserved fields: a time zone and an accuracy, zero in practice.
        fields.bytes(8)?;
        let snap_length = fields.u32()?;
        // [pcap §4] Above the link type's 16 bits are flags on the frame check sequence.
        let link_type = CaptureLink((fields.u32()? & 0xffff) as u16);
        Some((major, minor, snap_length, link_type))
    }

    /// Reads the next record; `None` at the end of the file.
    pub fn next_record(&self, input: &mut Input<'_>) -> Result<Option<Record>, CaptureError> {
        let Input { stream, packet, .. } = input;
        let part = stream.begin("packet record");
        let Some(bytes) = stream.array_or_end::<RECORD_HEADER_BYTES>(part)? else {
            return Ok(None);
        };
        let (timestamp, captured, original_length) =
            self.record_fields(&bytes).expect("the array is as long as its fields");
        if captured > PACKET_BYTES_MAX {
            let (length, limit) = (captured.into(), PACKET_BYTES_MAX.into());
            return Err(part.error(CaptureFault::TooLong { part: "packet", length, limit }));
        }
        stream.read(part, captured, packet)?;
        let timestamp = Some(timestamp);
        Ok(Some(Record { timestamp, interface: 0, original_length, offset: part.offset }))
    }

    fn record_fields(&self, bytes: &[u8]) -> Option<(u64, u32, u32)> {
        let mut fields = Fields::new(bytes, self.order);
        let seconds = Clock { resolution: 0, offset_seconds: 0 }.nanoseconds(fields.u32()?.into());
        let fraction = self.clock.nanoseconds(fields.u32()?.into());
        // Neither is above 2^32 units of its kind, so their sum stays well below 2^64.
        Some((seconds? + fraction?, fields.u32()?, fields.u32()?))
    }
}

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION_MAJOR: u16 = 2;
const HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
