//! The page by HTTP: its files, its data below `/view`, and the control API of the link behind it,
//! which is asked with the rights of the token.
//!
//! Invariant: no client asks the link by itself for what all see: the source has that. What takes
//! long is done on threads beside the one that serves, a bounded number at once. An answer that
//! panics is counted, costs its client the connection, and costs others nothing.

mod answer;
pub mod feed;
mod route;
mod stream;
#[cfg(test)]
mod tests;

use crate::api::{self, Api, route as control};
use crate::assets::{self, Asset};
use crate::http::guard::Site;
use crate::http::memory;
use crate::http::respond::{header, whole};
use crate::http::serve::Held;
use crate::http::{Asking, Fault, body};
use crate::source::Source;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use weir_control::protocol::{CALLS, Call, Method, REQUEST_MAX, Right, Route};

/// The page of a source.
pub struct Page {
    /// The link, record or report on view.
    source: Arc<dyn Source>,
    /// The API of the link that is shown, if one is.
    api: Option<Arc<Api>>,
    /// The clients that may see it.
    site: Site,
    /// Places of clients that read the stream.
    streams: Arc<Semaphore>,
    /// Places of requests that take long, while they are under way, and of those that ask the link,
    /// until their clients have read the answers.
    works: Arc<Semaphore>,
    /// Places of answers that go through all that is kept, until their clients have read them.
    wide: Arc<Semaphore>,
    /// Such answers are made one after the other.
    making: Mutex<()>,
    /// Requests whose answers panicked: each a fault of Weir.
    panics: AtomicU64,
}

impl Page {
    /// The page of what a source shows, with the API of the link behind it, to those whom the site
    /// admits.
    pub fn new(source: Arc<dyn Source>, api: Option<Arc<Api>>, site: Site) -> Arc<Self> {
        let places = |count| Arc::new(Semaphore::new(count));
        let (making, panics) = (Mutex::new(()), AtomicU64::new(0));
        let [streams, works, wide] = [STREAMS_MAX, WORKS_MAX, WIDE_MAX].map(places);
        Arc::new(Self { source, api, site, streams, works, wide, making, panics })
    }

    /// Returns what meets its requests.
    pub fn router(self: &Arc<Self>) -> Router {
        // Compressed before the first client waits for it.
        let _page = assets::all();
        let mut router = Router::new()
            .route("/", get(asset).fallback(asset))
            .route("/assets/{*path}", get(asset).fallback(asset))
            .route(route::STREAM, get(stream::stream).fallback(missing));
        for one in route::ROUTES {
            router = router.route(one.path, view(one));
        }
        for (path, call) in passed_on() {
            router = router.route(path, pass(call));
        }
        let admission = from_fn_with_state(Arc::clone(self), admit);
        router.fallback(missing).layer(admission).with_state(Arc::clone(self))
    }
}

/// Returns what the link itself answers: the requests of the table, and two documents.
fn passed_on() -> impl Iterator<Item = (&'static str, Option<&'static Call>)> {
    let calls = CALLS.iter().filter_map(|call| Some((call.route?.path, Some(call))));
    calls.chain([(control::METRICS, None), (control::DOCUMENT, None)])
}

/// Lets in those who may ask: everybody sees the files of the page, which have no data.
async fn admit(
    State(page): State<Arc<Page>>,
    Extension(mut asking): Extension<Asking>,
    mut request: Request,
    next: Next,
) -> Response {
    let admitted = match assets::is_path(&asking.head().path) {
        true => page.site.expect_here(asking.head()).map(|()| None),
        false => page.site.admit(asking.head()),
    };
    match admitted {
        Ok(right) => asking.right = right,
        Err(fault) => return fault.into_response(),
    }
    request.extensions_mut().insert(asking);
    next.run(request).await
}

async fn missing(Extension(asking): Extension<Asking>) -> Fault {
    route::missing(&asking.head().path)
}

/// Returns what meets requests for the data of a route.
fn view(route: &'static route::Route) -> MethodRouter<Arc<Page>> {
    let meet = move |State(page): State<Arc<Page>>,
                     Extension(asking): Extension<Asking>,
                     body: Body| async move {
        page.view(route, &asking, body).await.unwrap_or_else(Fault::into_response)
    };
    let methods = if route.method == Method::Get { get(meet) } else { post(meet) };
    methods.fallback(missing)
}

/// Returns what passes on requests of a line of the table, or for a document.
fn pass(call: Option<&'static Call>) -> MethodRouter<Arc<Page>> {
    let meet = move |State(page): State<Arc<Page>>,
                     Extension(asking): Extension<Asking>,
                     request: Request| async move {
        page.pass(call, &asking, request).await.unwrap_or_else(Fault::into_response)
    };
    let method = call.and_then(|call| call.route).map_or(Method::Get, |route| route.method);
    let methods = if method == Method::Get { get(meet) } else { post(meet) };
    methods.fallback(missing)
}

