//! Traffic on real sockets, one program.

mod traffic;

use std::process::ExitCode;

fn main() -> ExitCode {
    weir_testbed::rows::main(traffic::rows())
}
