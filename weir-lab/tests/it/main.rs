//! The tests of the lab, one program: pages beside experiments, settings, the program itself.

#[path = "../../../weir/tests/it/guide.rs"]
mod guide;
mod lab;
mod settings;
mod stops;
mod stored;

#[test]
#[ignore = "experiments, in a minute: a part of `cargo xtask figures pages`"]
fn the_commands_of_the_guide_print_what_it_shows() {
    guide::check_commands();
}
