//! Whether a station answered for an IPv4 address, as the kernel's ARP table of this thread's
//! network namespace says. Datagrams to one that does not answer are dropped without an error.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Returns whether the kernel asked for the station of a receiver, `ADDRESS:PORT`, in vain or still
/// does. Of a receiver behind a router nothing is known.
pub(crate) fn is_unanswered(to: &str) -> bool {
    let Ok(IpAddr::V4(address)) = to.parse().map(|to: SocketAddr| to.ip()) else { return false };
    let table = fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default();
    in_table(&table, &address.to_string())
}

/// The columns are address, hardware type, flags, hardware address, mask and interface; the flags
/// of an address without an answer are 0 [<linux/if_arp.h>, `ATF_COM`].
fn in_table(table: &str, address: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(address) && words.nth(1) == Some("0x0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_an_answer_has_no_flags() {
        let table = "IP address  HW type  Flags  HW address         Mask  Device\n\
                     10.0.0.1    0x1      0x2    02:00:00:00:00:01  *     eth0\n\
                     10.0.0.2    0x1      0x0    00:00:00:00:00:00  *     eth0\n\
                     10.0.0.3    0x1      0x6    02:00:00:00:00:03  *     eth0\n";
        for (address, expected) in
            [("10.0.0.1", false), ("10.0.0.2", true), ("10.0.0.3", false), ("10.0.0.4", false)]
        {
            assert_eq!(in_table(table, address), expected, "{address}");
        }
        assert!(!is_unanswered("[fe80::1]:5001") && !is_unanswered("no address"));
    }
}
