//! Reads pcapng (`[pcapng]`): blocks in sections, each with its byte order and interfaces.

use super::error::{CaptureError, CaptureFault};
use super::fields::{ByteOrder, Fields};
use super::input::{Input, Record};
use super::interface::{CaptureLink, Interface};
use super::stream::{Part, Stream};
use super::tick::Clock;
use super::{INTERFACE_BLOCK_BYTES_MAX, INTERFACES_MAX, NAME_BYTES_MAX, PACKET_BYTES_MAX};
use crate::pcapng::{
    self, BLOCK_FRAME_BYTES, BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE, OBSOLETE_PACKET,
    OPTION_END, OPTION_NAME, OPTION_OFFSET, OPTION_RESOLUTION, PACKET_FIELD_BYTES, SIMPLE_PACKET,
    VERSION_MAJOR,
};

/// The state of reading a pcapng file: its current section.
///
/// A section numbers its interfaces from 0; a capture of several sections gets one numbering here,
/// in the order in which they are described.
pub(super) struct Pcapng {
    order: ByteOrder,
    /// The first interface of this section among those of the capture.
    first_interface: usize,
    /// The clock of each interface of the capture.
    clocks: Vec<Clock>,
}

/// A block whose type and length are read and whose length is possible.
#[derive(Clone, Copy)]
struct Block {
    part: Part,
    length: u32,
}

/// The fields that the packet blocks have in common.
struct PacketFields {
    interface: u32,
    ticks: Option<u64>,
    /// `None` where the block leaves it to the interface's snap length.
    captured: Option<u32>,
    original_length: u32,
}

impl Pcapng {
    /// Reads the header of the first section, of which `part` begins with the block type.
    pub fn open(stream: &mut Stream<'_>, part: Part) -> Result<Self, CaptureError> {
        let order = read_section(stream, part)?;
        Ok(Self { order, first_interface: 0, clocks: Vec::new() })
    }

    /// Reads on to the next packet; `None` at the end of the file. Interfaces described on the way
    /// are added to those of `input`.
    pub fn next_record(&mut self, input: &mut Input<'_>) -> Result<Option<Record>, CaptureError> {
        loop {
            let part = input.stream.begin("block");
            let Some(kind) = input.stream.array_or_end::<4>(part)? else {
                return Ok(None);
            };
            if kind == SECTION {
                self.order = read_section(&mut input.stream, part)?;
                self.first_interface = input.interfaces.len();
                continue;
            }
            if let Some(record) = self.block(part, self.order.u32(kind), input)? {
                return Ok(Some(record));
            }
        }
    }

    fn block(
        &mut self,
        part: Part,
        kind: u32,
        input: &mut Input<'_>,
    ) -> Result<Option<Record>, CaptureError> {
        let (name, minimum) = match kind {
            INTERFACE => ("interface description block", 20),
            OBSOLETE_PACKET => ("packet block", 32),
            SIMPLE_PACKET => ("simple packet block", 16),
            ENHANCED_PACKET => ("enhanced packet block", 32),
            _ => ("block", 12),
        };
        let part = Part { name, ..part };
        let length = self.order.u32(input.stream.array(part)?);
        let block = Block::of_length(part, length, minimum)?;
        match kind {
            INTERFACE => self.interface(block, input).map(|()| None),
            OBSOLETE_PACKET | ENHANCED_PACKET | SIMPLE_PACKET => {
                let fields = self.packet_fields(block, kind, &mut input.stream)?;
                self.packet(block, fields, input).map(Some)
            }
            // [pcapng §3.1] A block of a type not known here is passed over.
            _ => {
                input.stream.skip(part, length - BLOCK_FRAME_BYTES)?;
                block.end(self.order, &mut input.stream).map(|()| None)
            }
        }
    }

    fn packet_fields(
        &self,
        block: Block,
        kind: u32,
        stream: &mut Stream<'_>,
    ) -> Result<PacketFields, CaptureError> {
        if kind == SIMPLE_PACKET {
            let original_length = self.order.u32(stream.array(block.part)?);
            return Ok(PacketFields { interface: 0, ticks: None, captured: None, original_length });
        }
        let bytes: [u8; PACKET_FIELD_BYTES as usize] = stream.array(block.part)?;
        let mut fields = Fields::new(&bytes, self.order);
        let taken = match kind {
            OBSOLETE_PACKET => long_packet_fields(&mut fields, |fields| {
                // [pcapng §A] After the interface, a count of packets lost before this one.
                let interface = fields.u16()?;
                fields.u16().map(|_| interface.into())
            }),
            _ => long_packet_fields(&mut fields, Fields::u32),
        };
        Ok(taken.expect("the array is as long as its fields"))
    }

