//! Parses system calls: `setsockopt(3, SOL_SOCKET, SO_SNDBUF, [1000], 4) = 0`.
//!
//! Arguments stay text: what they mean depends on the call. Invariant: an argument has balanced
//! brackets.

use super::cursor::Cursor;
use super::{ParseError, Parsed};
use crate::script::Call;

/// Parses a call with its result.
pub(super) fn call(cursor: &mut Cursor) -> Parsed<Call> {
    let name = cursor.word().to_owned();
    if name.is_empty() {
        return Err(cursor.expected("a packet, a call, a command or code"));
    }
    cursor.must("(")?;
    let arguments = arguments(cursor)?;
    cursor.must("=")?;
    cursor.skip_spaces();
    let result = cursor.take_while(|next| !next.is_whitespace()).to_owned();
    cursor.skip_spaces();
    let error = cursor.word();
    let error = if error.starts_with('E') { Some(error.to_owned()) } else { None };
    cursor.skip_spaces();
    if cursor.peek() == Some('(') {
        cursor.take("(");
        note(cursor)?;
    }
    Ok(Call { name, arguments, result, error })
}

/// Reads the arguments up to the bracket that closes the call.
fn arguments(cursor: &mut Cursor) -> Parsed<Vec<String>> {
    let mut arguments = Vec::new();
    let mut argument = String::new();
    let mut depth = 0;
    loop {
        let text = cursor.take_while(|next| !"()[]{},\"".contains(next));
        argument.push_str(text);
        let next = cursor.peek().ok_or_else(|| cursor.expected("`)`"))?;
        cursor.take(next.encode_utf8(&mut [0; 4]));
        match next {
            ')' if depth == 0 => break,
            ',' if depth == 0 => arguments.push(std::mem::take(&mut argument).trim().to_owned()),
            '"' => argument.push_str(&quoted(cursor)?),
            _ => {
                depth += i32::from("([{".contains(next)) - i32::from(")]}".contains(next));
                argument.push(next);
            }
        }
    }
    if !argument.trim().is_empty() {
        arguments.push(argument.trim().to_owned());
    }
    Ok(arguments)
}

/// Reads the rest of a quoted string, and returns it with its quotes.
fn quoted(cursor: &mut Cursor) -> Result<String, ParseError> {
    let text = cursor.up_to("\"").ok_or_else(|| cursor.expected("a closing quote"))?;
    Ok(format!("\"{text}\""))
}

/// Goes past a remark such as `(Operation now in progress)`.
fn note(cursor: &mut Cursor) -> Parsed<()> {
    cursor.up_to(")").map(|_| ()).ok_or_else(|| cursor.expected("`)`"))
}
