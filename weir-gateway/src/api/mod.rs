//! The control API by HTTP: each request of the table ([`CALLS`]) at its path, the counters for
//! Prometheus, and the description of all of this.
//!
//! The link answers; here is only the way to it ([`link`]), what a path means ([`route`]) and how
//! an answer is sent. docs/api.md describes the API.

mod ask;
pub mod document;
pub mod link;
pub mod route;
pub mod stream;
#[cfg(test)]
mod tests;

use crate::http::guard::Site;
use crate::http::{Asking, Fault, body, memory, respond};
use crate::live::contact::ByPath;
use crate::metrics::{self, Times, Took};
use crate::source::Contact;
pub use ask::{Reply, ask};
use axum::Extension;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use link::{Answering, Outcome};
use std::path::PathBuf;
use std::sync::Arc;
use weir_control::protocol::{
    Answer, CALLS, Call, Method, OWNER_REQUEST_MAX, Query, RECORD_MS_MAX, REQUEST_MAX, Request,
    Right, Route,
};
use weir_link::status::Status;

/// The API of a link.
pub struct Api {
    /// The name of its deployment.
    name: String,
    /// The way to its control socket.
    contact: Arc<dyn Contact>,
    /// The clients that may send requests.
    site: Site,
    /// How long requests took.
    times: Arc<Times>,
}

impl Api {
    /// The API of the link of this name behind this contact.
    pub fn new(name: &str, contact: Arc<dyn Contact>, site: Site) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), contact, site, times: Arc::default() })
    }

    /// Returns what meets its requests.
    pub fn router(self: &Arc<Self>) -> Router {
        let mut router = Router::new()
            .route(route::METRICS, get(document_of).fallback(missing))
            .route(route::DOCUMENT, get(document_of).fallback(missing));
        for call in CALLS {
            if let Some(route) = call.route {
                router = router.route(route.path, handler(call, route));
            }
        }
        let admission = from_fn_with_state(Arc::clone(self), admit);
        router.fallback(missing).layer(admission).with_state(Arc::clone(self))
    }
}

/// Returns what meets the requests of a line of the table.
fn handler(call: &'static Call, route: Route) -> MethodRouter<Arc<Api>> {
    let meet = move |State(api): State<Arc<Api>>,
                     Extension(asking): Extension<Asking>,
                     body: Body| async move {
        api.meet(call, &asking, body).await.unwrap_or_else(Fault::into_response)
    };
    let methods = match route.method {
        Method::Get => get(meet),
        Method::Post => post(meet),
    };
    methods.fallback(missing)
}

/// Lets in those who may ask.
async fn admit(
    State(api): State<Arc<Api>>,
    Extension(mut asking): Extension<Asking>,
    mut request: axum::extract::Request,
    next: Next,
) -> Response {
    match api.site.admit(asking.head()) {
        Ok(right) => asking.right = right,
        Err(fault) => return fault.into_response(),
    }
    request.extensions_mut().insert(asking);
    next.run(request).await
}

async fn missing(Extension(asking): Extension<Asking>) -> Fault {
    route::missing(&asking.head().path)
}

async fn document_of(
    State(api): State<Arc<Api>>,
    Extension(asking): Extension<Asking>,
    none: Body,
) -> Result<Response, Fault> {
    let took = Took::begin(&api.times, None);
    api.document(&asking, none).await.map(|response| timed(took, response))
}

/// Lets the time of a request be counted when its answer has been given to the connection.
fn timed(took: Took, mut response: Response) -> Response {
    response.extensions_mut().insert(took);
    response
}

impl Api {
    /// Meets a request of the table.
    async fn meet(
        &self,
        call: &'static Call,
        asking: &Asking,
        body: Body,
    ) -> Result<Response, Fault> {
        let right = asking.right();
        if call.right > right {
            return Err(Fault::new(403, "this token only reads; send the one of `token_file`"));
        }
        let room = match call.route.is_some_and(Route::takes_body) {
            true if right == Right::Change => OWNER_REQUEST_MAX,
            true => REQUEST_MAX,
            false => 0,
        };
        let request = read(call, asking, (room, body)).await?;
        let took = Took::begin(&self.times, Some(call.keyword));
        if let Request::Events(since) = &request
            && since.follow
        {
            return self.events(&request, asking).await;
        }
        if let Some(kind) = call.route.and_then(|route| route.follows) {
            return self.record(&request, asking, kind).await;
        }
        self.answer(right, &request).await.map(|response| timed(took, response))
    }

