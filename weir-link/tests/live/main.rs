//! Real frames through private networks, one program: ports, claims, the fallback, the sandbox.

mod authority;
mod claim;
mod fallback;
mod host;
mod odd_frames;
mod ports;
mod rsvp;
mod sandbox;
mod shares;
mod sorted_anew;
mod sorting;
mod support;
mod xdp;

use std::process::ExitCode;
use weir_testbed::rows;

fn main() -> ExitCode {
    // Some rows start this program again, to play a part in a process of its own.
    if let Some(exit) = fallback::part().or_else(sandbox::part).or_else(xdp::part) {
        return exit;
    }
    let tests = authority::rows().chain(claim::rows()).chain(fallback::rows()).chain(host::rows());
    let tests = tests.chain(odd_frames::rows()).chain(ports::rows()).chain(rsvp::rows());
    let tests = tests.chain(sandbox::rows()).chain(shares::rows()).chain(sorted_anew::rows());
    rows::main(tests.chain(xdp::rows()))
}
