//! Tests of the harness, on scripts written for it.

mod expressions;
mod parsing;
mod shells;
mod streams;
