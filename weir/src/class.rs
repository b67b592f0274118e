//! `weir class`: classes join a running link and leave it, one by one.

use crate::Run;
use crate::change;
use crate::output::{Exit, Format, Output};
use std::io::Read;
use std::path::{Path, PathBuf};
use weir_control::protocol::{Answer, Request, Tables};

/// Lets classes join a running link, or leave it, without a change of the others.
///
/// A class takes one of the `places` that its parent, or `[link]`, reserves in the policy. Nothing
/// of the other classes is read or built anew, so many can come and go a second. They stay until
/// they are removed: also over `weir reload` and `weir restart`. `weir set` changes single values.
#[derive(clap::Args)]
pub struct Class {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Adds the classes of a file of tables `[class.NAME]`; those at a place already are retuned.
    #[command(override_usage = "weir class add [OPTIONS] <NAME|--control <SOCKET>> <FILE>")]
    Add {
        /// The name of the deployment, and the file, or `-` for standard input.
        #[arg(required = true, value_name = "NAME FILE")]
        words: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Removes classes that were added; packets that wait go to the default class.
    #[command(override_usage = "weir class remove [OPTIONS] <NAME|--control <SOCKET>> <CLASS>...")]
    Remove {
        /// The name of the deployment, and those of the classes.
        #[arg(required = true, value_name = "NAME CLASS")]
        words: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
}

#[derive(clap::Args)]
struct Options {
    /// The direction whose policy has the places, where several policies have some.
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Change nothing: say what would change.
    #[arg(long)]
    dry_run: bool,
    /// Why, for `weir log`.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

impl Run for Class {
    fn run(self, output: &Output) -> Exit {
        let (mut words, options, is_added) = match self.verb {
            Verb::Add { words, options } => (words, options, true),
            Verb::Remove { words, options } => (words, options, false),
        };
        let name = if options.control.is_some() { String::new() } else { words.remove(0) };
        let (add, remove) = match (is_added, words.as_slice()) {
            (true, [file]) => match read(Path::new(file)) {
                Ok(text) => (Some(Tables::Text(text)), Vec::new()),
                Err(why) => return output.refuse(&why),
            },
            (true, _) => return output.refuse("name one file of classes, or `-`"),
            (false, []) => return output.refuse("name the classes that leave"),
            (false, _) => (None, words),
        };
        let Options { direction, control, dry_run, reason } = options;
        let request = Request::Class { direction, add, remove, dry_run, reason };
        match change::ask(&name, control.as_ref(), &request) {
            Ok(Answer::Changed(changed)) if output.format == Format::Json => {
                output.json(&changed);
                if changed.errors > 0 { Exit::Faults } else { Exit::Clean }
            }
            Ok(Answer::Changed(changed)) => change::print(output, &name, dry_run, &changed),
            Ok(_) => output.refuse(change::OTHER),
            Err(why) => output.refuse(&why),
        }
    }
}

/// Reads a file of classes.
fn read(file: &Path) -> Result<String, String> {
    let shown = file.display();
    let mut text = String::new();
    let done = match file.as_os_str() == "-" {
        true => std::io::stdin().take(BYTES_MAX).read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|read| text = read),
    };
    done.map_err(|error| format!("cannot read {shown}: {error}"))?;
    Ok(text)
}

/// A request of the link's owner has at most so many bytes.
const BYTES_MAX: u64 = 64 << 20;
