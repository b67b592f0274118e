//! `weir bench` as a user meets it: the real program, short. Figures are not asserted, as they
//! depend on what else the machine does.

use serde_json::Value;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("bench").args(arguments).output().expect("the program starts")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

#[test]
fn rows_hold_the_ratio_and_the_classification() {
    let few = ["--leaves", "8", "--packets", "2000", "--rounds", "1", "--format", "json"];
    for length in ["mixed", "64"] {
        let mut arguments = vec!["--scheduler", "fifo,drr", "--length", length];
        arguments.extend(few);
        let rows = json(&bench(&arguments));
        assert_eq!(rows.as_array().map(Vec::len), Some(2), "{rows}");
        for field in ["nanos", "ratio", "classify_nanos"] {
            assert!(rows[1][field].as_f64() > Some(0.0), "{field}: {rows}");
        }
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let rows: [(&[&str], &str); 4] = [
        (&["--length", "0"], "bytes from 1"),
        (&["--scheduler", "fiffo"], "no scheduler is called `fiffo`"),
        (&["--leaves", "0"], "--leaves 0"),
        (&["--live", "--seconds=-1"], "--seconds"),
    ];
    for (arguments, part) in rows {
        let output = bench(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(part), "{arguments:?}: {told}");
    }
}
