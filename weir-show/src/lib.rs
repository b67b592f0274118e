//! Pictures of what classes did, for the command and the lab's report: one look, one way to draw.
//!
//! A [`Plot`] is data. [`svg()`] draws one alone, without title and legend, for pages that have
//! both; a [`Picture`] joins several with a legend and becomes a file of any [`Form`]. [`tracks`]
//! makes the picture of what classes did over time, [`comparison`] that of several schedulers,
//! [`segments`] that of a TCP source, [`behind`] that of a modem; [`statuses`] makes tracks of what
//! a running link says of itself. Every form shows the same: PNG is made from the SVG, and a page
//! holds it.
#![forbid(unsafe_code)]

mod axis;
pub mod behind;
mod cells;
mod chart;
pub mod comparison;
pub mod flent;
mod form;
mod joined;
pub mod look;
mod page;
mod picture;
mod plot;
#[cfg(feature = "png")]
mod png;
pub mod segments;
mod setup;
pub mod statuses;
pub mod tracks;

pub use axis::number;
pub use chart::{Frame, Origin, legend};
pub use form::Form;
pub use picture::{Content, Drawn, Key, Part, Picture, svg};
pub use plot::{Kind, Plot, Reach, Series, Style};
pub use setup::{Edge, Setup, setup_svg};