    fn packet(
        &self,
        block: Block,
        fields: PacketFields,
        input: &mut Input<'_>,
    ) -> Result<Record, CaptureError> {
        let part = block.part;
        let index = self.interface_index(fields.interface, input).map_err(|f| part.error(f))?;
        let timestamp = self.timestamp(index, fields.ticks).map_err(|f| part.error(f))?;
        let snap_length = input.interfaces[index].snap_length;
        let captured = fields.captured(snap_length);
        if captured > PACKET_BYTES_MAX {
            return Err(too_long(part, "packet", captured, PACKET_BYTES_MAX));
        }
        let room = block.length - BLOCK_FRAME_BYTES - fields.header_bytes();
        if captured > room {
            return Err(part.error(CaptureFault::CapturedLength { captured, room }));
        }
        input.stream.read(part, captured, &mut input.packet)?;
        input.stream.skip(part, room - captured)?;
        block.end(self.order, &mut input.stream)?;
        let interface = u32::try_from(index).expect("at most `INTERFACES_MAX` interfaces");
        let original_length = fields.original_length;
        Ok(Record { timestamp, interface, original_length, offset: part.offset })
    }

    /// The interface's number in the capture, from its number in the section.
    fn interface_index(&self, interface: u32, input: &Input<'_>) -> Result<usize, CaptureFault> {
        let described = input.interfaces.len() - self.first_interface;
        match (interface as usize) < described {
            true => Ok(self.first_interface + interface as usize),
            false => {
                let described = described as u32;
                Err(CaptureFault::UnknownInterface { interface, described })
            }
        }
    }

    fn timestamp(&self, index: usize, ticks: Option<u64>) -> Result<Option<u64>, CaptureFault> {
        let Some(ticks) = ticks else { return Ok(None) };
        let clock = self.clocks[index];
        let Clock { resolution, offset_seconds } = clock;
        match clock.nanoseconds(ticks) {
            None => Err(CaptureFault::Timestamp { ticks, resolution, offset_seconds }),
            timestamp => Ok(timestamp),
        }
    }

    fn interface(&mut self, block: Block, input: &mut Input<'_>) -> Result<(), CaptureError> {
        let part = block.part;
        if block.length > INTERFACE_BLOCK_BYTES_MAX {
            return Err(too_long(part, part.name, block.length, INTERFACE_BLOCK_BYTES_MAX));
        }
        if input.interfaces.len() == INTERFACES_MAX {
            return Err(part.error(CaptureFault::TooManyInterfaces));
        }
        let body_length = block.length - BLOCK_FRAME_BYTES;
        input.stream.read(part, body_length, &mut input.packet)?;
        block.end(self.order, &mut input.stream)?;
        let mut fields = Fields::new(&input.packet, self.order);
        let (interface, clock) = interface_fields(&mut fields).map_err(|f| part.error(f))?;
        input.interfaces.push(interface);
        self.clocks.push(clock);
        Ok(())
    }
}

impl PacketFields {
    fn captured(&self, snap_length: u32) -> u32 {
        match (self.captured, snap_length) {
            (Some(captured), _) => captured,
            // [pcapng §4.2] A snap length of 0 means no limit.
            (None, 0) => self.original_length,
            (None, snap_length) => self.original_length.min(snap_length),
        }
    }

    fn header_bytes(&self) -> u32 {
        match self.captured {
            Some(_) => PACKET_FIELD_BYTES,
            None => SIMPLE_PACKET_FIELD_BYTES,
        }
    }
}

impl Block {
    fn of_length(part: Part, length: u32, minimum: u32) -> Result<Self, CaptureError> {
        if !pcapng::is_length(length, minimum) {
            let fault = CaptureFault::BlockLength { part: part.name, length, minimum };
            return Err(part.error(fault));
        }
        Ok(Self { part, length })
    }

