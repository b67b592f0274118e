//! Target `control`: reads any bytes as a request on the control socket, and as an answer.

use weir_control::{client, server};

/// Reads the input as the server reads a line of a client, and as the client reads an answer.
pub fn control(input: &[u8]) {
    server::exercise(input);
    client::exercise(input);
}
