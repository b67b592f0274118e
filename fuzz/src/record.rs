//! Any bytes as a record, read, made again and forked: the reader trusts none, and no step of a
//! record can ask a link what it does not take.

use weir_core::units::Duration;
use weir_trace::fork::{Ask, Recorded, fork};
use weir_trace::load::Edit;
use weir_trace::record::RecordReader;

/// Panics if reading, replaying or forking does.
pub fn record(input: &[u8]) {
    weir_trace::record::exercise(input);
    if let Ok(reader) = RecordReader::new(input)
        && let Ok(report) = weir_trace::recorded::replay(reader)
    {
        assert!(!report.to_string().is_empty());
    }
    let Ok(recorded) = Recorded::read(|| Ok(input), None) else { return };
    let slower = Edit { key: "link.rate".to_owned(), value: "123 kbit/s".to_owned() };
    for edits in [Vec::new(), vec![slower]] {
        let (at, length) = (recorded.load.start, Duration::from_secs(1));
        let ask = Ask { at, edits, length, step: None, driver: None };
        if let Ok(forked) = fork(&recorded, input, &ask) {
            assert!(!forked.report(&recorded, &ask, 10).t.is_empty());
        }
    }
}
