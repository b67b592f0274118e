//! The server: one thread on which all clients of all endpoints are served.
//!
//! Invariant: whatever clients do, an endpoint serves at most so many at once, each for a bounded
//! time between requests and for an answer, and each takes a bounded amount of memory.

#[cfg(test)]
mod tests;

use super::talk::{Asked, Patience, Talk};
use super::wire::Wire;
use super::{Asking, Fault, respond};
use crate::metrics::Took;
use crate::site::Web;
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as Parts, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::any::Any;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdListener;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;
use weir_control::protocol::Cause;

/// An address at which clients are served.
pub struct Endpoint {
    /// The bound listener.
    pub listener: StdListener,
    /// Its tokens, hosts and TLS.
    pub web: Arc<Web>,
    /// Routes requests to their handlers.
    pub router: Router,
    /// The most clients at once; further ones are told to try again.
    pub clients_max: usize,
    /// How long a client may take.
    pub patience: Patience,
    /// Is told of each client that was refused, unless it is full.
    pub refused: Option<mpsc::Sender<Refusal>>,
}

/// Why a client was refused.
pub type Refusal = (Cause, String);

/// A server at work; it ends when it is dropped.
pub struct Server {
    ends: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Returns what waits for clients. Beside it there are threads for what computes for long.
///
/// # Errors
/// When the system has no descriptor left.
pub fn runtime() -> io::Result<Runtime> {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(THREADS_MAX).build()
}

impl Server {
    /// Serves at these endpoints, on a thread of its own.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(runtime: Runtime, endpoints: Vec<Endpoint>) -> io::Result<Self> {
        let (ends, ending) = watch::channel(false);
        let work = move || {
            runtime.block_on(serve(endpoints, ending));
            // Clients that do not read are left alone.
            runtime.shutdown_timeout(Duration::ZERO);
        };
        let thread = std::thread::Builder::new().name("gateway".to_owned()).spawn(work)?;
        Ok(Self { ends, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without a receiver it has ended.
        let _ended = self.ends.send(true);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            drop(thread.join());
        }
    }
}

/// Serves at all endpoints until the end.
async fn serve(endpoints: Vec<Endpoint>, mut ending: watch::Receiver<bool>) {
    for endpoint in endpoints {
        tokio::spawn(accept(endpoint, ending.clone()));
    }
    // Without a sender, the server is gone.
    let _over = ending.wait_for(|is_over| *is_over).await;
    tokio::time::sleep(LAST_ANSWERS).await;
}

/// Accepts clients at an endpoint until the end.
async fn accept(endpoint: Endpoint, mut ending: watch::Receiver<bool>) {
    let listener = endpoint.listener.try_clone().and_then(TcpListener::from_std);
    let Ok(listener) = listener else { return };
    let places = Arc::new(Semaphore::new(endpoint.clients_max));
    let endpoint = Arc::new(endpoint);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ending.changed() => return,
        };
        // Without a free descriptor the next try would fail as well.
        let Ok((socket, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(copy) = socket.as_fd().try_clone_to_owned() else { continue };
        let talk = Arc::new(Talk::new(copy, endpoint.patience, ending.clone()));
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            let turned_away = turn_away(&endpoint, socket, talk);
            // The client may have disconnected.
            let _gone = timeout(ACCEPT_PAUSE, turned_away).await;
            continue;
        };
        let endpoint = Arc::clone(&endpoint);
        tokio::spawn(async move {
            let _place = place;
            attend(&endpoint, socket, talk).await;
        });
    }
}

/// Tells a client that there are too many; one of TLS is turned away without a word.
async fn turn_away(endpoint: &Endpoint, socket: TcpStream, talk: Arc<Talk>) {
    let text = format!("{} clients are connected already; try again", endpoint.clients_max);
    endpoint.report((Cause::Busy, text.clone()));
    let mut first = [0];
    let peeked = socket.peek(&mut first).await;
    if peeked.is_ok_and(|count| count > 0) && first[0].is_ascii_uppercase() {
        let fault = Fault::new(503, text);
        let wire = Wire::refused(socket, Arc::clone(&talk), fault);
        let _gone = converse(wire, &talk, &endpoint.router).await;
    }
}

