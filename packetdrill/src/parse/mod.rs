//! Parses packetdrill scripts: events one after the other, each a time and what happens.
//!
//! Recursive descent over the bytes of the text. Invariant: the cursor only goes forward, so
//! parsing ends.

mod call;
mod cursor;
mod packet;

use crate::script::{Action, Event, Script, Time};
use cursor::Cursor;
use std::fmt;

/// A syntax error and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The name of the syntax that the parser expected.
    pub expected: &'static str,
    /// The text in the script at that place.
    pub found: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}: expected {}, found `{}`", self.line, self.expected, self.found)
    }
}

type Parsed<T> = Result<T, ParseError>;

/// Parses a whole script.
pub fn script(text: &str) -> Parsed<Script> {
    let mut cursor = Cursor::new(text);
    let mut script = Script::default();
    loop {
        cursor.skip_blank();
        if cursor.is_at_end() {
            return Ok(script);
        }
        if cursor.take("--") {
            script.options.push(option(&mut cursor));
        } else {
            script.events.push(event(&mut cursor)?);
        }
    }
}

/// Parses the rest of `--name=value`, up to the end of the line or a comment.
fn option(cursor: &mut Cursor) -> (String, String) {
    let line = cursor.rest_of_line();
    let line = line.split("//").next().unwrap_or_default().trim();
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    (name.trim().to_owned(), value.trim().to_owned())
}

fn event(cursor: &mut Cursor) -> Parsed<Event> {
    let line = cursor.line();
    if cursor.peek() == Some('`') {
        let action = Action::Shell(shell(cursor)?);
        return Ok(Event { line, time: Time::Untimed, until: None, action });
    }
    let time = time(cursor)?;
    cursor.skip_blank();
    let until = if cursor.take("...") { Some(end_time(cursor)?) } else { None };
    cursor.skip_blank();
    Ok(Event { line, time, until, action: action(cursor)? })
}

fn action(cursor: &mut Cursor) -> Parsed<Action> {
    if cursor.peek() == Some('`') {
        return shell(cursor).map(Action::Shell);
    }
    if cursor.take("%{") {
        let code = cursor.up_to("}%").ok_or_else(|| cursor.expected("`}%`"))?;
        return Ok(Action::Code(code.trim().to_owned()));
    }
    if cursor.take("<") {
        return packet::packet(cursor).map(|packet| packet.map_or_else(foreign, Action::Inject));
    }
    if cursor.take(">") {
        return packet::packet(cursor).map(|packet| packet.map_or_else(foreign, Action::Expect));
    }
    call::call(cursor).map(Action::Call)
}

fn foreign(what: packet::Foreign) -> Action {
    Action::Foreign(what.0)
}

fn shell(cursor: &mut Cursor) -> Parsed<String> {
    cursor.take("`");
    let text = cursor.up_to("`").ok_or_else(|| cursor.expected("a closing backtick"))?;
    Ok(text.trim().to_owned())
}

/// Parses `0.1`, `+.1`, `+.1~+.2`, `0.1~0.2` or `*`.
fn time(cursor: &mut Cursor) -> Parsed<Time> {
    if cursor.take("*") {
        return Ok(Time::Any);
    }
    let is_relative = cursor.take("+");
    let from = seconds(cursor)?;
    cursor.skip_spaces();
    if !cursor.take("~") {
        return Ok(if is_relative { Time::Relative(from) } else { Time::Absolute(from) });
    }
    cursor.skip_spaces();
    cursor.take("+");
    let to = seconds(cursor)?;
    Ok(match is_relative {
        true => Time::RelativeRange(from, to),
        false => Time::AbsoluteRange(from, to),
    })
}

/// Parses the end of a call that blocks.
fn end_time(cursor: &mut Cursor) -> Parsed<i64> {
    cursor.skip_blank();
    cursor.take("+");
    seconds(cursor)
}

/// Parses seconds, and returns microseconds, rounded to the nearest.
fn seconds(cursor: &mut Cursor) -> Parsed<i64> {
    let digits = cursor.take_while(|next| next.is_ascii_digit() || next == '.').to_owned();
    // `0...0.1` has the end of a call behind the number.
    let number = digits.split("..").next().unwrap_or_default();
    cursor.back(digits.len() - number.len());
    let seconds: f64 = number.parse().map_err(|_| cursor.expected("a time"))?;
    Ok((seconds * 1e6).round() as i64)
}
