//! Laws of the controllers, and both of them in front of a modelled modem.

mod laws;
mod loops;
mod modem;
