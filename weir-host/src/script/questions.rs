//! Which calls of programs such as `ip` only ask, and which of these the real program may answer.
//!
//! A question that is answered is run outside the sandbox, so what may be in one is listed here,
//! word by word; all else sets something up, or gets no answer.

/// The kind of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    /// It sets something up.
    Sets,
    /// It asks, and the real program answers without a change of anything.
    Answerable,
    /// It asks what a sandbox cannot answer.
    Unanswerable,
}

/// Judges a call by the name of its program and its arguments.
pub(super) fn call(words: &[String]) -> Call {
    let words: Vec<&str> = program(words).iter().map(String::as_str).collect();
    let Some((&name, rest)) = words.split_first() else { return Call::Sets };
    let call = match name {
        "ip" => ip(rest),
        "sysctl" => sysctl(rest),
        "ethtool" => ethtool(rest),
        "ifconfig" => ifconfig(rest),
        "route" => route(rest),
        "bridge" => bridge(rest),
        "tc" => tc(rest),
        _ => others(name, rest),
    };
    // What is passed on has no word that a program may take for a file or a name to look up.
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+.,:/%@".contains(c);
    let is_plain = words.len() <= WORDS_MAX && words.concat().chars().all(plain);
    if call == Call::Answerable && !is_plain { Call::Unanswerable } else { call }
}

/// Returns the words behind `sudo` and its options.
pub(super) fn program(words: &[String]) -> &[String] {
    let Some(rest) = words.strip_prefix(&["sudo".to_owned()]) else { return words };
    let at = rest.iter().position(|word| !word.starts_with('-'));
    at.map_or(&[], |at| &rest[at..])
}

fn ip(words: &[&str]) -> Call {
    if words == ["-V"] {
        return Call::Answerable;
    }
    let Some((options, rest)) = options(words, IP_VALUED) else { return Call::Sets };
    let Some((object, rest)) = rest.split_first() else { return Call::Sets };
    let known = IP_OBJECTS.iter().find(|row| row.starts_with(object));
    let verb = rest.first().copied();
    let asks = match verb {
        None => known.is_some(),
        Some(verb) => {
            READS.contains(&verb) || verb == "s" && known.is_some_and(|one| *one != "link")
        }
    };
    let harmless = |option: &&str| IP_OPTIONS.contains(option);
    match asks {
        true if known.is_some() && options.iter().all(harmless) => Call::Answerable,
        true => Call::Unanswerable,
        false => Call::Sets,
    }
}

/// Splits the options off; those of `valued` have a value.
fn options<'w>(words: &'w [&'w str], valued: &[&str]) -> Option<(Vec<&'w str>, &'w [&'w str])> {
    let mut at = 0;
    let mut found = Vec::new();
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        found.push(*word);
        at += 1 + usize::from(valued.contains(word));
    }
    words.get(at..).map(|rest| (found, rest))
}

fn sysctl(words: &[&str]) -> Call {
    let reads = |word: &&str| match word.strip_prefix('-') {
        Some(option) => ["n", "e", "b", "N", "a", "ne", "en", "values"].contains(&option),
        None => !word.contains('='),
    };
    let asks = !words.is_empty() && words.iter().all(reads);
    if asks { Call::Answerable } else { Call::Sets }
}

fn ethtool(words: &[&str]) -> Call {
    match words {
        [device] if !device.starts_with('-') => Call::Answerable,
        [option, _] if ETHTOOL_READS.contains(option) => Call::Answerable,
        _ => Call::Sets,
    }
}

fn ifconfig(words: &[&str]) -> Call {
    let devices = words.iter().filter(|word| !word.starts_with('-')).count();
    let options = words.iter().all(|word| !word.starts_with('-') || ["-a", "-s"].contains(word));
    if devices <= 1 && options { Call::Answerable } else { Call::Sets }
}

fn route(words: &[&str]) -> Call {
    let reads = |word: &&str| ["-n", "-4", "-6", "-A", "inet", "inet6"].contains(word);
    match words.iter().all(reads) {
        true if words.contains(&"-n") => Call::Answerable,
        // It would ask a name server.
        true => Call::Unanswerable,
        false => Call::Sets,
    }
}

fn bridge(words: &[&str]) -> Call {
    let Some((options, rest)) = options(words, &[]) else { return Call::Sets };
    let harmless = options.iter().all(|option| IP_OPTIONS.contains(option));
    match rest {
        [_] | [_, "show" | "list" | "lst" | "ls", ..] if harmless => Call::Answerable,
        _ => Call::Sets,
    }
}

fn tc(words: &[&str]) -> Call {
    let Some((_, rest)) = options(words, &["-n", "-net", "-netns"]) else { return Call::Sets };
    let object = |word: &str| ["qdisc", "class", "filter"].iter().any(|one| one.starts_with(word));
    match rest {
        [one] if object(one) => Call::Unanswerable,
        [one, verb, ..] if object(one) && (READS.contains(verb) || *verb == "s") => {
            Call::Unanswerable
        }
        _ => Call::Sets,
    }
}

