//! The page on a link, a record or a report, and the server of its data.
//!
//! A [`server::Server`] gives the page ([`assets`]) and answers the routes below `/view` from a
//! [`source::Source`], whose types are in [`data`]. What is beside `/view` is the control API of a
//! live link, which the server passes on with the rights of the token. [`live`] is the source of a
//! running link: it is a client of the control socket, in a process of its own, and whatever becomes
//! of it, the link goes on. [`access`] makes tokens.

pub mod access;
pub mod assets;
pub mod data;
pub mod live;
pub mod server;
pub mod source;
