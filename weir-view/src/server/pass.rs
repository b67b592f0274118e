//! Requests of the control API, which the link itself answers.

use super::talk::Talk;
use weir_control::http::exchange::End;
use weir_control::http::heading::Head;
use weir_control::http::{self, Fault};

impl Talk<'_> {
    /// Has the link answer a request, and sends its answer on.
    pub(super) fn pass(&mut self, head: &Head, body: &[u8]) -> Result<(), End> {
        let contact = self.shared.source.contact();
        let none = "no link is behind this page, only what it did once";
        let contact = contact.ok_or_else(|| Fault::new(404, none))?;
        let work = self.begin_work()?;
        let busy = |text: String| Fault::new(503, text);
        let mut link = contact.connect().map_err(busy)?;
        let target = match head.query.as_str() {
            "" => head.path.clone(),
            query => format!("{}?{query}", head.path),
        };
        let answer = http::ask_on(&mut link, &head.method, &target, (body, BYTES_MAX));
        let answer = answer.map_err(busy)?;
        drop(work);
        self.exchange.wire.until(std::time::Instant::now() + super::talk::ANSWER_PATIENCE);
        Ok(self.writing(head).whole(answer.status, &answer.kind, &answer.body)?)
    }
}

/// The longest answer that is passed on: more than a thousand classes take.
const BYTES_MAX: u64 = 32 << 20;
