//! The verbs as a user runs them, one program: what needs no network of its own.

mod bench;
mod check;
mod common;
mod compare;
mod convert;
mod files;
mod generated;
mod guide;
mod import;
mod infer;
mod init;
mod kinds;
mod lab;
mod lsp;
mod messages;
mod nets;
mod pictures;
mod promise;
mod record;
mod replay;
mod schema;
mod sim;
mod tables;
mod view;
mod whatif;

#[test]
fn the_commands_of_the_guide_print_what_it_shows() {
    guide::check_commands();
}