fn others(name: &str, words: &[&str]) -> Call {
    let row = OTHERS.iter().find(|row| row.0 == name);
    let asks = row.is_some_and(|(_, reads)| {
        reads.is_empty() || words.iter().any(|word| reads.contains(word))
    });
    if asks { Call::Unanswerable } else { Call::Sets }
}

/// Objects of `ip` of which `show` and `get` change nothing, in the order in which it compares a
/// shortened word.
const IP_OBJECTS: &[&str] =
    &["address", "maddress", "route", "rule", "neighbor", "neighbour", "link", "tunnel"];
/// Options of `ip` with a value.
const IP_VALUED: &[&str] =
    &["-f", "-family", "-n", "-netns", "-b", "-batch", "-l", "-loops", "-rc", "-rcvbuf"];
/// Options of `ip` and `bridge` that say how to print. `-resolve` would ask a name server, and
/// `-batch` reads a file.
const IP_OPTIONS: &[&str] = &[
    "-4",
    "-6",
    "-0",
    "-f",
    "-family",
    "-o",
    "-oneline",
    "-j",
    "-json",
    "-p",
    "-pretty",
    "-d",
    "-details",
    "-s",
    "-stats",
    "-statistics",
    "-br",
    "-brief",
    "-N",
    "-Numeric",
    "-h",
    "-human",
];
const READS: &[&str] = &["show", "sh", "list", "ls", "lst", "get"];
const ETHTOOL_READS: &[&str] = &["-i", "-k", "-g", "-l", "-a", "-c", "-P", "--driver"];
/// Programs that a sandbox lets answer nothing, with a word of those calls that ask; without one,
/// all do.
const OTHERS: &[(&str, &[&str])] = &[
    ("ping", &[]),
    ("ping6", &[]),
    ("fping", &[]),
    ("iptables", &["-L", "-S", "-C", "-nL", "-nvL", "-vnL", "--list", "--check"]),
    ("ip6tables", &["-L", "-S", "-C", "-nL", "-nvL", "-vnL", "--list", "--check"]),
    ("iptables-save", &[]),
    ("ip6tables-save", &[]),
    ("nft", &["list"]),
    ("ipset", &["list", "test", "save"]),
    ("brctl", &["show", "showmacs", "showstp"]),
    ("iw", &["list", "info", "dev", "link", "dump"]),
    ("iwconfig", &[]),
    ("service", &["status"]),
    ("systemctl", &["is-active", "is-enabled", "show", "status"]),
];
/// Bound: words of a question; a longer one is not answered.
const WORDS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::{Call, call};

    #[test]
    fn only_what_changes_nothing_is_answered() {
        let rows = [
            ("ip route get 1.1.1.1", Call::Answerable),
            ("ip -4 -o r g 1.1.1.1", Call::Sets),
            ("ip -o -4 addr show dev eth0", Call::Answerable),
            ("ip a", Call::Answerable),
            ("ip a s eth0", Call::Answerable),
            ("ip l s eth0 up", Call::Sets),
            ("ip link show ifb0", Call::Answerable),
            ("ip link set ifb0 up", Call::Sets),
            ("ip link add ifb0 type ifb", Call::Sets),
            ("ip -r route get 1.1.1.1", Call::Unanswerable),
            ("ip -batch file route show", Call::Unanswerable),
            ("ip -n red link show", Call::Unanswerable),
            ("ip netns exec red ip link show", Call::Sets),
            ("ip netns list", Call::Unanswerable),
            ("ip route show $(x)", Call::Unanswerable),
            ("sudo -n ip route get 1.1.1.1", Call::Answerable),
            ("sudo reboot", Call::Sets),
            ("sysctl -n net.core.default_qdisc", Call::Answerable),
            ("sysctl -w net.core.default_qdisc=fq", Call::Sets),
            ("sysctl net.core.default_qdisc=fq", Call::Sets),
            ("sysctl -p", Call::Sets),
            ("ethtool eth0", Call::Answerable),
            ("ethtool -K eth0 gso off", Call::Sets),
            ("ifconfig eth0", Call::Answerable),
            ("ifconfig eth0 up", Call::Sets),
            ("route -n", Call::Answerable),
            ("route", Call::Unanswerable),
            ("route add default gw 10.0.0.1", Call::Sets),
            ("bridge link show", Call::Answerable),
            ("bridge vlan add dev a vid 2", Call::Sets),
            ("tc -s qdisc show dev eth0", Call::Unanswerable),
            ("tc qdisc add dev eth0 root htb", Call::Sets),
            ("ping -c 1 10.0.0.1", Call::Unanswerable),
            ("iptables -t mangle -A POSTROUTING -j MARK --set-mark 5", Call::Sets),
            ("iptables -t mangle -C POSTROUTING -j MARK", Call::Unanswerable),
            ("modprobe ifb", Call::Sets),
        ];
        for (text, wanted) in rows {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            assert_eq!(call(&words), wanted, "{text}");
        }
    }
}