    /// Returns the answer of the link to a request.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub async fn answer(&self, right: Right, request: &Request) -> Result<Response, Fault> {
        match link::ask(&self.contact, right, request).await? {
            Outcome::Met(answering) => Ok(answering.respond(request)),
            Outcome::Failed(why) => Ok(failed(&why)),
        }
    }

    /// Sends the counters, or the description of the API.
    ///
    /// # Errors
    /// When the link does not answer, or refuses.
    pub async fn document(&self, asking: &Asking, none: Body) -> Result<Response, Fault> {
        body(asking, 0, none).await?;
        if asking.head().path == route::METRICS {
            return self.counters(asking).await;
        }
        Ok(respond::whole(200, respond::JSON, document::openapi().to_string()))
    }

    /// Sends a record of this type as it is made.
    async fn record(
        &self,
        request: &Request,
        asking: &Asking,
        kind: &str,
    ) -> Result<Response, Fault> {
        check_length(request)?;
        if asking.is_head() {
            return Ok(respond::without_body(kind));
        }
        let answering = match link::ask(&self.contact, asking.right(), request).await? {
            Outcome::Met(answering) => answering,
            Outcome::Failed(why) => return Ok(failed(&why)),
        };
        let mut parts = answering.parts().await?;
        let (sender, response) = respond::parts(kind, false);
        let talk = Arc::clone(&asking.talk);
        tokio::spawn(async move {
            loop {
                let part = tokio::select! {
                    part = parts.next() => part,
                    // The record then lacks its last part, like one whose client is gone.
                    () = talk.over() => Err(std::io::ErrorKind::ConnectionAborted.into()),
                };
                let Some(part) = part.transpose() else { return };
                let is_last = part.is_err();
                if sender.send(part).await.is_err() || is_last {
                    return;
                }
            }
        });
        Ok(response)
    }

    /// Sends events as they happen.
    async fn events(&self, request: &Request, asking: &Asking) -> Result<Response, Fault> {
        if asking.is_head() {
            return Ok(respond::without_body(stream::KIND));
        }
        match link::ask(&self.contact, asking.right(), request).await? {
            Outcome::Failed(why) => Ok(failed(&why)),
            Outcome::Met(answering) => {
                let parts = answering.parts().await?;
                let (sender, response) = respond::parts(stream::KIND, true);
                tokio::spawn(stream::send(parts, sender, Arc::clone(&asking.talk)));
                Ok(response)
            }
        }
    }

    /// Sends the counters of the classes in the query.
    async fn counters(&self, asking: &Asking) -> Result<Response, Fault> {
        let request = route::request(&CALLS[0], &asking.head().query, &[])?;
        let limit = match &request {
            Request::Status(Query { limit, .. }) => *limit,
            _ => None,
        };
        if limit.is_some_and(|limit| limit > metrics::CLASSES_MAX) {
            let text = format!("a scrape has at most {} classes", metrics::CLASSES_MAX);
            return Err(Fault::bad(text));
        }
        let line = match link::ask(&self.contact, asking.right(), &request).await? {
            Outcome::Met(answering) => whole(answering, &request).await?,
            Outcome::Failed(why) => return Ok(failed(&why)),
        };
        let (name, times) = (self.name.clone(), Arc::clone(&self.times));
        // So many classes would let others wait.
        let written = tokio::task::spawn_blocking(move || text(&line, &name, &times)).await;
        let text = written.map_err(|error| Fault::new(500, error.to_string()))??;
        Ok(respond::whole(200, metrics::CONTENT, text))
    }
}

/// Returns the whole answer to a request.
async fn whole(mut answering: Answering, request: &Request) -> Result<Vec<u8>, Fault> {
    answering.line(weir_control::client::answer_max(request)).await
}

/// Returns the counters of a status.
fn text(line: &[u8], name: &str, times: &Times) -> Result<Vec<u8>, Fault> {
    let unexpected = "the link gave another answer than was asked for";
    let Ok(Answer::Status(status)) = serde_json::from_slice::<Answer<Box<Status>>>(line) else {
        return Err(Fault::new(500, unexpected));
    };
    let mut text = Vec::new();
    let written = metrics::write(&mut text, name, (&status, times));
    written.map_err(|error| Fault::new(500, error.to_string()))?;
    Ok(text)
}

/// Reads a request of the table, whose body may have so many bytes.
pub async fn read(
    call: &'static Call,
    asking: &Asking,
    (room, more): (usize, Body),
) -> Result<Request, Fault> {
    let mut bytes = body(asking, room, more).await?;
    if asking.has(respond::LINES) {
        bytes = route::of_lines(call, &bytes)?.into();
    }
    let mut request = route::request(call, &asking.head().query, &bytes)?;
    if let Request::Events(since) = &mut request {
        since.after = asking.head().last_event_id.clone().or(since.after.take());
        since.follow |= asking.head().accepts(stream::KIND);
    }
    Ok(request)
}

/// Returns why the link could not meet a request.
fn failed(why: &str) -> Response {
    let body = serde_json::json!({ "error": why }).to_string();
    respond::whole(409, respond::JSON, body)
}

/// Refuses a record without a length, which would be cut when the client disconnects.
fn check_length(request: &Request) -> Result<(), Fault> {
    match request {
        Request::Record { for_ms: None } => {
            Err(Fault::bad("say how many milliseconds to record, such as /record?for_ms=10000"))
        }
        Request::Record { for_ms: Some(ms) } if !(1..=RECORD_MS_MAX).contains(ms) => {
            Err(Fault::bad(format!("`for_ms` is {ms}; write 1 to {RECORD_MS_MAX}")))
        }
        _ => Ok(()),
    }
}

/// Meets any bytes as the requests of a client who may change the link: for the fuzz target. The
/// link behind it has just ended.
///
/// # Panics
/// When there is no answer.
pub fn exercise(bytes: &[u8]) {
    let gone = PathBuf::from("/");
    let contact = Arc::new(ByPath::new(None, Some(gone)));
    let router = Api::new("gone", contact, Site::Local).router();
    let answer = memory::answer(bytes, &router).answer;
    // Of the version that was asked.
    assert!(bytes.is_empty() || answer.starts_with(b"HTTP/1."), "there is an answer");
}
