//! Splits code into tokens.
//!
//! Invariant: strings are one token, so that a semicolon in a message ends no statement.

use super::Trouble;
use crate::script::parse_number;

/// A token of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A name or keyword.
    Name(String),
    /// An integer literal.
    Number(i64),
    /// A string; only messages have them.
    Text(String),
    /// An operator or bracket.
    Sign(&'static str),
    /// The end of a statement.
    End,
}

/// The signs, longer ones first.
const SIGNS: [&str; 26] = [
    "//", "<<", ">>", "<=", ">=", "==", "!=", "+=", "-=", "(", ")", "[", "]", ",", "<", ">", "=",
    "+", "-", "*", "%", "&", "|", "^", "~", ".",
];

/// Splits code into tokens; a line ends a statement unless it ends with a backslash.
pub(super) fn tokens(code: &str) -> Result<Vec<Token>, Trouble> {
    let code = code.replace("\\\n", " ");
    let mut rest = code.as_str();
    let mut tokens = Vec::new();
    while let Some(next) = rest.chars().next() {
        rest = match next {
            '\n' | ';' => push(&mut tokens, Token::End, &rest[1..]),
            '#' => &rest[rest.find('\n').unwrap_or(rest.len())..],
            '\'' | '"' => text_token(&mut tokens, rest, next)?,
            _ if next.is_whitespace() => &rest[next.len_utf8()..],
            _ if next.is_ascii_alphanumeric() || next == '_' => word(&mut tokens, rest)?,
            _ => sign(&mut tokens, rest)?,
        };
    }
    Ok(tokens)
}

fn push<'a>(tokens: &mut Vec<Token>, token: Token, rest: &'a str) -> &'a str {
    tokens.push(token);
    rest
}

fn text_token<'a>(tokens: &mut Vec<Token>, rest: &'a str, quote: char) -> Result<&'a str, Trouble> {
    let end = rest[1..].find(quote).ok_or_else(|| Trouble::Syntax(rest.to_owned()))?;
    tokens.push(Token::Text(rest[1..1 + end].to_owned()));
    Ok(&rest[2 + end..])
}

fn word<'a>(tokens: &mut Vec<Token>, rest: &'a str) -> Result<&'a str, Trouble> {
    let is_inside = |next: char| next.is_ascii_alphanumeric() || next == '_';
    let end = rest.find(|next| !is_inside(next)).unwrap_or(rest.len());
    let word = &rest[..end];
    let is_number = word.starts_with(|first: char| first.is_ascii_digit());
    let number = parse_number(word).map(Token::Number);
    let token = if is_number { number } else { Some(Token::Name(word.to_owned())) };
    tokens.push(token.ok_or_else(|| Trouble::Syntax(word.to_owned()))?);
    Ok(&rest[end..])
}

fn sign<'a>(tokens: &mut Vec<Token>, rest: &'a str) -> Result<&'a str, Trouble> {
    let found = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    let sign = found.ok_or_else(|| Trouble::Syntax(rest.to_owned()))?;
    tokens.push(Token::Sign(sign));
    Ok(&rest[sign.len()..])
}

/// Returns tokens as text, for messages.
pub(super) fn text(tokens: &[Token]) -> String {
    let words: Vec<String> = tokens
        .iter()
        .map(|token| match token {
            Token::Name(name) => name.clone(),
            Token::Number(number) => number.to_string(),
            Token::Text(text) => format!("'{text}'"),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::End => ";".to_owned(),
        })
        .collect();
    words.join(" ")
}
