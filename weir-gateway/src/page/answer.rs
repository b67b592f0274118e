//! The answers to the routes below `/view`.

use super::route::{Route, What, body, query};
use super::{Page, WORKS_MAX, place};
use crate::http::{Asking, Fault, respond};
use crate::json::About;
use axum::body::Bytes;
use axum::response::Response;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_control::protocol::Right;

impl Page {
    /// Returns the answer of a route, as JSON; the fault 500 if making it panics. It is made on a
    /// thread of its own, and other clients are served meanwhile.
    pub(super) async fn answer(
        self: Arc<Self>,
        route: &'static Route,
        asking: &Asking,
        bytes: Bytes,
    ) -> Result<Response, Fault> {
        let work = route.what.is_long().then(|| place(&self.works, WORKS_MAX)).transpose()?;
        let (page, right) = (Arc::clone(&self), asking.right());
        let text = asking.head().query.clone();
        let make = move || {
            let _work = work;
            page.answer_of(route.what, right, (&text, &bytes))
        };
        // What a panic leaves in the source is behind locks, which are taken whatever happened.
        let answer = tokio::task::spawn_blocking(make).await.unwrap_or_else(|_panic| {
            // It was printed when it happened.
            self.panics.fetch_add(1, Ordering::Relaxed);
            let text = "the page failed at this request, which is a fault of Weir; its message is \
                        on the standard error of the page's process";
            Err(Fault::new(500, text))
        });
        Ok(respond::whole(200, respond::JSON, answer?))
    }

    fn answer_of(
        &self,
        what: What,
        right: Right,
        (text, bytes): (&str, &[u8]),
    ) -> Result<Vec<u8>, Fault> {
        let source = &self.source;
        match what {
            What::About => {
                let panics = self.panics.load(Ordering::Relaxed);
                json(&About { panics, ..source.about(right)? })
            }
            What::History => {
                let _turn = self.making.lock();
                json(&source.history(&query(text)?)?)
            }
            What::Heat => {
                let _turn = self.making.lock();
                json(&source.heat(&query(text)?)?)
            }
            What::Events => json(&source.events(&query(text)?)?),
            What::Knobs => json(&source.knobs(&query(text)?)?),
            What::Promises => json(&source.promises(&query(text)?)?),
            What::Packets => json(&source.packets(&query(text)?)?),
            What::Beside => json(&source.beside(&query(text)?)?),
            What::Runs => json(&source.runs()?),
            What::Predict => json(&source.predict(&body(bytes)?)?),
            What::Fork => json(&source.fork(&body(bytes)?)?),
            What::Reacting => json(&source.reacting(&body(bytes)?)?),
        }
    }
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, Fault> {
    // A number that JSON lacks would be a fault of the source.
    serde_json::to_vec(value).map_err(|error| Fault::new(500, error.to_string()))
}
