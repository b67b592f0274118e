//! The tests of traffic that need no network, one program.

mod measure;