/// Serves a client until it disconnects or is refused, within TLS if the endpoint has a
/// certificate.
async fn attend(endpoint: &Endpoint, socket: TcpStream, talk: Arc<Talk>) {
    let ended = match &endpoint.web.tls {
        None => converse(Wire::new(socket, Arc::clone(&talk)), &talk, &endpoint.router).await,
        Some(config) => {
            let accepting = TlsAcceptor::from(Arc::clone(config)).accept(socket);
            match timeout(endpoint.patience.request, accepting).await {
                Ok(Ok(socket)) => {
                    converse(Wire::new(socket, Arc::clone(&talk)), &talk, &endpoint.router).await
                }
                Ok(Err(error)) => {
                    talk.refuse(Cause::Malformed, &format!("TLS cannot begin: {error}"));
                    Ok(())
                }
                Err(_) => {
                    talk.refuse(Cause::Silent, &Fault::slow().text);
                    Ok(())
                }
            }
        }
    };
    if let Err(error) = ended {
        talk.refuse(Cause::NotRead, &format!("the answer was not read: {error}"));
    }
    talk.refusal().into_iter().for_each(|refusal| endpoint.report(refusal));
}

impl Endpoint {
    fn report(&self, refusal: Refusal) {
        // Who makes more of them than are told is told of already.
        self.refused.iter().for_each(|refused| drop(refused.try_send(refusal.clone())));
    }
}

/// Meets the requests of a connection.
///
/// # Errors
/// When the client disconnects in an answer, or does not read it in time.
pub async fn converse<S>(wire: Wire<S>, talk: &Arc<Talk>, router: &Router) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let meet = service_fn(|request: hyper::Request<Incoming>| {
        let (talk, router) = (Arc::clone(talk), router.clone());
        async move { Ok::<_, Infallible>(meet(talk, router, request).await) }
    });
    let mut connection = http1::Builder::new();
    connection.half_close(true).auto_date_header(false).title_case_headers(true);
    let ended = connection.header_read_timeout(None).serve_connection(wire, meet).await;
    talk.close();
    ended
}

async fn meet(
    talk: Arc<Talk>,
    mut router: Router,
    request: hyper::Request<Incoming>,
) -> hyper::Response<Answer> {
    let asked = talk.begin().expect("each head that hyper reads was read before");
    let stays = asked.as_ref().is_ok_and(|asked| asked.head.stays());
    let mut response = match asked {
        Ok(asked) => admitted(&talk, &mut router, asked, request).await,
        Err(fault) => fault.into_response(),
    };
    if let Some(fault) = response.extensions().get::<Fault>().filter(|fault| !fault.is_told) {
        talk.refuse(fault.cause(), &fault.text);
    }
    if response.extensions().get::<respond::Endless>().is_some() {
        talk.answer_until(None);
    } else {
        talk.answer_until(Some(Instant::now() + talk.patience.answer));
    }
    if !response.headers().contains_key("Connection") {
        let connection = if stays { "keep-alive" } else { "close" };
        respond::header(&mut response, "Connection", connection);
    }
    Answer::of(response, talk)
}

/// Has the router meet a request whose head is sound.
async fn admitted(
    talk: &Arc<Talk>,
    router: &mut Router,
    asked: Asked,
    request: hyper::Request<Incoming>,
) -> Response {
    let mut request = request.map(Body::new);
    let asking = Asking { asked, right: None, talk: Arc::clone(talk) };
    request.extensions_mut().insert(asking);
    let Ok(response) = router.call(request).await;
    response
}

/// The body of an answer, with what is held until the client has it.
pub struct Answer {
    body: Body,
    talk: Arc<Talk>,
    took: Option<Took>,
    _held: Option<Held>,
}

/// A value that is held until the client has the answer, such as a place among few.
#[derive(Clone)]
pub struct Held(pub Arc<dyn Any + Send + Sync>);

impl Answer {
    fn of(mut response: Response, talk: Arc<Talk>) -> hyper::Response<Self> {
        let took = response.extensions_mut().remove::<Took>();
        let held = response.extensions_mut().remove::<Held>();
        response.map(|body| Self { body, talk, took, _held: held })
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.took.take().into_iter().for_each(Took::end);
        self.talk.end();
    }
}

impl Parts for Answer {
    type Data = axum::body::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A listener that another process bound, ready to be waited for.
///
/// # Errors
/// When it is no socket.
pub fn listener(descriptor: OwnedFd) -> io::Result<StdListener> {
    let listener = StdListener::from(descriptor);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Threads for what computes for long or asks the keeper: more than answers of that kind at once.
const THREADS_MAX: usize = 32;
/// The pause after a client that could not be accepted, and the longest wait to turn one away.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// How long answers may take that are on their way when the server ends.
const LAST_ANSWERS: Duration = Duration::from_millis(50);
