//! The reader of records: trusts no byte.

use super::block::{CUSTOM_BYTES, Content, ENTERPRISE, SIGNATURE};
use super::error::{RecordError, RecordFault};
use super::fields::TakeFields;
use super::step::{Arrival, Step};
use super::{BLOCK_BYTES_MAX, HEADER_BYTES_MAX, Head, INSTANT_MAX, LANES_MAX, VERSION};
use crate::pcapng::{
    BLOCK_FRAME_BYTES, BYTE_ORDER_MAGIC, CUSTOM, ENHANCED_PACKET, INTERFACE, OPTION_CUSTOM,
    PACKET_FIELD_BYTES, SECTION, is_length,
};
use std::io::{self, Read};
use std::ops::Range;

/// Reads a record step by step, in memory that does not grow with the record.
pub struct RecordReader<'s> {
    input: Box<dyn Read + 's>,
    head: Head,
    /// Bytes read so far.
    offset: u64,
    /// Where the block begins that is in hand.
    block_at: u64,
    /// The content of the block in hand.
    block: Vec<u8>,
    lane: usize,
    /// The next part of the block: steps, or the bytes of a packet.
    rest: Range<usize>,
    /// The packet of the block, if it is one.
    packet: Option<Arrival<'static>>,
    steps: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    Ended,
    Faulty,
}

/// Returns whether a file that begins with these bytes may be a record: a few hundred suffice.
pub fn is_record(start: &[u8]) -> bool {
    let mut fields = start;
    let section = (|| {
        let kind = fields.u32()?;
        let length = fields.u32()?.checked_sub(8)?;
        fields.part(length as usize)?;
        Some(kind)
    })();
    let begins = |fields: &mut &[u8]| {
        let kind = fields.u32()?;
        fields.u32()?;
        Some((kind, fields.u32()?, fields.array()?))
    };
    section == Some(SECTION) && begins(&mut fields) == Some((CUSTOM, ENTERPRISE, SIGNATURE))
}

impl<'s> RecordReader<'s> {
    /// Reads the beginning of a record. Give it a buffered input.
    ///
    /// # Errors
    /// When it is no record, or one of a newer version.
    pub fn new(input: impl Read + 's) -> Result<Self, RecordError> {
        let mut reader = Self {
            input: Box::new(input),
            head: Head::default(),
            offset: 0,
            block_at: 0,
            block: Vec::new(),
            lane: 0,
            rest: 0..0,
            packet: None,
            steps: 0,
            state: State::Going,
        };
        reader.begin().map_err(|fault| reader.error(fault))?;
        Ok(reader)
    }

    /// Returns what was recorded.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Reads the next step, and says of which lane; `None` at the end of the record.
    ///
    /// # Errors
    /// When the record is damaged or cut. What came before was whole.
    pub fn next_step(&mut self) -> Result<Option<(usize, Step<'_>)>, RecordError> {
        while self.rest.is_empty() && self.packet.is_none() {
            match self.next_block() {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(fault) => return Err(self.fail(fault)),
            }
        }
        if let Some(arrival) = self.packet.take() {
            if arrival.at > INSTANT_MAX {
                return Err(self.fail(RecordFault::Instant));
            }
            let headers = &self.block[std::mem::replace(&mut self.rest, 0..0)];
            self.steps += 1;
            return Ok(Some((self.lane, Step::Arrival(Arrival { headers, ..arrival }))));
        }
        let mut fields = &self.block[self.rest.clone()];
        let step = match read_step(&mut fields) {
            Ok(step) => step,
            Err(fault) => {
                let (offset, steps) = (self.block_at, self.steps);
                (self.state, self.rest) = (State::Faulty, 0..0);
                return Err(RecordError { fault, offset, steps });
            }
        };
        self.rest.start = self.rest.end - fields.len();
        self.steps += 1;
        if let Step::End(_) = step {
            self.state = State::Ended;
        }
        Ok(Some((self.lane, step)))
    }

    fn begin(&mut self) -> Result<(), RecordFault> {
        let not = |fault| match fault {
            RecordFault::Read(_) => fault,
            _ => RecordFault::NotARecord,
        };
        let is_section = self.read_block().map_err(not)? == Some(SECTION);
        if !is_section || (&mut self.block.as_slice()).u32() != Some(BYTE_ORDER_MAGIC) {
            return Err(RecordFault::NotARecord);
        }
        match self.read_block() {
            Ok(Some(CUSTOM)) => {}
            Err(RecordFault::Cut) => return Err(RecordFault::Cut),
            other => return Err(other.err().map_or(RecordFault::NotARecord, not)),
        }
        if self.custom()? != Content::Head {
            return Err(RecordFault::NotARecord);
        }
        let mut fields = &self.block[std::mem::replace(&mut self.rest, 0..0)];
        let version = fields.u16().ok_or(RecordFault::Fields("beginning"))?;
        if version == 0 || version > VERSION {
            return Err(RecordFault::Version(version));
        }
        self.head = Head::read(&mut fields).ok_or(RecordFault::Fields("beginning"))?;
        if self.head.lanes.len() > LANES_MAX {
            return Err(RecordFault::Lane(self.head.lanes.len() as u32));
        }
        Ok(())
    }

