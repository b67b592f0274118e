//! Captures put together by hand, each with the frames that should be read from it. The fuzz
//! target `capture` has its seeds from here.

use Order::{Big, Little};

/// The order of the bytes in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

/// A frame as it should be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub timestamp: u64,
    pub interface: u32,
    pub original_length: u32,
    pub bytes: Vec<u8>,
    pub offset: u64,
}

/// A capture put together by hand: its bytes, and the frames in them with where each ends.
#[derive(Clone)]
pub struct Sample {
    pub order: Order,
    pub bytes: Vec<u8>,
    pub frames: Vec<Frame>,
    pub ends: Vec<usize>,
}

impl Sample {
    pub fn u16(&mut self, value: u16) {
        self.bytes.extend(match self.order {
            Little => value.to_le_bytes(),
            Big => value.to_be_bytes(),
        });
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend(match self.order {
            Little => value.to_le_bytes(),
            Big => value.to_be_bytes(),
        });
    }

    fn empty(order: Order) -> Self {
        Self { order, bytes: Vec::new(), frames: Vec::new(), ends: Vec::new() }
    }

    pub fn pcap(order: Order, magic: u32) -> Self {
        let mut sample = Self::empty(order);
        sample.u32(magic);
        sample.u16(2);
        sample.u16(4);
        // Zone and accuracy, a snap length, Ethernet with a flag above its 16 bits.
        for value in [0, 0, 65535, 0x1000_0001] {
            sample.u32(value);
        }
        sample
    }

    pub fn record(&mut self, time: (u32, u32), original_length: u32, bytes: &[u8]) {
        let start = self.bytes.len();
        for value in [time.0, time.1, bytes.len() as u32, original_length] {
            self.u32(value);
        }
        self.bytes.extend(bytes);
        let scale = match self.bytes[0..4].contains(&0xc3) {
            true => 1_000,
            false => 1,
        };
        let timestamp = u64::from(time.0) * 1_000_000_000 + u64::from(time.1) * scale;
        self.expect(start, timestamp, 0, original_length, bytes);
    }

    fn expect(&mut self, start: usize, timestamp: u64, interface: u32, length: u32, bytes: &[u8]) {
        let frame = Frame {
            timestamp,
            interface,
            original_length: length.max(bytes.len() as u32),
            bytes: bytes.to_vec(),
            offset: start as u64,
        };
        self.frames.push(frame);
        self.ends.push(self.bytes.len());
    }

    pub fn block(&mut self, kind: u32, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.u32(kind);
        self.u32(0);
        body(self);
        self.pad();
        let length = (self.bytes.len() + 4 - start) as u32;
        self.u32(length);
        let length_bytes: [u8; 4] = self.bytes[self.bytes.len() - 4..].try_into().expect("four");
        self.bytes[start + 4..start + 8].copy_from_slice(&length_bytes);
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.bytes.extend(value);
        self.pad();
    }

    pub fn section(&mut self, order: Order) {
        self.order = order;
        self.block(0x0a0d_0d0a, |sample| {
            sample.u32(0x1a2b_3c4d);
            sample.u16(1);
            sample.u16(0);
            sample.u32(u32::MAX);
            sample.u32(u32::MAX);
            sample.option(2, b"some hardware");
        });
    }

    pub fn pcapng(order: Order) -> Self {
        let mut sample = Self::empty(order);
        sample.section(order);
        sample
    }

    pub fn interface(&mut self, link_type: u16, snap_length: u32, options: &[(u16, &[u8])]) {
        self.block(1, |sample| {
            sample.u16(link_type);
            sample.u16(0);
            sample.u32(snap_length);
            for (code, value) in options {
                sample.option(*code, value);
            }
            sample.option(0, b"");
        });
    }

    /// An enhanced packet; `frame` holds the interface and timestamp that should be read.
    pub fn enhanced(&mut self, interface: u32, ticks: u64, frame: (u32, u64), bytes: &[u8]) {
        let start = self.bytes.len();
        let length = bytes.len() as u32 + 100;
        self.block(6, |sample| {
            for value in [interface, (ticks >> 32) as u32, ticks as u32, bytes.len() as u32, length]
            {
                sample.u32(value);
            }
            sample.bytes.extend(bytes);
            sample.pad();
            sample.option(1, b"a comment");
            sample.option(0, b"");
        });
        self.expect(start, frame.1, frame.0, length, bytes);
    }
}

fn pcap_sample(order: Order, magic: u32) -> Sample {
    let mut sample = Sample::pcap(order, magic);
    sample.record((1_700_000_000, 123_456), 1514, &[0xab; 60]);
    sample.record((1_700_000_000, 999_999), 61, &[0xcd; 61]);
    sample.record((1_700_000_001, 0), 0, b"");
    sample.record((u32::MAX, 999_999), 9000, &(0..=255).collect::<Vec<u8>>());
    sample
}

/// Two sections of opposite byte orders, every kind of block, every kind of clock.
pub fn pcapng_sample(order: Order) -> Sample {
    let mut sample = Sample::pcapng(order);
    sample.interface(1, 0, &[(2, b"eth0"), (1, b"odd")]);
    let offset = |sample: &Sample, seconds: i64| match sample.order {
        Little => seconds.to_le_bytes(),
        Big => seconds.to_be_bytes(),
    };
    let hour = offset(&sample, 3600);
    sample.interface(101, 96, &[(9, &[9]), (14, &hour)]);
    sample.enhanced(0, 1_700_000_000_000_001, (0, 1_700_000_000_000_001_000), &[1; 61]);
    sample.block(0x0bad_cafe, |sample| sample.bytes.extend([0xff; 1000]));
    sample.enhanced(1, 1_700_000_000_000_000_001, (1, 1_700_003_600_000_000_001), &[2; 3]);
    sample.interface(1, 0, &[(9, &[0x80 | 10])]);
    sample.enhanced(2, 1_700_004_000 * 1024 + 512, (2, 1_700_004_000_500_000_000), b"");
    simple(&mut sample, 0, 1_700_004_000_500_000_000, &[3; 70], 70);
    let other = if order == Little { Big } else { Little };
    sample.section(other);
    sample.interface(276, 64, &[(2, b"any"), (9, &[3])]);
    obsolete(&mut sample, 5, (3, 5_000_000), &[4; 5]);
    simple(&mut sample, 3, 1_700_004_000_500_000_000, &[5; 64], 1500);
    sample
}

/// A simple packet, without a timestamp of its own; cut to its interface's snap length.
fn simple(sample: &mut Sample, interface: u32, timestamp: u64, bytes: &[u8], length: u32) {
    let start = sample.bytes.len();
    sample.block(3, |sample| {
        sample.u32(length);
        sample.bytes.extend(bytes);
    });
    sample.expect(start, timestamp, interface, length, bytes);
}

/// A packet block of the format's first years, which counts lost packets.
fn obsolete(sample: &mut Sample, ticks: u64, frame: (u32, u64), bytes: &[u8]) {
    let start = sample.bytes.len();
    sample.block(2, |sample| {
        sample.u16(0);
        sample.u16(7);
        for value in [(ticks >> 32) as u32, ticks as u32, bytes.len() as u32, 999] {
            sample.u32(value);
        }
        sample.bytes.extend(bytes);
    });
    sample.expect(start, frame.1, frame.0, 999, bytes);
}

pub fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for order in [Little, Big] {
        samples.push(pcap_sample(order, 0xa1b2_c3d4));
        samples.push(pcap_sample(order, 0xa1b2_3c4d));
        samples.push(pcapng_sample(order));
    }
    samples
}
