//! Messages and objects as bytes, parsed without trust [rfc2205 §3.1, rfc2961].
//!
//! The invariant to keep in mind: what `Message::build` writes, `Message::parse` reads back equal.

pub mod codes;
pub mod error;
mod message;
mod object;
mod priority;
mod reader;
mod types;

pub use codes::{Cause, ErrorSpec};
pub use error::{Fault, WireError};
pub use message::{
    Body, Confirmation, Descriptor, KINDS, Message, Path, PathError, PathTear, Reservation, Resv,
    ResvError, ResvTear, SenderDescriptor, Unread, checksum,
};
pub use object::Carried;
pub(crate) use object::class;
pub use priority::Priority;
pub(crate) use reader::Reader;
pub use types::{
    EPOCH_MAX, FLOW_LABEL_MAX, Filter, Hello, Hop, Identified, MessageId, Receipt, Select, Session,
    Style,
};