    /// Reads on to a block with steps; returns false at the end of the record.
    fn next_block(&mut self) -> Result<bool, RecordFault> {
        match self.state {
            State::Going => {}
            State::Ended => return Ok(false),
            State::Faulty => return Err(RecordFault::Over),
        }
        match self.read_block()? {
            None => Err(RecordFault::NoEnd),
            Some(INTERFACE) => Ok(true),
            Some(ENHANCED_PACKET) => self.packet().map(|()| true),
            Some(CUSTOM) => match self.custom()? {
                Content::Steps => Ok(true),
                Content::Head => Err(RecordFault::Fields("second beginning")),
            },
            Some(kind) => Err(RecordFault::Block(kind)),
        }
    }

    /// Reads a block into the buffer; returns its type, `None` at the end of the file.
    fn read_block(&mut self) -> Result<Option<u32>, RecordFault> {
        self.block_at = self.offset;
        self.block.clear();
        match self.take(8)? {
            0 => return Ok(None),
            8 => {}
            _ => return Err(RecordFault::Cut),
        }
        let mut fields = self.block.as_slice();
        let kind = fields.u32().ok_or(RecordFault::Cut)?;
        let length = fields.u32().ok_or(RecordFault::Cut)?;
        if length > BLOCK_BYTES_MAX || !is_length(length, BLOCK_FRAME_BYTES) {
            return Err(RecordFault::Length(length));
        }
        self.block.clear();
        let wanted = length as usize - 8;
        if self.take(wanted)? < wanted {
            return Err(RecordFault::Cut);
        }
        let end = self.block.split_off(wanted - 4);
        match (&mut end.as_slice()).u32() == Some(length) {
            true => Ok(Some(kind)),
            false => Err(RecordFault::Length(length)),
        }
    }

    /// Appends up to `count` bytes to the buffer; returns how many there were.
    fn take(&mut self, count: usize) -> Result<usize, RecordFault> {
        let mut input = self.input.by_ref().take(count as u64);
        let read: io::Result<usize> = input.read_to_end(&mut self.block);
        let read = read.map_err(RecordFault::Read)?;
        self.offset += read as u64;
        Ok(read)
    }

    /// Takes a custom block apart.
    fn custom(&mut self) -> Result<Content, RecordFault> {
        let mut fields = self.block.as_slice();
        let taken = (|| {
            let (number, signature) = (fields.u32()?, fields.array()?);
            let (content, lane) = (fields.u16()?, fields.u16()?);
            let length = fields.u32()? as usize;
            Some((number, signature, content, lane, length))
        })();
        let (number, signature, content, lane, length) =
            taken.ok_or(RecordFault::Fields("custom block"))?;
        if (number, signature) != (ENTERPRISE, SIGNATURE) {
            return Err(RecordFault::Fields("custom block"));
        }
        let end = CUSTOM_BYTES.checked_add(length).filter(|end| *end <= self.block.len());
        self.rest = CUSTOM_BYTES..end.ok_or(RecordFault::Fields("custom block"))?;
        match content {
            1 => Ok(Content::Head),
            2 => self.set_lane(lane.into()).map(|()| Content::Steps),
            _ => Err(RecordFault::Fields("custom block")),
        }
    }

    /// Takes a packet's block apart.
    fn packet(&mut self) -> Result<(), RecordFault> {
        let mut fields = self.block.as_slice();
        let taken = (|| {
            let lane = fields.u32()?;
            fields.part(8)?;
            let captured = fields.u32()? as usize;
            fields.u32()?;
            fields.part(captured.checked_next_multiple_of(4)?)?;
            let option = (fields.u16()?, usize::from(fields.u16()?));
            let mut value = fields.part(option.1)?;
            let owner = (value.u32()?, value.array()?);
            let arrival = Arrival::read(&mut value)?.bare();
            let is_ours = option.0 == OPTION_CUSTOM
                && owner == (ENTERPRISE, SIGNATURE)
                && value.is_empty()
                && captured <= HEADER_BYTES_MAX;
            is_ours.then_some((lane, captured, arrival))
        })();
        let (lane, captured, arrival) = taken.ok_or(RecordFault::Fields("packet"))?;
        self.set_lane(lane)?;
        let start = PACKET_FIELD_BYTES as usize;
        self.rest = start..start + captured;
        self.packet = Some(arrival);
        Ok(())
    }

    fn set_lane(&mut self, lane: u32) -> Result<(), RecordFault> {
        self.lane = lane as usize;
        if self.lane < self.head.lanes.len() { Ok(()) } else { Err(RecordFault::Lane(lane)) }
    }

    fn fail(&mut self, fault: RecordFault) -> RecordError {
        (self.state, self.rest) = (State::Faulty, 0..0);
        self.error(fault)
    }

    fn error(&self, fault: RecordFault) -> RecordError {
        RecordError { fault, offset: self.block_at, steps: self.steps }
    }
}

/// Takes a step from the front of `fields`.
fn read_step<'a>(fields: &mut &'a [u8]) -> Result<Step<'a>, RecordFault> {
    let step = Step::read(fields).ok_or(RecordFault::Fields("step"))?;
    match step.instant() {
        Some(at) if at > INSTANT_MAX => Err(RecordFault::Instant),
        _ => Ok(step),
    }
}
