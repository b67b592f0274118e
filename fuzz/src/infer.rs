//! Target `infer`: infers from any bytes as a capture, as two of them, and as a record.

use std::io;
use std::path::Path;
use weir_infer::{Grouping, Input, Options, infer as infer_from};
use weir_trace::capture::CaptureReader;
use weir_trace::record::RecordReader;

/// Infers from an input, and writes what was found: each byte is in one row, and what is written
/// is a scenario.
pub fn infer(input: &[u8]) {
    let capture = || CaptureReader::new(input).ok();
    let inputs = [
        capture().map(Input::Capture),
        capture().zip(capture()).map(|(inside, outside)| Input::Captures(inside, outside)),
        RecordReader::new(input).ok().map(Input::Record),
    ];
    let grouping =
        if input.len().is_multiple_of(2) { Grouping::Population } else { Grouping::Exact };
    let anonymous = input.len().is_multiple_of(3).then_some(input.len() as u64);
    for (place, input) in inputs.into_iter().enumerate() {
        let options = Options { grouping, anonymous, ..Options::default() };
        let Some(input) = input else { continue };
        let Ok(found) = infer_from(input, &options, &mut |_| {}) else { continue };
        if place == 0 {
            let [all, modelled] = found.counts.bytes();
            assert_eq!(all, bytes_of(capture()), "each byte is counted once");
            assert!(modelled <= all);
        }
        assert!(!found.to_string().is_empty());
        let (text, beside) = (found.scenario(), found.beside());
        let read = |path: &Path| {
            let file = beside.iter().find(|file| path.ends_with(&file.name));
            file.map(|file| file.bytes.clone()).ok_or(io::ErrorKind::NotFound.into())
        };
        let outcome = weir_sim::read::parse(text.as_bytes(), "inferred.toml", &read);
        assert!(outcome.plan.is_some(), "{text}\n{:?}", outcome.findings);
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