impl Page {
    async fn view(
        self: Arc<Self>,
        route: &'static route::Route,
        asking: &Asking,
        more: Body,
    ) -> Result<Response, Fault> {
        expect(route.right, asking)?;
        let room = if route.method == Method::Post { REQUEST_MAX } else { 0 };
        let bytes = body(asking, room, more).await?;
        // Held until it is read: answers of those who do not read are bounded.
        let wide = route.what.is_wide().then(|| place(&self.wide, WIDE_MAX)).transpose()?;
        let mut response = self.answer(route, asking, bytes).await?;
        if let Some(place) = wide {
            response.extensions_mut().insert(Held(Arc::new(place)));
        }
        Ok(response)
    }

    /// Has the link answer a request.
    async fn pass(
        self: Arc<Self>,
        call: Option<&'static Call>,
        asking: &Asking,
        request: Request,
    ) -> Result<Response, Fault> {
        let route = call.and_then(|call| call.route);
        if route.is_some_and(|route| route.follows.is_some()) {
            let text = "records are not passed on; use `weir record`";
            return Err(Fault::new(404, text));
        }
        expect(call.map_or(Right::Read, |call| call.right), asking)?;
        let none = "no link is behind this page, only what it did once";
        let api = self.api.as_ref().ok_or_else(|| Fault::new(404, none))?;
        // Held until it is read: each such answer may hold a connection to the link.
        let work = Held(Arc::new(place(&self.works, WORKS_MAX)?));
        let more = request.into_body();
        let mut response = match call {
            None => api.document(asking, more).await?,
            Some(call) => {
                let room = if route.is_some_and(Route::takes_body) { REQUEST_MAX } else { 0 };
                let request = api::read(call, asking, (room, more)).await?;
                api.answer(asking.right(), &request).await?
            }
        };
        response.extensions_mut().insert(work);
        Ok(response)
    }
}

/// Refuses a client whose token does not allow so much.
fn expect(right: Right, asking: &Asking) -> Result<(), Fault> {
    if right <= asking.right() {
        return Ok(());
    }
    Err(Fault::new(403, "this token may only look; use the one that may change the link"))
}

/// Takes a place of at most `max`.
fn place(places: &Arc<Semaphore>, max: usize) -> Result<tokio::sync::OwnedSemaphorePermit, Fault> {
    let full = || Fault::new(503, format!("{max} requests of this sort are under way; try again"));
    Arc::clone(places).try_acquire_owned().map_err(|_| full())
}

/// Sends a file of the page, unless the client has it already.
async fn asset(Extension(asking): Extension<Asking>, none: Body) -> Response {
    match file(&asking, none).await {
        Ok(response) => response,
        Err(fault) => fault.into_response(),
    }
}

async fn file(asking: &Asking, none: Body) -> Result<Response, Fault> {
    let head = asking.head();
    body(asking, 0, none).await?;
    if !matches!(head.method.as_str(), "GET" | "HEAD") {
        return Err(Fault::method("GET", "GET, HEAD"));
    }
    let missing = "the page has no such file; `GET /` is the page";
    let Asset { plain, gzip, tag, kind } =
        assets::find(&head.path).ok_or_else(|| Fault::new(404, missing))?;
    let gzip = gzip.as_ref().filter(|_| head.takes_gzip());
    let is_known = head.if_none_match.as_ref().is_some_and(|known| known.contains(tag.as_str()));
    let mut response = match (is_known, gzip) {
        (true, _) => whole(304, kind, Body::empty()),
        (false, Some(gzip)) => whole(200, kind, gzip.as_slice()),
        (false, None) => whole(200, kind, *plain),
    };
    // Asked for anew each time, so that a page of before an update is never mixed with it.
    header(&mut response, "Cache-Control", "no-cache");
    header(&mut response, "ETag", tag);
    header(&mut response, "Vary", "Accept-Encoding");
    header(&mut response, "Content-Security-Policy", POLICY);
    header(&mut response, "Referrer-Policy", "no-referrer");
    header(&mut response, "Cross-Origin-Opener-Policy", "same-origin");
    if gzip.is_some() && !is_known {
        header(&mut response, "Content-Encoding", "gzip");
    }
    Ok(response)
}

/// Meets any bytes as the requests of a client without a token: for the fuzz target.
///
/// # Panics
/// When there is no answer.
pub fn exercise(bytes: &[u8], source: Arc<dyn Source>) {
    let router = Page::new(source, None, Site::Local).router();
    let answer = memory::answer(bytes, &router).answer;
    // Of the version that was asked.
    assert!(bytes.is_empty() || answer.starts_with(b"HTTP/1."), "there is an answer");
}

/// The page's rights in a browser: to load from here and from nowhere else, and to be shown in no
/// frame.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";
/// Bound: clients of the page served at once; further ones are told to try again. A browser opens
/// up to six connections for a page.
pub const CLIENTS_MAX: usize = 64;
/// Bound: clients that read the page's stream; further ones are told to try again. They take as
/// long as they like.
pub const STREAMS_MAX: usize = 32;
/// Bound: requests of the page at once that ask the link or compute for long; further ones are told
/// to try again.
pub const WORKS_MAX: usize = 4;
/// Bound: answers of the page at once that go through all that is kept; further ones are told to
/// try again.
pub const WIDE_MAX: usize = 16;
