//! The tests of the lab, one program: pages beside experiments, settings, the program itself.

#[path = "../../../weir/tests/it/guide.rs"]
mod guide;
mod lab;
mod settings;
mod stops;
mod stored;
