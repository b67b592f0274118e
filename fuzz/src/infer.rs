//! Target `infer`: infers from any bytes as a capture, as two of them, and as a record.

use weir_infer::{Grouping, Input, Options, infer as infer_from};
use weir_trace::capture::CaptureReader;
use weir_trace::record::RecordReader;

/// Infers from an input, and writes what was found: each byte is in one row, and times are those of
/// the input.
pub fn infer(input: &[u8]) {
    let capture = || CaptureReader::new(input).ok();
    let inputs = [
        capture().map(Input::Capture),
        capture().zip(capture()).map(|(inside, outside)| Input::Captures(inside, outside)),
        RecordReader::new(input).ok().map(Input::Record),
    ];
    let grouping = if input.len() % 2 == 0 { Grouping::Population } else { Grouping::Exact };
    let anonymous = (input.len() % 3 == 0).then_some(input.len() as u64);
    for (place, input) in inputs.into_iter().enumerate() {
        let options = Options { grouping, anonymous, ..Options::default() };
        let Some(input) = input else { continue };
        let Ok(found) = infer_from(input, &options, &mut |_| {}) else { continue };
        if place == 0 {
            let [all, modelled] = found.counts.bytes();
            assert_eq!(all, bytes_of(capture()), "each byte is counted once");
            assert!(modelled <= all);
        }
        assert!(found.scenario().contains("duration = "));
        assert!(!found.to_string().is_empty());
        for beside in found.beside() {
            let mut reader = CaptureReader::new(&beside.bytes[..]).expect("it was written");
            while let Some(frame) = reader.next_frame() {
                frame.expect("it was written");
            }
        }
    }
}

/// Returns the bytes of all frames, as a replay counts them.
fn bytes_of(capture: Option<CaptureReader<'_>>) -> u64 {
    let mut all = 0;
    let Some(mut reader) = capture else { return 0 };
    while let Some(Ok(frame)) = reader.next_frame() {
        all += u64::from(weir_sim::replay::frame_length(&frame));
    }
    all
}
