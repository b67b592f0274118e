//! One request to a running link, as by HTTP and without it: for the command, which speaks to the
//! control socket.

use super::Api;
use crate::http::guard::Site;
use crate::http::heading::Head;
use crate::http::serve::runtime;
use crate::http::talk::{Asked, Patience, Talk};
use crate::http::{Asking, respond};
use crate::live::contact::ByPath;
use axum::body::{Body, to_bytes};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;
use tower_service::Service;

/// An answer, before it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The status code of HTTP.
    pub status: u16,
    /// The type of its body.
    pub kind: String,
    /// The body of the response.
    pub body: Vec<u8>,
}

/// Sends a request to the link that listens at `path`; a body is JSON.
///
/// # Errors
/// When the path is none of the API, or no whole answer comes.
pub fn ask(path: &Path, method: &str, target: &str, body: &str) -> Result<Reply, String> {
    let fits = |one: char| one.is_ascii_graphic();
    if !target.starts_with('/') || !target.chars().all(fits) {
        return Err(format!("`{target}` is no path of the API; write one such as /status?limit=1"));
    }
    let contact = Arc::new(ByPath::new(None, Some(path.to_owned())));
    // A link that does not listen is told as other commands tell it.
    drop(weir_control::client::connect(path)?);
    let runtime = runtime().map_err(|error| error.to_string())?;
    // A socket has the name of its link.
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    runtime.block_on(meet(&Api::new(&name, contact, Site::Local), method, target, body))
}

async fn meet(api: &Arc<Api>, method: &str, target: &str, body: &str) -> Result<Reply, String> {
    let text = |error: &dyn std::fmt::Display| format!("`{target}`: {error}");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let head = Head {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        content_type: Some(respond::JSON.to_owned()),
        content_length: Some(body.len() as u64),
        ..Head::default()
    };
    let patience = Patience::default();
    // The client is this process, and is there until the end.
    let (_own, socket) = UnixStream::pair().map_err(|error| text(&error))?;
    let (_ends, ending) = watch::channel(false);
    let talk = Arc::new(Talk::new(OwnedFd::from(socket), patience, ending));
    let asked = Asked { head, until: Instant::now() + patience.request };
    let request = axum::http::Request::builder().method(method).uri(target);
    let request = request.extension(Asking { asked, right: None, talk });
    let request = request.body(Body::from(body.to_owned())).map_err(|error| text(&error))?;
    let Ok(response) = api.router().call(request).await;
    let status = response.status().as_u16();
    let kind = response.headers().get("Content-Type").and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_owned();
    let body = to_bytes(response.into_body(), BYTES_MAX).await.map_err(|error| text(&error))?;
    Ok(Reply { status, kind, body: body.into() })
}

/// More than any answer has.
const BYTES_MAX: usize = 1 << 30;
