//! The answers to the routes below `/view`.

use super::route::{Route, What, body, query};
use super::talk::Talk;
use super::{Slot, WORKS_MAX};
use crate::json::About;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_control::http::Fault;
use weir_control::protocol::Right;

impl Talk<'_> {
    /// Returns the answer of a route, as JSON; the fault 500 if making it panics.
    pub(super) fn answer_to(
        &self,
        route: &Route,
        right: Right,
        (text, bytes): (&str, &[u8]),
    ) -> Result<Vec<u8>, Fault> {
        // What a panic leaves in the source is behind locks, which are taken whatever happened.
        let answer = AssertUnwindSafe(|| self.answer_of(route, right, (text, bytes)));
        catch_unwind(answer).unwrap_or_else(|_panic| {
            // It was printed when it happened.
            self.shared.panics.fetch_add(1, Ordering::Relaxed);
            let text = "the page failed at this request, which is a fault of Weir; its message is \
                        on the standard error of the page's process";
            Err(Fault::new(500, text))
        })
    }

    fn answer_of(
        &self,
        route: &Route,
        right: Right,
        (text, bytes): (&str, &[u8]),
    ) -> Result<Vec<u8>, Fault> {
        let source = &self.shared.source;
        let is_long = route.what.is_long();
        let _work = if is_long { Some(self.begin_work()?) } else { None };
        match route.what {
            What::About => {
                let panics = self.shared.panics.load(Ordering::Relaxed);
                json(&About { panics, ..source.about(right)? })
            }
            What::History => {
                let _turn = self.shared.making.lock();
                json(&source.history(&query(text)?)?)
            }
            What::Heat => {
                let _turn = self.shared.making.lock();
                json(&source.heat(&query(text)?)?)
            }
            What::Events => json(&source.events(&query(text)?)?),
            What::Knobs => json(&source.knobs(&query(text)?)?),
            What::Packets => json(&source.packets(&query(text)?)?),
            What::Beside => json(&source.beside(&query(text)?)?),
            What::Predict => json(&source.predict(&body(bytes)?)?),
            What::Fork => json(&source.fork(&body(bytes)?)?),
        }
    }

    /// Takes one of the few places for what takes long.
    pub(super) fn begin_work(&self) -> Result<Slot<'_>, Fault> {
        take(&self.shared.works, WORKS_MAX)
    }
}

/// Takes a place of at most `max`.
pub(super) fn take(count: &AtomicUsize, max: usize) -> Result<Slot<'_>, Fault> {
    let full = || Fault::new(503, format!("{max} requests of this sort are under way; try again"));
    Slot::take(count, max).ok_or_else(full)
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, Fault> {
    // A number that JSON lacks would be a fault of the source.
    serde_json::to_vec(value).map_err(|error| Fault::new(500, error.to_string()))
}
