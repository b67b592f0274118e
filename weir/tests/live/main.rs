//! The command on live links, one program: the real `weir` between private networks, with real
//! kernel traffic.

mod bench;
mod demo;
mod export;
mod host;
mod package;
mod reservations;
mod reserve;
mod reserved;
mod send;
mod tc_kernel;
mod tc_script;
mod tc_state;
mod tc_twin;
mod up;

use std::process::ExitCode;
use weir_testbed::rows;

fn main() -> ExitCode {
    // A sandbox of scripts starts this program again, under other names.
    if let Some(code) = weir_host::script::stand_in() {
        return code;
    }
    let tests = up::rows().chain(host::rows()).chain(reservations::rows()).chain(reserve::rows());
    let tests = tests.chain(send::rows()).chain(export::rows()).chain(tc_kernel::rows());
    rows::main(
        tests
            .chain(tc_twin::rows())
            .chain(tc_state::rows())
            .chain(tc_script::rows())
            .chain(package::rows())
            .chain(demo::rows())
            .chain(bench::rows()),
    )
}
