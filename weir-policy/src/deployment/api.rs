//! The API on a TCP address: `[deployment.api]`.

use super::keys;
use super::service::path;
use crate::codes;
use crate::finding::Report;
use crate::reader::{Node, Table};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The API on a TCP address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Api {
    /// The TCP address on which the API listens.
    pub listen: SocketAddr,
    /// The file of the token that allows everything.
    pub token_file: PathBuf,
    /// The file of the token that only allows to read.
    pub read_token_file: Option<PathBuf>,
    /// The file of the certificate and those of its issuers; with it, clients use TLS.
    pub certificate: Option<PathBuf>,
    /// The file of its key.
    pub key: Option<PathBuf>,
    /// Further names by which clients may call it.
    pub hosts: Vec<String>,
}

/// Reads `[deployment.api]` of the deployment `file`, to whose folder paths are relative.
pub(super) fn read(node: &Node<'_>, file: &str, report: &mut Report) -> Option<Api> {
    let mut table = node.table(report)?.named("[deployment.api]").with_keys(keys::API);
    let listen = table.required("listen", report);
    let token_file = table.required("token_file", report);
    let mut optional = |key| optional_path(&mut table, key, file, report);
    let (read_token_file, certificate, key) =
        (optional("read_token_file"), optional("certificate"), optional("key"));
    let hosts = table.field("hosts").map(|node| hosts(&node, report));
    table.finish(report);
    let listen_node = listen?;
    let listen = address(&listen_node, report)?;
    if certificate.is_some() != key.is_some() {
        let message = "a certificate and its key go together, and one of them is missing";
        let draft = node.draft(&codes::BAD_VALUE, message);
        report.push(draft.cure("write both `certificate` and `key`, or none of them"));
        return None;
    }
    if certificate.is_none() && !listen.ip().is_loopback() {
        let message = format!("{listen} can be reached by others, and tokens would be readable");
        let draft = listen_node.draft(&codes::BAD_VALUE, message);
        report.push(draft.cure("write `certificate` and `key`, or listen on 127.0.0.1"));
        return None;
    }
    let token_file = path(&token_file?, file, report)?;
    let hosts = hosts.unwrap_or(Some(Vec::new()))?;
    Some(Api { listen, token_file, read_token_file, certificate, key, hosts })
}

/// Reads an address with its port.
pub(super) fn address(node: &Node<'_>, report: &mut Report) -> Option<SocketAddr> {
    let text = node.name(report)?;
    if let Some(address) = text.parse().ok().filter(|address: &SocketAddr| address.port() != 0) {
        return Some(address);
    }
    let message = format!("{text:?} is not an address with a port");
    let draft = node.draft(&codes::BAD_VALUE, message);
    report.push(draft.cure("write one such as \"127.0.0.1:8480\" or \"[::1]:8480\""));
    None
}

fn optional_path(
    table: &mut Table<'_>,
    key: &'static str,
    file: &str,
    report: &mut Report,
) -> Option<PathBuf> {
    let node = table.field(key)?;
    path(&node, file, report)
}

fn hosts(node: &Node<'_>, report: &mut Report) -> Option<Vec<String>> {
    let nodes = node.elements(report)?;
    let names: Vec<_> = nodes.iter().filter_map(|node| host(node, report)).collect();
    (names.len() == nodes.len()).then_some(names)
}

fn host(node: &Node<'_>, report: &mut Report) -> Option<String> {
    let name = node.name(report)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    if name.chars().all(fits) && name.len() <= HOST_BYTES_MAX {
        return Some(name.to_owned());
    }
    let message = format!("{name:?} is not the name of a host");
    report.push(node.draft(&codes::BAD_VALUE, message).cure("write one without scheme and port"));
    None
}

/// The longest name of a host [rfc1035 §2.3.4].
const HOST_BYTES_MAX: usize = 255;
