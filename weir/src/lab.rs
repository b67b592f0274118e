//! `weir lab`: starts the program `weir-lab`, which has the experiments.

use crate::Run;
use crate::output::{Exit, Output};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
pub use weir_cli::lab::Lab;
use weir_cli::program;

impl Run for Lab {
    /// Becomes `weir-lab`, which parses the same options again.
    fn run(self, output: &Output) -> Exit {
        let Some(program) = program::find(PROGRAM) else { return output.refuse(MISSING) };
        let error = Command::new(&program).args(arguments(std::env::args_os())).exec();
        output.refuse(&format!("cannot start {}: {error}", program.display()))
    }
}

/// Returns the arguments without the name of the program and the verb. No argument before the verb
/// can be the same word: `--format` takes two others.
fn arguments(all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<_> = all.skip(1).collect();
    if let Some(verb) = all.iter().position(|word| word == VERB) {
        all.remove(verb);
    }
    all
}

const VERB: &str = "lab";
const PROGRAM: &str = "weir-lab";
const MISSING: &str = "`weir lab` needs the program `weir-lab`, which is neither beside `weir` nor \
                       on PATH; in a checkout of Weir, install it with `cargo install --locked \
                       --path weir-lab`, or build it with `cargo build --locked --profile demo \
                       --package weir-lab`";

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let words = arguments(line.split(' ').map(OsString::from));
        let expected: Vec<_> = expected.split(' ').map(OsString::from).collect();
        assert_eq!(words, expected, "{line}");
    }

    #[test]
    fn the_verb_alone_is_left_out() {
        check("weir lab list", "list");
        check("weir --format json lab run lab", "--format json run lab");
        check("weir --format=json lab facts quadros", "--format=json facts quadros");
    }
}
