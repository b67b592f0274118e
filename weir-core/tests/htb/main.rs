//! HTB against a slow plain oracle, worked departures, and the figures it must reach.

mod figures;
mod oracle;
mod random;
mod worked;
mod world;
