//! Values of scenarios that policies do not have, read from text.

use std::net::IpAddr;
use std::str::FromStr;

/// An address as a scenario writes it.
pub(super) struct Address(pub IpAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse().map(Address);
        address.map_err(|_| format!("{text:?} is not an address; write one such as 192.0.2.1"))
    }
}

/// A number with a fraction.
pub(super) struct Number(pub f64);

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().map(Number);
        number.map_err(|_| format!("{text:?} is not a number; write one such as 1.5"))
    }
}
