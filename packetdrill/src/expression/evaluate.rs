//! Computes an expression: precedence climbing over Python's operators.
//!
//! Invariant: a chain such as `1 <= x <= 2` holds if each of its comparisons does, as in Python.

use super::Trouble;
use super::token::{Token, text};

/// Computes the value of a whole expression.
pub(super) fn value(
    tokens: &[Token],
    lookup: &dyn Fn(&str) -> Option<i64>,
) -> Result<i64, Trouble> {
    let mut place = Place { tokens, at: 0, lookup };
    let value = place.either()?;
    if place.at == tokens.len() { Ok(value) } else { Err(place.trouble()) }
}

/// A place in an expression.
struct Place<'a> {
    tokens: &'a [Token],
    at: usize,
    lookup: &'a dyn Fn(&str) -> Option<i64>,
}

impl Place<'_> {
    fn trouble(&self) -> Trouble {
        Trouble::Syntax(text(self.tokens))
    }

    /// Goes past the keyword if it is next.
    fn keyword(&mut self, keyword: &str) -> bool {
        let is_next =
            matches!(self.tokens.get(self.at), Some(Token::Name(name)) if name == keyword);
        self.at += usize::from(is_next);
        is_next
    }

    /// Goes past one of these signs if it is next, and returns it.
    fn sign(&mut self, signs: &[&str]) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some(Token::Sign(sign)) if signs.contains(sign) => {
                self.at += 1;
                Some(sign)
            }
            _ => None,
        }
    }

    fn either(&mut self) -> Result<i64, Trouble> {
        let mut value = self.both()?;
        while self.keyword("or") {
            let other = self.both()?;
            value = if value == 0 { other } else { value };
        }
        Ok(value)
    }

    fn both(&mut self) -> Result<i64, Trouble> {
        let mut value = self.negation()?;
        while self.keyword("and") {
            let other = self.negation()?;
            value = if value == 0 { value } else { other };
        }
        Ok(value)
    }

    fn negation(&mut self) -> Result<i64, Trouble> {
        if self.keyword("not") {
            return Ok(i64::from(self.negation()? == 0));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<i64, Trouble> {
        let mut left = self.binary(0)?;
        let Some(first) = self.sign(&COMPARISONS) else { return Ok(left) };
        let mut holds = true;
        let mut next = Some(first);
        while let Some(sign) = next {
            let right = self.binary(0)?;
            holds &= compare(sign, left, right);
            left = right;
            next = self.sign(&COMPARISONS);
        }
        Ok(i64::from(holds))
    }

    /// Computes operators that bind at least as strongly as `level`.
    fn binary(&mut self, level: usize) -> Result<i64, Trouble> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut value = self.binary(level + 1)?;
        while let Some(sign) = self.sign(signs) {
            let other = self.binary(level + 1)?;
            value = compute(sign, value, other).ok_or_else(|| self.trouble())?;
        }
        Ok(value)
    }

    fn unary(&mut self) -> Result<i64, Trouble> {
        match self.sign(&["-", "~", "+"]) {
            Some("-") => Ok(self.unary()?.wrapping_neg()),
            Some("~") => Ok(!self.unary()?),
            Some(_) => self.unary(),
            None => self.atom(),
        }
    }

    fn atom(&mut self) -> Result<i64, Trouble> {
        if self.sign(&["("]).is_some() {
            let value = self.either()?;
            return self.sign(&[")"]).map(|_| value).ok_or_else(|| self.trouble());
        }
        let token = self.tokens.get(self.at).ok_or_else(|| self.trouble())?;
        self.at += 1;
        match token {
            Token::Number(number) => Ok(*number),
            Token::Name(name) => constant(name)
                .or_else(|| (self.lookup)(name))
                .ok_or_else(|| Trouble::Unknown(name.clone())),
            _ => Err(self.trouble()),
        }
    }
}

const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

/// The operators, those that bind weakest first.
const LEVELS: [&[&str]; 6] =
    [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "//", "%"]];

fn compare(sign: &str, left: i64, right: i64) -> bool {
    match sign {
        "==" => left == right,
        "!=" => left != right,
        "<=" => left <= right,
        ">=" => left >= right,
        "<" => left < right,
        _ => left > right,
    }
}

fn compute(sign: &str, left: i64, right: i64) -> Option<i64> {
    match sign {
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        "&" => Some(left & right),
        "<<" => left.checked_shl(u32::try_from(right).ok()?),
        ">>" => left.checked_shr(u32::try_from(right).ok()?),
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "//" => left.checked_div_euclid(right),
        _ => left.checked_rem_euclid(right),
    }
}

/// Returns the value of a constant that the script may name.
fn constant(name: &str) -> Option<i64> {
    CONSTANTS.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
}

/// The constants of Linux's `tcp_states.h` and `tcp.h` that scripts name.
const CONSTANTS: [(&str, i64); 23] = [
    ("True", 1),
    ("False", 0),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
];