    /// Reads the length that ends a block: [pcapng §3.1] the one it began with, once more.
    fn end(self, order: ByteOrder, stream: &mut Stream<'_>) -> Result<(), CaptureError> {
        let end = order.u32(stream.array(self.part)?);
        match end == self.length {
            true => Ok(()),
            false => Err(self.part.error(CaptureFault::BlockEnd { start: self.length, end })),
        }
    }
}

/// Reads a section header after its block type: the byte order of its section.
fn read_section(stream: &mut Stream<'_>, part: Part) -> Result<ByteOrder, CaptureError> {
    let part = Part { name: "section header block", ..part };
    let length: [u8; 4] = stream.array(part)?;
    let magic: [u8; 4] = stream.array(part)?;
    let order = [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| order.u32(magic) == BYTE_ORDER_MAGIC)
        .ok_or_else(|| part.error(CaptureFault::ByteOrder { magic }))?;
    let block = Block::of_length(part, order.u32(length), 28)?;
    let version: [u8; 4] = stream.array(part)?;
    let mut fields = Fields::new(&version, order);
    let (major, minor) = fields.u16().zip(fields.u16()).expect("the array holds both");
    if major != VERSION_MAJOR {
        let supported = VERSION_MAJOR;
        let fault = CaptureFault::Version { format: "pcapng", major, minor, supported };
        return Err(part.error(fault));
    }
    // The section's length and its options: nothing here depends on them.
    stream.skip(part, block.length - BLOCK_FRAME_BYTES - 8)?;
    block.end(order, stream)?;
    Ok(order)
}

fn long_packet_fields<'b>(
    fields: &mut Fields<'b>,
    interface: impl FnOnce(&mut Fields<'b>) -> Option<u32>,
) -> Option<PacketFields> {
    let interface = interface(fields)?;
    // [pcapng §4.3] Whatever the byte order, the high half of the timestamp is first.
    let ticks = Some(u64::from(fields.u32()?) << 32 | u64::from(fields.u32()?));
    let captured = Some(fields.u32()?);
    Some(PacketFields { interface, ticks, captured, original_length: fields.u32()? })
}

fn interface_fields(fields: &mut Fields<'_>) -> Result<(Interface, Clock), CaptureFault> {
    let link_type = CaptureLink(fields.u16().expect("the block's least length holds it"));
    fields.u16().expect("the block's least length holds the reserved field");
    let snap_length = fields.u32().expect("the block's least length holds it");
    let mut interface = Interface { link_type, name: String::new(), snap_length };
    let mut clock = Clock::MICROSECONDS;
    while let Some(code) = fields.u16() {
        let length = fields.u16().unwrap_or(0);
        if code == OPTION_END {
            break;
        }
        interface_option(code, length, fields, (&mut interface, &mut clock))
            .ok_or(CaptureFault::InterfaceOption { code, length })?;
    }
    Ok((interface, clock))
}

/// Takes the value of one option; `None` where it does not fit the block or its own type.
fn interface_option(
    code: u16,
    length: u16,
    fields: &mut Fields<'_>,
    (interface, clock): (&mut Interface, &mut Clock),
) -> Option<()> {
    let value = fields.bytes(length.into())?;
    fields.bytes(usize::from(length).next_multiple_of(4) - usize::from(length))?;
    match code {
        OPTION_NAME => interface.name = name(value),
        OPTION_RESOLUTION => clock.resolution = <[u8; 1]>::try_from(value).ok()?[0],
        OPTION_OFFSET => {
            let offset = Fields::new(value, fields.order()).u64().filter(|_| length == 8)?;
            clock.offset_seconds = offset.cast_signed();
        }
        _ => {}
    }
    Some(())
}

fn name(value: &[u8]) -> String {
    let kept = &value[..value.len().min(NAME_BYTES_MAX)];
    String::from_utf8_lossy(kept).trim_end_matches('\0').to_owned()
}

fn too_long(part: Part, what: &'static str, length: u32, limit: u32) -> CaptureError {
    part.error(CaptureFault::TooLong { part: what, length: length.into(), limit: limit.into() })
}

/// The type of a section header block, as its bytes are.
pub(super) const SECTION: [u8; 4] = pcapng::SECTION.to_le_bytes();
/// The field of a simple packet before the bytes of its frame.
const SIMPLE_PACKET_FIELD_BYTES: u32 = 4;
