//! HFSC beside a twin that follows the rules to the letter, and beside the curves themselves.

mod bounds;
mod limits;
mod oracle;
mod random;
mod ratio;
mod resume;
mod world;
