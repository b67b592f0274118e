//! The page on the link: `web = "127.0.0.1:8480"` in `[deployment]`.

use super::api::{self, Api};
use crate::codes;
use crate::finding::Report;
use crate::reader::Node;
use std::net::SocketAddr;
use weir_core::units::Bytes;

/// Reads the address of the page. Its tokens and its certificate are those of the API, if there is
/// one.
pub(super) fn read(node: &Node<'_>, api: Option<&Api>, report: &mut Report) -> Option<SocketAddr> {
    let listen = api::address(node, report)?;
    let has_certificate = api.is_some_and(|api| api.certificate.is_some());
    if !has_certificate && !listen.ip().is_loopback() {
        let message = format!("{listen} can be reached by others, and tokens would be readable");
        let draft = node.draft(&codes::BAD_VALUE, message);
        let cure = "write `certificate` and `key` in [deployment.api], or an address of 127.0.0.1 \
                    and reach it through `ssh -L`";
        report.push(draft.cure(cure));
        return None;
    }
    if api.is_some_and(|api| api.listen == listen) {
        let message = format!("{listen} is the address of the API already");
        let draft = node.draft(&codes::BAD_VALUE, message);
        report.push(draft.cure("write another port: the page passes the API on"));
        return None;
    }
    Some(listen)
}

/// How much is kept of what a link with a page did of late, unless `ring` says otherwise.
pub(super) const RING: Bytes = Bytes::new(64 << 20);
