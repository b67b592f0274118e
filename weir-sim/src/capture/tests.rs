//! Captures made by hand, read back; damaged ones, read up to the damage.

use super::fields::ByteOrder::{self, Big, Little};
use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};

/// A frame as it should be read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    timestamp: u64,
    interface: u32,
    original_length: u32,
    bytes: Vec<u8>,
    offset: u64,
}

impl From<CaptureFrame<'_>> for Frame {
    fn from(frame: CaptureFrame<'_>) -> Self {
        Self {
            timestamp: frame.timestamp,
            interface: frame.interface,
            original_length: frame.original_length,
            bytes: frame.bytes.to_vec(),
            offset: frame.offset,
        }
    }
}

/// A capture put together by hand: its bytes, and the frames in them with where each ends.
#[derive(Clone)]
struct Sample {
    order: ByteOrder,
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    ends: Vec<usize>,
}

impl Sample {
    fn u16(&mut self, value: u16) {
        self.bytes.extend(match self.order {
            Little => value.to_le_bytes(),
            Big => value.to_be_bytes(),
        });
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend(match self.order {
            Little => value.to_le_bytes(),
            Big => value.to_be_bytes(),
        });
    }

    fn empty(order: ByteOrder) -> Self {
        Self {
            order,
            bytes: Vec::new(),
            frames: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn pcap(order: ByteOrder, magic: u32) -> Self {
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

    fn record(&mut self, time: (u32, u32), original_length: u32, bytes: &[u8]) {
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

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Self)) {
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

    fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.bytes.extend(value);
        self.pad();
    }

    fn section(&mut self, order: ByteOrder) {
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

    fn pcapng(order: ByteOrder) -> Self {
        let mut sample = Self::empty(order);
        sample.section(order);
        sample
    }

    fn interface(&mut self, link_type: u16, snap_length: u32, options: &[(u16, &[u8])]) {
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
    fn enhanced(&mut self, interface: u32, ticks: u64, frame: (u32, u64), bytes: &[u8]) {
        let start = self.bytes.len();
        let length = bytes.len() as u32 + 100;
        self.block(6, |sample| {
            for value in [
                interface,
                (ticks >> 32) as u32,
                ticks as u32,
                bytes.len() as u32,
                length,
            ] {
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

/// Reads all of `source`: the frames, and the fault that ended it.
fn read(source: impl Read) -> (Vec<Frame>, Option<CaptureError>, CaptureTotals) {
    let mut reader = match CaptureReader::new(source) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error), CaptureTotals::default()),
    };
    let mut frames = Vec::new();
    let mut fault = None;
    while let Some(next) = reader.next_frame() {
        assert!(fault.is_none(), "nothing follows a fault");
        match next {
            Ok(frame) => frames.push(Frame::from(frame)),
            Err(error) => fault = Some(error),
        }
    }
    assert!(reader.next_frame().is_none(), "the end is final");
    assert_eq!(reader.totals().frames, frames.len() as u64);
    (frames, fault, reader.totals())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// A source that gives one byte at a time, as a slow pipe may.
struct Trickle<'b>(&'b [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(1);
        self.0.read(&mut buffer[..length])
    }
}

/// `sample` reads as its frames: plain, in one gzip member, in several, and byte by byte.
fn check(sample: &Sample) {
    let whole = gzip(&sample.bytes);
    let members: Vec<u8> = sample.bytes.chunks(37).flat_map(gzip).collect();
    let sources: [Box<dyn Read>; 4] = [
        Box::new(&sample.bytes[..]),
        Box::new(&whole[..]),
        Box::new(&members[..]),
        Box::new(Trickle(&whole)),
    ];
    for source in sources {
        let (frames, fault, _) = read(source);
        assert!(fault.is_none(), "{fault:?}");
        assert_eq!(frames, sample.frames);
    }
}

fn pcap_sample(order: ByteOrder, magic: u32) -> Sample {
    let mut sample = Sample::pcap(order, magic);
    sample.record((1_700_000_000, 123_456), 1514, &[0xab; 60]);
    sample.record((1_700_000_000, 999_999), 61, &[0xcd; 61]);
    sample.record((1_700_000_001, 0), 0, b"");
    sample.record((u32::MAX, 999_999), 9000, &(0..=255).collect::<Vec<u8>>());
    sample
}

/// Two sections of opposite byte orders, every kind of block, every kind of clock.
fn pcapng_sample(order: ByteOrder) -> Sample {
    let mut sample = Sample::pcapng(order);
    sample.interface(1, 0, &[(2, b"eth0"), (1, b"odd")]);
    let offset = |sample: &Sample, seconds: i64| match sample.order {
        Little => seconds.to_le_bytes(),
        Big => seconds.to_be_bytes(),
    };
    let hour = offset(&sample, 3600);
    sample.interface(101, 96, &[(9, &[9]), (14, &hour)]);
    sample.enhanced(
        0,
        1_700_000_000_000_001,
        (0, 1_700_000_000_000_001_000),
        &[1; 61],
    );
    sample.block(0x0bad_cafe, |sample| sample.bytes.extend([0xff; 1000]));
    sample.enhanced(
        1,
        1_700_000_000_000_000_001,
        (1, 1_700_003_600_000_000_001),
        &[2; 3],
    );
    sample.interface(1, 0, &[(9, &[0x80 | 10])]);
    sample.enhanced(
        2,
        1_700_004_000 * 1024 + 512,
        (2, 1_700_004_000_500_000_000),
        b"",
    );
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

fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for order in [Little, Big] {
        samples.push(pcap_sample(order, 0xa1b2_c3d4));
        samples.push(pcap_sample(order, 0xa1b2_3c4d));
        samples.push(pcapng_sample(order));
    }
    samples
}

#[test]
fn every_format_order_resolution_and_compression_reads_the_same_frames() {
    for sample in samples() {
        assert!(sample.frames.len() >= 4);
        check(&sample);
    }
}

#[test]
fn interfaces_of_all_sections_are_numbered_in_one_row() {
    let sample = pcapng_sample(Big);
    let mut reader = CaptureReader::new(&sample.bytes[..]).expect("a good header");
    while let Some(frame) = reader.next_frame() {
        frame.expect("a good capture");
    }
    let described: Vec<_> = reader
        .interfaces()
        .iter()
        .map(|interface| {
            format!(
                "{} {} {}",
                interface.name, interface.link_type, interface.snap_length
            )
        })
        .collect();
    assert_eq!(
        described,
        [
            "eth0 ethernet 0",
            " raw 96",
            " ethernet 0",
            "any linux-sll2 64"
        ]
    );
}

#[test]
fn totals_count_cut_backward_and_untimed_frames() {
    let (_, _, totals) = read(&pcapng_sample(Little).bytes[..]);
    let expected = CaptureTotals {
        frames: 6,
        captured_bytes: 61 + 3 + 70 + 5 + 64,
        original_bytes: 161 + 103 + 100 + 70 + 999 + 1500,
        cut: 5,
        backward: 1,
        untimed: 2,
    };
    assert_eq!(totals, expected);
}

#[test]
fn backward_counts_against_the_latest_and_not_the_last() {
    let mut sample = Sample::pcap(Little, 0xa1b2_c3d4);
    for microsecond in [10, 20, 5, 6, 20, 21, 19] {
        sample.record((1, microsecond), 4, b"abcd");
    }
    let (frames, fault, totals) = read(&sample.bytes[..]);
    assert!(fault.is_none());
    assert_eq!(frames, sample.frames, "timestamps are given as they are");
    assert_eq!(totals.backward, 3);
}

#[test]
fn a_cut_at_any_byte_yields_the_whole_frames_before_it() {
    for sample in samples() {
        for cut in 0..sample.bytes.len() {
            let whole = sample.ends.iter().filter(|end| **end <= cut).count();
            let (frames, fault, _) = read(&sample.bytes[..cut]);
            assert_eq!(frames, sample.frames[..whole], "cut at {cut}");
            if let Some(error) = &fault {
                assert_eq!(error.frames, whole as u64);
                assert!(error.offset <= cut as u64);
            }
            let at_record_end = sample.ends.contains(&cut);
            assert!(
                !(at_record_end && fault.is_some()),
                "cut at {cut}: {fault:?}"
            );
        }
    }
}

#[test]
fn a_cut_gzip_stream_yields_what_it_still_holds() {
    for sample in samples() {
        let members: Vec<u8> = sample.bytes.chunks(64).flat_map(gzip).collect();
        let (mut start, mut held) = (0, 0);
        for chunk in sample.bytes.chunks(64) {
            start += gzip(chunk).len();
            held += chunk.len();
            let cut = start - 1;
            let whole = sample.ends.iter().filter(|end| **end <= held).count();
            let (frames, fault, _) = read(&members[..cut]);
            assert_eq!(frames, sample.frames[..whole]);
            let fault = fault
                .expect("a gzip member without its end is a fault")
                .fault;
            assert!(matches!(fault, CaptureFault::Gzip(_)), "{fault:?}");
        }
    }
}

#[test]
fn mutations_never_panic_and_leave_the_frames_before_them() {
    let samples = samples();
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let sample = &samples[random.below(samples.len())];
        let mut bytes = sample.bytes.clone();
        let mut first = bytes.len();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            let old = bytes[at];
            bytes[at] = random.byte(old);
            if bytes[at] != old {
                first = first.min(at);
            }
        }
        let whole = sample.ends.iter().filter(|end| **end <= first).count();
        let (frames, ..) = read(&bytes[..]);
        assert!(frames.len() >= whole, "seed {seed}");
        assert_eq!(frames[..whole], sample.frames[..whole], "seed {seed}");
        exercise(&bytes);
    }
}

#[test]
fn mutated_gzip_never_panics_and_a_fault_ends_it() {
    let streams: Vec<_> = samples().iter().map(|sample| gzip(&sample.bytes)).collect();
    for seed in 0..5_000 {
        let mut random = Random(seed);
        let mut bytes = streams[random.below(streams.len())].clone();
        let at = random.below(bytes.len());
        bytes[at] = random.byte(bytes[at]);
        read(&bytes[..]);
    }
}

/// SplitMix64: the same mutations for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Something in the place of `old`: an extreme, a flipped bit, or anything.
    fn byte(&mut self, old: u8) -> u8 {
        match self.next() % 5 {
            0 => 0,
            1 => 0xff,
            2 => 0x80,
            3 => old ^ (1 << (self.next() % 8)),
            _ => self.next() as u8,
        }
    }
}

/// `sample` yields its frames, then the fault whose message is `expected`.
fn check_fault(sample: &Sample, expected: &str) {
    let (frames, fault, _) = read(&sample.bytes[..]);
    assert_eq!(frames, sample.frames);
    assert_eq!(fault.expect("a fault").to_string(), expected);
}

fn damaged(mut sample: Sample, damage: impl FnOnce(&mut Sample)) -> Sample {
    damage(&mut sample);
    sample
}

fn one_record() -> Sample {
    damaged(Sample::pcap(Little, 0xa1b2_c3d4), |sample| {
        sample.record((1, 2), 4, b"abcd")
    })
}

fn one_packet() -> Sample {
    damaged(Sample::pcapng(Little), |sample| {
        sample.interface(1, 0, &[]);
        sample.enhanced(0, 1_000_000, (0, 1_000_000_000), b"abcd");
    })
}

const KEEP_ONE: &str = "copy or capture it again, or keep the 1 good frames before it with \
                        `editcap -r IN OUT 1-1`";

#[test]
fn a_fault_of_pcap_names_value_limit_place_and_cure() {
    let sample = damaged(one_record(), |sample| {
        for value in [1, 3, u32::MAX, 4] {
            sample.u32(value);
        }
    });
    check_fault(
        &sample,
        &format!(
            "at byte 44 of the capture, after 1 frames: the packet claims 4294967295 bytes, more \
             than the limit of 16777216; {KEEP_ONE}"
        ),
    );
    let sample = damaged(one_record(), |sample| {
        for value in [1, 3, 1500, 1500, 0] {
            sample.u32(value);
        }
    });
    check_fault(
        &sample,
        &format!(
            "at byte 44 of the capture, after 1 frames: the packet record is cut short: it needs \
             1516 bytes and 20 are there; {KEEP_ONE}"
        ),
    );
}
