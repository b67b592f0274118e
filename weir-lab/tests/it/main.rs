//! The tests of the lab, one program: pages beside experiments, settings.

mod lab;
mod settings;
