//! The policies of a link as last read.
//!
//! To read 100 000 classes takes seconds, and a page asks for settings, promises and predictions
//! between two changes.

use crate::http::Fault;
use std::sync::{Arc, Mutex, PoisonError};
use weir_control::texts;
use weir_link::change::history::Texts;
use weir_policy::deployment::Deployment;
use weir_policy::finding::Outcome;

/// Texts with what they say.
pub struct Reading {
    /// The texts.
    pub texts: Texts,
    /// The deployment and its policies, with all findings.
    pub outcome: Outcome<Deployment>,
}

impl Reading {
    /// Reads texts.
    pub fn new(texts: Texts) -> Self {
        Self { outcome: texts::read_again(&texts), texts }
    }

    /// Returns the deployment.
    ///
    /// # Errors
    /// When it has errors, which the link did not find.
    pub fn deployment(&self) -> Result<&Deployment, Fault> {
        let wrong = || Fault::new(500, "the policies in force have errors for this program");
        self.outcome.plan.as_ref().ok_or_else(wrong)
    }
}

/// The reading of the texts that were asked for last.
#[derive(Default)]
pub struct LastReading(Mutex<Option<Arc<Reading>>>);

impl LastReading {
    /// Returns the reading of these texts, an earlier one if there is. Callers wait for each other.
    pub fn of(&self, texts: Texts) -> Arc<Reading> {
        // A reader that panicked left what was there.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = last.as_ref().filter(|reading| reading.texts == texts) {
            return Arc::clone(reading);
        }
        // Two are never in memory for this.
        *last = None;
        Arc::clone(last.insert(Arc::new(Reading::new(texts))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_link::change::history::File;

    #[test]
    fn texts_are_read_again_where_they_changed() {
        let texts = |policy: &str| Texts {
            deployment: File { name: "d.toml".to_owned(), text: policy.to_owned() },
            ..Texts::default()
        };
        let last = LastReading::default();
        let first = last.of(texts("one"));
        assert!(Arc::ptr_eq(&first, &last.of(texts("one"))));
        let second = last.of(texts("two"));
        assert!(!Arc::ptr_eq(&first, &second) && second.texts == texts("two"));
        assert!(second.deployment().is_err());
    }
}
