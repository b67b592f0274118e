//! Tests of the harness, on scripts written for it.

mod expressions;
mod parsing;
mod replays;
mod shells;
mod streams;
mod tables;
