//! Names of services for their ports, as rules may write them.

/// Returns the port of a service `[iana]`; case does not matter.
pub fn service_port(name: &str) -> Option<u16> {
    let found = SERVICES.iter().find(|row| row.0.eq_ignore_ascii_case(name));
    found.map(|row| row.1)
}

/// Services that rules commonly name, by port: the names of the IANA registry, and `dns`, `whois` and
/// `rip`, which systems' own lists have.
pub const SERVICES: &[(&str, u16)] = &[
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("whois", 43),
    ("domain", 53),
    ("dns", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("http", 80),
    ("www", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap", 143),
    ("snmp", 161),
    ("snmptrap", 162),
    ("bgp", 179),
    ("irc", 194),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("submissions", 465),
    ("isakmp", 500),
    ("syslog", 514),
    ("rip", 520),
    ("router", 520),
    ("ripng", 521),
    ("dhcpv6-client", 546),
    ("dhcpv6-server", 547),
    ("rtsp", 554),
    ("nntps", 563),
    ("submission", 587),
    ("ipp", 631),
    ("ldaps", 636),
    ("domain-s", 853),
    ("rsync", 873),
    ("imaps", 993),
    ("pop3s", 995),
    ("socks", 1080),
    ("openvpn", 1194),
    ("ms-sql-s", 1433),
    ("l2tp", 1701),
    ("pptp", 1723),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("mqtt", 1883),
    ("nfs", 2049),
    ("mysql", 3306),
    ("ms-wbt-server", 3389),
    ("stun", 3478),
    ("turn", 3478),
    ("svn", 3690),
    ("ipsec-nat-t", 4500),
    ("sip", 5060),
    ("sips", 5061),
    ("xmpp-client", 5222),
    ("xmpp-server", 5269),
    ("mdns", 5353),
    ("stuns", 5349),
    ("postgresql", 5432),
    ("amqp", 5672),
    ("cvsup", 5999),
    ("x11", 6000),
    ("http-alt", 8080),
    ("secure-mqtt", 8883),
    ("git", 9418),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_their_ports_in_any_case() {
        for (name, port) in [("https", 443), ("SSH", 22), ("http-alt", 8080), ("domain", 53)] {
            assert_eq!(service_port(name), Some(port), "{name}");
        }
        for name in ["", "htps", "80", "20-21"] {
            assert_eq!(service_port(name), None, "{name}");
        }
    }

    #[test]
    fn each_name_stands_once() {
        for (place, (name, _)) in SERVICES.iter().enumerate() {
            let again = SERVICES[place + 1..].iter().any(|row| row.0 == *name);
            assert!(
                !again
                    && name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            );
        }
    }
}
