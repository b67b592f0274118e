//! Target `capture`: reading any bytes as a capture, then writing what was read and reading that.

use weir_sim::capture::{CaptureReader, CaptureRecord, CaptureWriter, exercise};

/// Reads an input, and reads it again from what the writer makes of it.
pub fn capture(input: &[u8]) {
    let frames = exercise(input);
    let Ok(mut reader) = CaptureReader::new(input) else { return };
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = reader.next_frame() {
        bytes.clear();
        bytes.extend_from_slice(frame.bytes);
        let (timestamp, interface) = (frame.timestamp, frame.interface);
        let original_length = frame.original_length;
        let (bytes, comment) = (&bytes[..], "read once");
        writer.describe(reader.interfaces()).expect("memory takes all");
        let record = CaptureRecord { timestamp, interface, original_length, bytes, comment };
        writer.write(&record).expect("memory takes all");
    }
    let written = writer.finish().expect("memory takes all");
    assert_eq!(exercise(&written), frames, "what is written is read");
}
