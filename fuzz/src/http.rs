//! Target `http`: meets any bytes as requests of HTTP.

/// Reads the input as the server reads what a client sends, and answers.
pub fn http(input: &[u8]) {
    weir_control::http::exercise(input);
}
