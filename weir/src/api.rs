//! `weir api`: asks a running link by the paths of its API, as other programs do by HTTP.

use crate::Run;
use crate::output::{Exit, Output};
use std::path::PathBuf;
use weir_control::places::Places;
use weir_control::printable::printable_lines;
use weir_control::protocol::PCAPNG;
use weir_gateway::api;

/// Sends one request of the API to a running link, and prints the answer.
///
/// It goes over the control socket. Without a path it prints the description of all requests
/// (OpenAPI).
///
/// docs/api.md describes requests, answers and limits.
#[derive(clap::Args)]
pub struct Api {
    /// The name of the deployment, not its file.
    name: String,
    /// The path with its query, such as `/status?class=voice` or `/metrics`.
    #[arg(default_value = "/openapi.json")]
    path: String,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Sends a POST, with this JSON as its body unless it is empty.
    #[arg(long, value_name = "JSON", num_args = 0..=1, default_missing_value = "")]
    post: Option<String>,
}

impl Run for Api {
    fn run(self, output: &Output) -> Exit {
        let socket = self.control.map_or_else(|| Places::of_process().find(&self.name), Ok);
        let method = if self.post.is_some() { "POST" } else { "GET" };
        let body = self.post.unwrap_or_default();
        match socket.and_then(|socket| api::ask(&socket, method, &self.path, &body)) {
            Ok(response) if response.kind == PCAPNG => {
                output.refuse("the answer is a record; `weir record` writes it to a file")
            }
            Ok(response) => {
                let text = printable_lines(&String::from_utf8_lossy(&response.body));
                output.text(&format!("{text}\n"));
                if response.status < 400 { Exit::Clean } else { Exit::Usage }
            }
            Err(error) => output.refuse(&error),
        }
    }
}
