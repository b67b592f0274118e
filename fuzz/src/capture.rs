//! Target `capture`: reads any bytes as a capture, then writes the result and reads that.

use weir_trace::capture::{CaptureReader, CaptureRecord, CaptureWriter, exercise};

/// Reads an input, and reads the writer's output for it.
pub fn capture(input: &[u8]) {
    let frames = exercise(input);
    let Ok(mut reader) = CaptureReader::new(input) else { return };
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory suffices");
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = reader.next_frame() {
        bytes.clear();
        bytes.extend_from_slice(frame.bytes);
        let (timestamp, interface) = (frame.timestamp, frame.interface);
        let original_length = frame.original_length;
        let (bytes, comment) = (&bytes[..], "read once");
        writer.describe(reader.interfaces()).expect("memory suffices");
        let record = CaptureRecord { timestamp, interface, original_length, bytes, comment };
        writer.write(&record).expect("memory suffices");
    }
    let written = writer.finish().expect("memory suffices");
    assert_eq!(exercise(&written), frames, "every frame written is read");
}
