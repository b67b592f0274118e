//! Translates packets of scripts into segments of the model, and back.
//!
//! The endpoint begins at the script's sequence number, so that numbers stay as they are.

use crate::script::{Counter, EcnMark, FlagSet, Packet, TcpOption};
use weir_tcp::{AccEcn, Ecn, Flags, SackBlock, SackBlocks, Segment, SeqNumber, Timestamps};

/// Returns the segment that a packet of a script is.
pub(super) fn segment(packet: &Packet) -> Segment {
    let mut segment = Segment {
        seq: SeqNumber(packet.seq),
        ack: SeqNumber(packet.ack.unwrap_or_default()),
        flags: flags(packet.flags),
        window: packet.window.unwrap_or_default(),
        length: packet.length,
        mss: packet.length.min(u32::from(u16::MAX)) as u16,
        ecn: codepoint(packet.ecn),
        ..Segment::default()
    };
    for option in packet.options.iter().flatten() {
        set(&mut segment, option);
    }
    segment
}

fn set(segment: &mut Segment, option: &TcpOption) {
    match option {
        TcpOption::Mss(size) => segment.mss_option = Some(*size),
        TcpOption::WindowScale(shift) => segment.window_scale = Some(*shift),
        TcpOption::SackPermitted => segment.sack_permitted = true,
        TcpOption::Timestamps { value, echo } => {
            segment.timestamps = Some(Timestamps { value: *value, echo: *echo });
        }
        TcpOption::Sack(blocks) => segment.sack = sack(blocks),
        TcpOption::AccEcn(counters) => segment.acc_ecn = Some(accurate(counters)),
        TcpOption::Padding | TcpOption::Other(_) => {}
    }
}

fn flags(flags: FlagSet) -> Flags {
    Flags::from_ace(flags.ace())
        .with(Flags::SYN, flags.syn)
        .with(Flags::FIN, flags.fin)
        .with(Flags::RST, flags.rst)
        .with(Flags::PSH, flags.psh)
        .with(Flags::ACK, flags.ack)
}

fn codepoint(mark: Option<EcnMark>) -> Ecn {
    match mark {
        None | Some(EcnMark::NotEct) => Ecn::NotEct,
        Some(EcnMark::Ect0 | EcnMark::Ect01) => Ecn::Ect0,
        Some(EcnMark::Ect1) => Ecn::Ect1,
        Some(EcnMark::Ce) => Ecn::Ce,
    }
}

fn sack(blocks: &[(u32, u32)]) -> SackBlocks {
    let mut sack = SackBlocks::new();
    for (start, end) in blocks {
        sack.push(SackBlock { start: SeqNumber(*start), end: SeqNumber(*end) });
    }
    sack
}

fn accurate(counters: &[(Counter, u32)]) -> AccEcn {
    let mut option = AccEcn { fields: counters.len() as u8, ..AccEcn::default() };
    option.ect1_first = counters.first().is_some_and(|(counter, _)| *counter == Counter::Ect1);
    for (counter, bytes) in counters {
        match counter {
            Counter::Ect0 => option.ect0 = *bytes,
            Counter::Ce => option.ce = *bytes,
            Counter::Ect1 => option.ect1 = *bytes,
        }
    }
    option
}

/// Returns the packet that a segment of the model is.
pub(super) fn packet(segment: &Segment) -> Packet {
    let has = |flag| segment.flags.has(flag);
    let flags = FlagSet {
        syn: has(Flags::SYN),
        fin: has(Flags::FIN),
        rst: has(Flags::RST),
        psh: has(Flags::PSH),
        ack: has(Flags::ACK),
        ace: Some(segment.flags.ace()),
        ..FlagSet::default()
    };
    Packet {
        ecn: Some(match segment.ecn {
            Ecn::NotEct => EcnMark::NotEct,
            Ecn::Ect0 => EcnMark::Ect0,
            Ecn::Ect1 => EcnMark::Ect1,
            Ecn::Ce => EcnMark::Ce,
        }),
        flags,
        seq: segment.seq.0,
        length: segment.length,
        ack: has(Flags::ACK).then_some(segment.ack.0),
        window: Some(segment.window),
        options: Some(options(segment)),
        ..Packet::default()
    }
}

fn options(segment: &Segment) -> Vec<TcpOption> {
    let mut options = Vec::new();
    options.extend(segment.mss_option.map(TcpOption::Mss));
    if segment.sack_permitted {
        options.push(TcpOption::SackPermitted);
    }
    let stamps = segment.timestamps;
    options.extend(
        stamps.map(|stamps| TcpOption::Timestamps { value: stamps.value, echo: stamps.echo }),
    );
    options.extend(segment.window_scale.map(TcpOption::WindowScale));
    if !segment.sack.is_empty() {
        let blocks = segment.sack.as_slice().iter();
        options.push(TcpOption::Sack(blocks.map(|block| (block.start.0, block.end.0)).collect()));
    }
    options.extend(segment.acc_ecn.map(|option| TcpOption::AccEcn(counters(&option))));
    options
}

/// Returns the counters of an option in the order in which they are sent.
fn counters(option: &AccEcn) -> Vec<(Counter, u32)> {
    let ect0 = (Counter::Ect0, option.ect0);
    let ect1 = (Counter::Ect1, option.ect1);
    let (first, last) = if option.ect1_first { (ect1, ect0) } else { (ect0, ect1) };
    let all = [first, (Counter::Ce, option.ce), last];
    all.into_iter().take(usize::from(option.fields)).collect()
}
