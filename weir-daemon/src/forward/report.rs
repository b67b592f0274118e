//! Events that say that something happened once.

use weir_link::events::{About, Kind, Reporter};

/// Reports that this happened.
pub(super) fn report(reporter: &Reporter, kind: Kind, subject: &str, detail: &str) {
    reporter.once(kind, About { subject, detail, ..About::default() });
}
