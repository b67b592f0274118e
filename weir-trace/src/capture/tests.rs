//! Captures made by hand, read back; damaged ones, read up to the damage.

pub mod samples;

use self::samples::Order::{Big, Little};
use self::samples::{Frame, Sample, pcapng_sample, samples};
use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::{self, Read, Write};
use weir_core::random;

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

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// A source that gives one byte at a time, as a slow pipe may.
struct Trickle<'b>(&'b [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(1);
        self.0.read(&mut buffer[..length])
    }
}

/// `sample` reads as its frames: plain, in one gzip member or zstd frame, in several, and byte by
/// byte.
fn check(sample: &Sample) {
    let mut encodings = vec![sample.bytes.clone()];
    for encode in [gzip, zstd] {
        encodings.push(encode(&sample.bytes));
        encodings.push(sample.bytes.chunks(37).flat_map(encode).collect());
    }
    // Frames to skip, as compressors with several threads write them.
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    encodings.push([&skipped[..], &zstd(&sample.bytes), &skipped].concat());
    let whole = encodings.iter().map(|bytes| Box::new(&bytes[..]) as Box<dyn Read>);
    let bytewise = encodings.iter().map(|bytes| Box::new(Trickle(bytes)) as Box<dyn Read>);
    assert!(encodings.iter().all(|bytes| is_capture(bytes)));
    for source in whole.chain(bytewise) {
        let (frames, fault, _) = read(source);
        assert!(fault.is_none(), "{fault:?}");
        assert_eq!(frames, sample.frames);
    }
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
            format!("{} {} {}", interface.name, interface.link_type, interface.snap_length)
        })
        .collect();
    assert_eq!(described, ["eth0 ethernet 0", " raw 96", " ethernet 0", "any linux-sll2 64"]);
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
            assert!(!(at_record_end && fault.is_some()), "cut at {cut}: {fault:?}");
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
            let fault = fault.expect("a gzip member without its end is a fault").fault;
            assert!(matches!(fault, CaptureFault::Gzip(_)), "{fault:?}");
        }
    }
}

#[test]
fn a_cut_zstd_stream_yields_what_its_blocks_hold() {
    // More than one block, of 128 KiB at most, of bytes that cannot be made smaller.
    let mut sample = Sample::pcap(Little, 0xa1b2_c3d4);
    let mut random = Random::new(1);
    for second in 0..300 {
        let bytes: Vec<_> = (0..1000).map(|_| random.next() as u8).collect();
        sample.record((second, 0), 1000, &bytes);
    }
    let stream = zstd(&sample.bytes);
    assert!(stream.len() > sample.bytes.len() * 9 / 10, "{}", stream.len());
    for cut in [stream.len() - 1, stream.len() - 1000, stream.len() / 2, 200_000] {
        let (frames, fault, _) = read(&stream[..cut]);
        let least = (cut / (128 * 1024)) * 128 * 1024 / 1016 - 1;
        assert!(frames.len() >= least, "cut at {cut}: {} frames, not {least}", frames.len());
        assert_eq!(frames, sample.frames[..frames.len()]);
        let fault = fault.expect("a frame without its end is a fault").to_string();
        let said = "the zstd stream is damaged or cut short: a frame has no end; copy";
        assert!(fault.contains(said), "{fault}");
    }
}

