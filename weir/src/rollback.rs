//! `weir rollback`: puts policies in force again that a link had before.

use crate::Run;
use crate::change::{self, Options};
use crate::output::{Exit, Output};
use weir_control::protocol::Request;

/// Undoes the last change of a running link, or goes back to what an older one left.
///
/// The last change is the last one that still stands.
#[derive(clap::Args)]
#[command(override_usage = "weir rollback [OPTIONS] <NAME|--control <SOCKET>> [NUMBER]")]
pub struct Rollback {
    /// The name of the deployment, and the number of a change as `weir log` lists it: what was in
    /// force after it comes back. Without a number, what was before the last change that was not
    /// undone.
    #[arg(value_name = "NAME NUMBER", num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    options: Options,
}

impl Run for Rollback {
    fn run(self, output: &Output) -> Exit {
        let has_name = self.options.control.is_none();
        let mut words = self.words.iter();
        let name = if has_name { words.next().map(String::as_str) } else { Some("") };
        let Some(name) = name else {
            return output.refuse("name the link, as `weir status` lists it");
        };
        let number = match words.next().map(|word| word.parse::<u64>()) {
            None => None,
            Some(Ok(number)) => Some(number),
            Some(Err(_)) => {
                return output.refuse("the number of a change is one that `weir log` lists");
            }
        };
        let request = Request::Rollback { number, terms: self.options.terms() };
        change::change(output, name, &self.options, &request)
    }
}
