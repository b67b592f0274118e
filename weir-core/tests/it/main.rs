//! The tests of the core from outside, one program: laws, oracles, worked examples, classifiers.

mod change;
mod cake;
mod checkpoint;
mod classifiers;
mod classify;
mod common;
mod extremes;
mod flows;
mod fluid;
mod frames;
mod golden;
mod gps;
mod graft;
mod hfsc;
mod htb;
mod isolate;
mod laws;
mod loans;
mod marking;
mod packet;
mod police;
mod promise;
mod proportional;
mod sfq;
mod sharing;
mod stale;
