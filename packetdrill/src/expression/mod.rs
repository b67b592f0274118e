//! Assertions about a connection: the part of Python that scripts use between `%{` and `}%`.
//!
//! Statements are `assert EXPRESSION, MESSAGE`, `NAME = EXPRESSION`, `NAME += EXPRESSION` and
//! `print(...)`. Values are integers; a comparison is 1 or 0. Invariant: a name that nothing
//! defines is reported, never taken for zero.

mod evaluate;
mod token;

use std::collections::BTreeMap;
use token::{Token, tokens};

/// Why code does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// An assertion is false: the assertion, and what its names are.
    False(String),
    /// A name is not defined: the model does not have it.
    Unknown(String),
    /// This is not understood.
    Syntax(String),
}

/// The variables of a script's code, kept from one snippet to the next.
#[derive(Clone, Default, Debug)]
pub struct Variables(BTreeMap<String, i64>);

impl Variables {
    /// Runs code; `known` returns the value of a name that the connection defines.
    pub fn run(&mut self, code: &str, known: &dyn Fn(&str) -> Option<i64>) -> Result<(), Trouble> {
        let tokens = tokens(code)?;
        tokens.split(|token| *token == Token::End).try_for_each(|line| self.statement(line, known))
    }

    fn statement(
        &mut self,
        line: &[Token],
        known: &dyn Fn(&str) -> Option<i64>,
    ) -> Result<(), Trouble> {
        match line {
            [] => Ok(()),
            [Token::Name(word), ..] if word == "print" || word == "import" => Ok(()),
            [Token::Name(word), condition @ ..] if word == "assert" => {
                self.assert(condition, known)
            }
            [Token::Name(name), Token::Sign("="), value @ ..] => {
                let value = self.value(value, known)?;
                self.0.insert(name.clone(), value);
                Ok(())
            }
            [Token::Name(name), Token::Sign(sign @ ("+=" | "-=")), value @ ..] => {
                let value = self.value(value, known)?;
                let before = self.0.get_mut(name).ok_or_else(|| Trouble::Unknown(name.clone()))?;
                *before += if *sign == "+=" { value } else { -value };
                Ok(())
            }
            _ => Err(Trouble::Syntax(token::text(line))),
        }
    }

    fn assert(&self, line: &[Token], known: &dyn Fn(&str) -> Option<i64>) -> Result<(), Trouble> {
        let condition = condition(line);
        if self.value(condition, known)? != 0 {
            return Ok(());
        }
        let lookup = |name: &str| self.0.get(name).copied().or_else(|| known(name));
        let names = condition.iter().filter_map(|token| match token {
            Token::Name(name) => lookup(name).map(|value| format!("{name} is {value}")),
            _ => None,
        });
        let values: Vec<String> = names.collect();
        Err(Trouble::False(format!("{}: {}", token::text(condition), values.join(", "))))
    }

    fn value(&self, line: &[Token], known: &dyn Fn(&str) -> Option<i64>) -> Result<i64, Trouble> {
        let lookup = |name: &str| self.0.get(name).copied().or_else(|| known(name));
        evaluate::value(line, &lookup)
    }
}

/// Returns the condition of an assertion: what stands before the comma of its message.
fn condition(line: &[Token]) -> &[Token] {
    let mut depth = 0;
    let comma = line.iter().position(|token| {
        match token {
            Token::Sign("(") => depth += 1,
            Token::Sign(")") => depth -= 1,
            _ => {}
        }
        depth == 0 && *token == Token::Sign(",")
    });
    &line[..comma.unwrap_or(line.len())]
}

/// Returns the names in code that begin with `tcpi_`, each once.
pub fn fields(code: &str) -> Vec<String> {
    let Ok(tokens) = tokens(code) else { return Vec::new() };
    let mut fields: Vec<String> = tokens
        .into_iter()
        .filter_map(|token| match token {
            Token::Name(name) if name.starts_with("tcpi_") => Some(name),
            _ => None,
        })
        .collect();
    fields.sort();
    fields.dedup();
    fields
}