#[test]
fn a_damaged_zstd_stream_is_a_fault() {
    let mut stream = zstd(&samples()[0].bytes);
    let last = stream.len() - 1;
    stream[last] ^= 1;
    let (frames, fault, _) = read(&stream[..]);
    assert_eq!(frames, samples()[0].frames);
    let fault = fault.expect("the checksum is wrong");
    assert!(fault.to_string().contains("checksum"), "{fault}");
    // A window of 256 MiB: the decoder would keep as much in memory.
    let large = [0x28, 0xb5, 0x2f, 0xfd, 0x04, 18 << 3, 1, 0, 0, 0, 0, 0, 0];
    let header = [0x28, 0xb5, 0x2f, 0xfd, 0x04, 0xff, 1, 0, 0, 0, 0, 0, 0];
    let block = [0x28, 0xb5, 0x2f, 0xfd, 0x04, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let rows = [
        (
            large,
            "the zstd stream has a window of 268435456 bytes, more than the limit of 134217728",
        ),
        (large, "unpack it first: `zstd -d --long=31 -c FILE | weir replay POLICY -`"),
        (header, "the header of a frame is wrong; copy"),
        (block, "damaged or cut short: a block cannot be decoded; copy"),
    ];
    for (bytes, said) in rows {
        let fault = CaptureReader::new(&bytes[..]).err().expect("it is wrong").to_string();
        assert!(fault.contains(said), "{fault}");
    }
}

#[test]
fn mutations_never_panic_and_leave_the_frames_before_them() {
    let samples = samples();
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
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
fn mutated_compression_never_panics_and_a_fault_ends_it() {
    let encode = |sample: &Sample| [gzip(&sample.bytes), zstd(&sample.bytes)];
    let streams: Vec<_> = samples().iter().flat_map(encode).collect();
    for seed in 0..10_000 {
        let mut random = Random::new(seed);
        let mut bytes = streams[random.below(streams.len())].clone();
        let at = random.below(bytes.len());
        bytes[at] = random.byte(bytes[at]);
        read(&bytes[..]);
    }
}

/// Seeded mutations: a seed always gives the same.
struct Random(random::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Self(random::Random::new(seed, 0))
    }

    fn next(&mut self) -> u64 {
        self.0.bits()
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

/// `start` and then what `damage` adds reads as the frames of `start`, then the fault `expected`.
fn check_fault(start: &Sample, damage: impl FnOnce(&mut Sample), expected: &str) {
    let mut sample = start.clone();
    damage(&mut sample);
    let (frames, fault, _) = read(&sample.bytes[..]);
    assert_eq!(frames, start.frames);
    let fault = fault.expect("a fault");
    assert_eq!(fault.fault.to_string(), expected);
    assert_eq!(fault.offset, start.bytes.len() as u64, "{expected}");
    assert_eq!(fault.frames, 1);
}

fn words(values: &[u32]) -> impl FnOnce(&mut Sample) {
    |sample| values.iter().for_each(|value| sample.u32(*value))
}

fn one_record() -> Sample {
    let mut sample = Sample::pcap(Little, 0xa1b2_c3d4);
    sample.record((1, 2), 4, b"abcd");
    sample
}

fn one_packet() -> Sample {
    let mut sample = Sample::pcapng(Big);
    sample.interface(1, 0, &[]);
    sample.enhanced(0, 1_000_000, (0, 1_000_000_000), b"abcd");
    sample
}

#[test]
fn a_fault_of_pcap_is_named() {
    let start = one_record();
    check_fault(
        &start,
        words(&[1, 3, u32::MAX, 4]),
        "the packet claims 4294967295 bytes, more than the limit of 16777216",
    );
    check_fault(
        &start,
        words(&[1, 3, 1500, 1500, 0]),
        "the packet record is cut short: it needs 1516 bytes and 20 are there",
    );
    check_fault(
        &start,
        words(&[1, 3]),
        "the packet record is cut short: it needs 16 bytes and 8 are there",
    );
}

#[test]
fn a_fault_of_a_pcapng_block_is_named() {
    let start = one_packet();
    let length = |part: &str, minimum, length| {
        format!("the {part}'s length is {length} bytes, not a multiple of 4 of at least {minimum}")
    };
    check_fault(&start, words(&[6, 28]), &length("enhanced packet block", 32, 28));
    check_fault(&start, words(&[2, 0]), &length("packet block", 32, 0));
    check_fault(&start, words(&[3, 12]), &length("simple packet block", 16, 12));
    check_fault(&start, words(&[1, 16]), &length("interface description block", 20, 16));
    check_fault(&start, words(&[0xbad, 1001]), &length("block", 12, 1001));
    check_fault(
        &start,
        words(&[0xbad, 16, 0, 20]),
        "the block's length is 16 bytes at its start and 20 at its end",
    );
    check_fault(
        &start,
        words(&[0xbad, u32::MAX - 3, 0]),
        "the block is cut short: it needs 4294967288 bytes and 12 are there",
    );
    check_fault(
        &start,
        words(&[0x0a0d_0d0a, 28, 0x1234_5678]),
        "the section's byte-order magic is 12345678, not 1a2b3c4d in either order",
    );
    check_fault(
        &start,
        words(&[0x0a0d_0d0a, 24, 0x1a2b_3c4d]),
        &length("section header block", 28, 24),
    );
    check_fault(
        &start,
        words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 0x0002_0001]),
        "pcapng version 2.1 is not read, only 1.x",
    );
}

#[test]
fn a_fault_of_a_pcapng_packet_is_named() {
    let start = one_packet();
    check_fault(
        &start,
        words(&[6, 36, 0, 0, 0, 5, 5, 0, 36]),
        "the packet claims 5 captured bytes in a block with room for 4",
    );
    check_fault(
        &start,
        words(&[3, 20, 5, 0, 20]),
        "the packet claims 5 captured bytes in a block with room for 4",
    );
    check_fault(
        &start,
        words(&[6, u32::MAX - 3, 0, 0, 0, PACKET_BYTES_MAX + 1, 0]),
        "the packet claims 16777217 bytes, more than the limit of 16777216",
    );
    check_fault(
        &start,
        words(&[6, 32, 1, 0, 0, 0, 0, 32]),
        "the packet names interface 1, and its section describes 1",
    );
    check_fault(
        &start,
        words(&[6, 32, 0, u32::MAX, 0, 0, 0, 32]),
        "the timestamp of 18446744069414584320 ticks (if_tsresol 6, if_tsoffset 0 s) is not \
         between the years 1970 and 2554",
    );
}

#[test]
fn a_fault_of_a_pcapng_interface_is_named() {
    let start = one_packet();
    check_fault(
        &start,
        words(&[1, 2 * 1024 * 1024]),
        "the interface description block claims 2097152 bytes, more than the limit of 1048576",
    );
    for (code, value) in [(9, &b"ab"[..]), (9, b""), (14, b"1234567"), (14, b"123456789")] {
        check_fault(
            &start,
            |sample| sample.interface(1, 0, &[(code, value)]),
            &format!("the interface's option {code} with {} bytes does not fit", value.len()),
        );
    }
    check_fault(
        &start,
        words(&[1, 28, 0, 0, 0x0002_0010, 0, 28]),
        "the interface's option 2 with 16 bytes does not fit",
    );
}

#[test]
fn interfaces_are_bounded() {
    let mut sample = Sample::pcapng(Little);
    for _ in 0..INTERFACES_MAX {
        sample.interface(1, 0, &[]);
    }
    sample.enhanced(65_535, 1, (65_535, 1_000), b"abcd");
    let expected = format!("the capture describes more than {INTERFACES_MAX} interfaces");
    check_fault(&sample, |sample| sample.interface(1, 0, &[]), &expected);
}

#[test]
fn a_long_name_is_cut_and_one_that_is_not_utf8_is_converted() {
    let mut sample = Sample::pcapng(Little);
    sample.interface(1, 0, &[(2, &[b'x'; 4000])]);
    sample.interface(1, 0, &[(2, b"a\xffb\0\0")]);
    sample.enhanced(0, 1, (0, 1_000), b"");
    let mut reader = CaptureReader::new(&sample.bytes[..]).expect("a good header");
    reader.next_frame().expect("a frame").expect("no fault");
    let names: Vec<_> = reader.interfaces().iter().map(|interface| &interface.name[..]).collect();
    assert_eq!(names, [&"x".repeat(NAME_BYTES_MAX)[..], "a\u{fffd}b"]);
}

#[test]
fn the_whole_message_names_fault_place_and_cure() {
    let message = |bytes: &[u8]| read(bytes).1.expect("a fault").to_string();
    let convert = "give a pcap or pcapng file, plain or in gzip or zstd, or convert it with \
                   `editcap -F pcapng IN OUT`";
    let start = "before any frame, at byte 0 of the capture: ";
    assert_eq!(message(b""), format!("{start}the file is empty; {convert}"));
    let expected = format!("{start}a file that begins with 504b0304 is not a capture; {convert}");
    assert_eq!(message(b"PK\x03\x04zip"), expected);
    let snoop = format!(
        "{start}it is a capture of Solaris' snoop (RFC 1761), which is not read; convert it with \
         `editcap -F pcapng IN OUT`"
    );
    assert_eq!(message(b"snoop\0\0\0\0\0\0\x02"), snoop);
    assert_eq!(message(&gzip(b"PK\x03\x04zip")), expected);
    let header = &one_record().bytes[..20];
    assert_eq!(
        message(header),
        format!(
            "{start}the file header is cut short: it needs 24 bytes and 20 are there; copy or \
             capture it again"
        )
    );
    let mut version = one_record().bytes;
    version[4] = 3;
    let expected = format!("{start}pcap version 3.4 is not read, only 2.x; {convert}");
    assert_eq!(message(&version), expected);
    let cut = one_packet().bytes;
    assert_eq!(
        message(&[&cut[..], b"12345"].concat()),
        format!(
            "after frame 1, at byte {} of the capture: the block is cut short: it needs 8 bytes \
             and 5 are there; copy or capture it again, or keep what is good with \
             `editcap -r IN OUT 1-1`",
            cut.len()
        )
    );
}

#[test]
fn a_missing_file_is_named() {
    let error = CaptureReader::open("no/such/file.pcap").err().expect("there is no such file");
    let message = error.to_string();
    assert!(message.starts_with("cannot open `no/such/file.pcap`: "), "{message}");
    assert!(message.ends_with("; check the path and your permission to read it"), "{message}");
}

#[test]
fn a_source_that_fails_yields_its_frames_then_the_error() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let sample = one_record();
    let (frames, fault, _) = read(sample.bytes.chain(Fails));
    assert_eq!(frames, sample.frames);
    let fault = fault.expect("a fault");
    assert_eq!(fault.fault.to_string(), "cannot read on: the disk is gone");
    assert_eq!(fault.offset, sample.bytes.len() as u64);
}

