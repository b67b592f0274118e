//! Replays the packetdrill scripts of a folder, and prints what came of each.
//!
//! `weir-packetdrill FOLDER` ends with 0 if the goal is met, 1 if it is missed, and 2 if the folder
//! cannot be read.

use std::path::Path;
use std::process::ExitCode;
use weir_packetdrill::known::SENTENCES;
use weir_packetdrill::report::{Totals, table};
use weir_packetdrill::{collection, connection, driver};

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: weir-packetdrill FOLDER");
        return ExitCode::from(2);
    };
    match collection::run(Path::new(&folder), &connection::knows, &driver::replay) {
        Ok(outcomes) if outcomes.is_empty() => {
            eprintln!("{}: no script, no file with `.pkt`", folder.display());
            ExitCode::from(2)
        }
        Ok(outcomes) => {
            print!("{}", table(&outcomes, &SENTENCES));
            let counted = outcomes.iter().filter(|outcome| outcome.is_counted);
            if Totals::of(counted).meet_the_goal() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("{}: {why}", folder.display());
            ExitCode::from(2)
        }
    }
}
