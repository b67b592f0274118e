//! Laws of the controllers, and both of them in front of a modelled modem.

mod echoes;
mod hardships;
mod laws;
mod loops;
mod modem;