/// The comment of each enhanced packet in a little-endian capture of the writer's.
fn comments(mut bytes: &[u8]) -> Vec<String> {
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
    };
    let mut comments = Vec::new();
    while !bytes.is_empty() {
        let (block, rest) = bytes.split_at(word(bytes, 4));
        bytes = rest;
        if word(block, 0) != 6 {
            continue;
        }
        let options = &block[28 + word(block, 20).next_multiple_of(4)..block.len() - 4];
        if options.is_empty() {
            comments.push(String::new());
            continue;
        }
        let (code, length) = (word(options, 0) & 0xffff, word(options, 0) >> 16);
        assert_eq!(code, 1);
        assert_eq!(options[4 + length.next_multiple_of(4)..], [0; 4], "the options end");
        comments.push(String::from_utf8(options[4..4 + length].to_vec()).expect("text"));
    }
    comments
}

#[test]
fn what_is_written_reads_back_with_its_interfaces_and_comments() {
    for sample in samples() {
        let mut reader = CaptureReader::new(&sample.bytes[..]).expect("a good header");
        let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
        for (number, expected) in sample.frames.iter().enumerate() {
            reader.next_frame().expect("a frame").expect("no fault");
            writer.describe(reader.interfaces()).expect("memory takes all");
            let record = CaptureRecord {
                timestamp: expected.timestamp + 1,
                interface: expected.interface,
                original_length: expected.original_length,
                bytes: &expected.bytes,
                comment: &"ü!".repeat(number),
            };
            writer.write(&record).expect("memory takes all");
        }
        let written = writer.finish().expect("memory takes all");
        let mut again = CaptureReader::new(&written[..]).expect("a good header");
        for expected in &sample.frames {
            let frame = again.next_frame().expect("a frame").expect("no fault");
            let mut frame = Frame::from(frame);
            frame.timestamp -= 1;
            frame.offset = expected.offset;
            assert_eq!(frame, *expected);
        }
        assert!(again.next_frame().is_none());
        assert_eq!(again.interfaces(), reader.interfaces());
        let expected: Vec<_> = (0..sample.frames.len()).map(|number| "ü!".repeat(number)).collect();
        assert_eq!(comments(&written), expected);
    }
}

#[test]
fn a_long_comment_is_cut_between_characters() {
    let interface = Interface { link_type: CaptureLink::RAW, name: String::new(), snap_length: 0 };
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
    writer.describe(&[interface]).expect("memory takes all");
    let comment = &"ü".repeat(COMMENT_BYTES_MAX);
    let record =
        CaptureRecord { timestamp: 1, interface: 0, original_length: 0, bytes: b"", comment };
    writer.write(&record).expect("memory takes all");
    let written = writer.finish().expect("memory takes all");
    assert_eq!(comments(&written), ["ü".repeat(COMMENT_BYTES_MAX / 2)]);
}
