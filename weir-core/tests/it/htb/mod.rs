//! HTB against a slow plain oracle, worked departures, and target figures; then the historic
//! variant against measurements of it.

mod changes;
mod figures;
mod historic;
mod oracle;
mod random;
mod worked;
mod world;
