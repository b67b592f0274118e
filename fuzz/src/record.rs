//! Any bytes as a record, read and made again: the reader trusts none, and no step of a record can
//! ask a link what it does not take.

use weir_record::RecordReader;

/// Panics if reading or replaying does.
pub fn record(input: &[u8]) {
    weir_record::exercise(input);
    if let Ok(reader) = RecordReader::new(input)
        && let Ok(report) = weir_sim::recorded::replay(reader)
    {
        assert!(!report.to_string().is_empty());
    }
}
