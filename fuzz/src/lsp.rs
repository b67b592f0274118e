//! Target `lsp`: meets any bytes as what an editor sends, and as a text with positions in it.

use lsp_types::{Position, Range};
use weir_lsp::Schemas;
use weir_lsp::position::{Encoding, Lines};
use weir_lsp::server::Server;
use weir_lsp::{syntax, wire};

/// Reads the input as a stream, then each of its lines as a message, and all of it as a text.
pub fn lsp(input: &[u8]) {
    let mut server = Server::new(Schemas::none(), Box::new(weir_policy::file::none));
    let mut stream = input;
    while let Ok(Some(message)) = wire::read(&mut stream) {
        server.handle(message);
    }
    // Where lengths are right, more of a mutated message is understood.
    for line in input.split(|&byte| byte == b'\n') {
        let framed = [format!("Content-Length: {}\r\n\r\n", line.len()).as_bytes(), line].concat();
        let Ok(Some(message)) = wire::read(&mut &framed[..]) else { continue };
        for message in server.handle(message) {
            let mut out = Vec::new();
            wire::write(&mut out, &message).expect("memory takes it");
            assert!(wire::read(&mut &out[..]).is_ok_and(|read| read.is_some()), "it reads back");
        }
    }
    while !server.is_settled() {
        server.settle();
    }
    check_text(&String::from_utf8_lossy(input));
}

/// Checks that every position leads into the text, and that of every byte back to it.
fn check_text(text: &str) {
    let lines = Lines::new(text.to_owned());
    let number = |at: usize| text.as_bytes().get(at).map_or(u32::MAX, |&byte| byte.into());
    for encoding in [Encoding::Utf16, Encoding::Utf8] {
        for at in 0..text.len().min(BYTES_MAX) {
            let offset = lines.offset(lines.position(at, encoding), encoding);
            assert!(offset <= at && text.is_char_boundary(offset), "{at} {encoding:?}");
            let (start, end) = (number(at), number(at + 1));
            let start = Position { line: start % 8, character: start };
            let end = Position { line: end % 8, character: end };
            let bytes = lines.bytes(Range { start, end }, encoding);
            assert!(text.get(bytes).is_some(), "{start:?} to {end:?}");
        }
    }
    for slot in syntax::slots(text) {
        assert!(text.get(slot.span.clone()).is_some() && text.get(slot.inner(text)).is_some());
    }
    let cursor = syntax::cursor(text);
    assert!(cursor.is_none_or(|cursor| text.get(cursor.start..).is_some()));
}

/// Longer texts are tried at their beginning.
const BYTES_MAX: usize = 256;
