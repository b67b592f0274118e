//! HTB against a slow plain oracle, worked departures, and the figures it must reach; then the
//! historic form against what was measured of it.

mod changes;
mod figures;
mod historic;
mod oracle;
mod random;
mod worked;
mod world;
