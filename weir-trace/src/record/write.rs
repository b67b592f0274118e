//! The writer of records.

use super::block::{Content, ENTERPRISE, SIGNATURE, put_custom};
use super::step::{ARRIVAL_BYTES_MAX, Arrival, End, Fate, Step};
use super::{Head, LANES_MAX, VERSION};
use crate::pcapng::{
    OPTION_CUSTOM, OPTION_END, Packet, put_interface, put_option, put_packet, put_section,
};
use std::io::{self, Write};

/// Writes a record. Steps of one lane are read in the order in which they were written.
pub struct RecordWriter<W> {
    output: W,
    epoch_ns: u64,
    lanes: usize,
    /// Steps of one lane that are not yet in a block.
    steps: Vec<u8>,
    lane: u16,
    /// Blocks that are not yet written.
    blocks: Vec<u8>,
    written: u64,
}

impl<W: Write> RecordWriter<W> {
    /// Writes the beginning of a record.
    ///
    /// # Errors
    /// When the output refuses it.
    ///
    /// # Panics
    /// When there are more than [`LANES_MAX`] lanes.
    pub fn new(output: W, head: &Head) -> io::Result<Self> {
        assert!(head.lanes.len() <= LANES_MAX, "a link has fewer lanes than a record");
        let mut blocks = Vec::new();
        put_section(&mut blocks);
        let mut bytes = VERSION.to_le_bytes().to_vec();
        head.write(&mut bytes);
        put_custom(&mut blocks, Content::Head, 0, &bytes);
        head.lanes.iter().for_each(|lane| put_interface(&mut blocks, ETHERNET, 0, &lane.name));
        let mut writer = Self {
            output,
            epoch_ns: head.epoch_ns,
            lanes: head.lanes.len(),
            steps: Vec::new(),
            lane: 0,
            blocks,
            written: 0,
        };
        writer.flush_blocks()?;
        Ok(writer)
    }

    /// Writes a step of a lane, perhaps later.
    ///
    /// # Errors
    /// When the output refuses it.
    ///
    /// # Panics
    /// When the head has no such lane.
    pub fn step(&mut self, lane: usize, step: &Step<'_>) -> io::Result<()> {
        assert!(lane < self.lanes, "the head describes the lane");
        if usize::from(self.lane) != lane {
            self.end_steps();
            self.lane = lane as u16;
        }
        match step {
            Step::Arrival(arrival) => {
                self.end_steps();
                self.put_packet(arrival);
            }
            step => step.write(&mut self.steps),
        }
        if self.steps.len() >= STEPS_BYTES {
            self.end_steps();
        }
        if self.blocks.len() >= BLOCKS_BYTES { self.flush_blocks() } else { Ok(()) }
    }

    /// Writes steps of a lane that [`Step::write`] made; returns how many of them are frames that
    /// came.
    ///
    /// # Errors
    /// When the output refuses it.
    ///
    /// # Panics
    /// When the bytes are no steps.
    pub fn steps(&mut self, lane: usize, mut steps: &[u8]) -> io::Result<u64> {
        let mut frames = 0;
        while !steps.is_empty() {
            let step = Step::read(&mut steps).expect("they were written as steps");
            let is_frame = matches!(&step, Step::Arrival(it) if it.fate != Fate::Resumed);
            frames += u64::from(is_frame);
            self.step(lane, &step)?;
        }
        Ok(frames)
    }

    /// Writes all steps so far.
    ///
    /// # Errors
    /// When the output refuses it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.end_steps();
        self.flush_blocks()?;
        self.output.flush()
    }

    /// Ends the record, and returns the output.
    ///
    /// # Errors
    /// When the output refuses it.
    pub fn finish(mut self, end: End) -> io::Result<W> {
        self.end_steps();
        Step::End(end).write(&mut self.steps);
        self.flush()?;
        Ok(self.output)
    }

    /// Returns the bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn put_packet(&mut self, arrival: &Arrival<'_>) {
        let packet = Packet {
            interface: self.lane.into(),
            timestamp: self.epoch_ns.wrapping_add(arrival.at.as_nanos()),
            original_length: arrival.packet.length.max(arrival.headers.len() as u32),
            bytes: arrival.headers,
        };
        put_packet(&mut self.blocks, &packet, |out| {
            let (fields, length) = arrival.fields();
            let mut value = [0; OWNER_BYTES + ARRIVAL_BYTES_MAX];
            value[..4].copy_from_slice(&ENTERPRISE.to_le_bytes());
            value[4..OWNER_BYTES].copy_from_slice(&SIGNATURE);
            value[OWNER_BYTES..].copy_from_slice(&fields);
            put_option(out, OPTION_CUSTOM, &value[..OWNER_BYTES + length]);
            put_option(out, OPTION_END, b"");
        });
    }

    /// Makes a block of the steps that have none.
    fn end_steps(&mut self) {
        if !self.steps.is_empty() {
            put_custom(&mut self.blocks, Content::Steps, self.lane, &self.steps);
            self.steps.clear();
        }
    }

    fn flush_blocks(&mut self) -> io::Result<()> {
        self.output.write_all(&self.blocks)?;
        self.written += self.blocks.len() as u64;
        self.blocks.clear();
        Ok(())
    }
}

/// Number and signature, with which the option of a packet begins.
const OWNER_BYTES: usize = 8;
/// The link type of frames that begin with an Ethernet header.
const ETHERNET: u16 = 1;
/// The bytes of steps from which they get a block: a cut costs at most these.
const STEPS_BYTES: usize = 4096;
/// The bytes that are written at once.
const BLOCKS_BYTES: usize = 64 * 1024;
