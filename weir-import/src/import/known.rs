//! Tells what a file is: of a language that Weir imports, or of a tool whose files it does not
//! read, with what to do then.

/// A kind of file of another tool.
#[derive(Debug)]
pub struct Known {
    /// Its name in commands.
    pub name: &'static str,
    /// The kind in words, with its article.
    pub noun: &'static str,
    /// The next step where no importer reads it.
    pub instead: Option<&'static str>,
    /// Whether the whole text is of this kind.
    is_text: fn(&str) -> bool,
    /// Whether these words of a line, of which there is one, are of this kind.
    is_line: fn(&[&str]) -> bool,
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Known {}

/// Returns the kind of a text, if it is known.
pub fn of(text: &str) -> Option<&'static Known> {
    let head: String = text.chars().take(HEAD_MAX).collect();
    if let Some(known) = KNOWN.iter().find(|known| (known.is_text)(&head)) {
        return Some(known);
    }
    text.lines().take(LINES_MAX).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().take(WORDS_MAX).collect();
        let is = |known: &&Known| !words.is_empty() && (known.is_line)(&words);
        KNOWN.iter().find(is)
    })
}

/// Returns the kind of this name.
pub fn named(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// Returns whether it is JSON with one of these keys.
fn has_key(text: &str, keys: &[&str]) -> bool {
    let begins = text.trim_start().starts_with(['{', '[']);
    begins && keys.iter().any(|key| text.contains(&format!("\"{key}")))
}

const fn line(name: &'static str, noun: &'static str, is_line: fn(&[&str]) -> bool) -> Known {
    Known { name, noun, instead: None, is_text: |_| false, is_line }
}

const fn foreign(
    name: &'static str,
    noun: &'static str,
    instead: &'static str,
    is_line: fn(&[&str]) -> bool,
) -> Known {
    Known { name, noun, instead: Some(instead), is_text: |_| false, is_line }
}

/// The kinds, in the order in which they are asked: a later one may have words of an earlier one.
const KNOWN: [Known; 14] = [
    Known {
        name: "libreqos",
        noun: "a file of LibreQoS",
        instead: None,
        is_text: |text| {
            let is_list = text.lines().take(8).any(|line| line.contains("Circuit ID,"));
            is_list || has_key(text, &["downloadBandwidthMbps", "uploadBandwidthMbps"])
        },
        is_line: |_| false,
    },
    Known {
        name: "openconfig",
        noun: "an OpenConfig QoS configuration",
        instead: Some(
            "write a class for each queue of its scheduler policy, with `rate` and `ceil` from \
             `cir` and `pir` (docs/guide/from-other-tools.md)",
        ),
        is_text: |text| {
            has_key(text, &["openconfig-qos", "scheduler-policies", "forwarding-groups"])
        },
        is_line: |_| false,
    },
    Known {
        name: "tc",
        noun: "a script of tc commands",
        instead: None,
        is_text: |text| {
            let is_shown =
                has_key(text, &["kind\"", "class\""]) && has_key(text, &["handle\"", "protocol\""]);
            is_shown || has_key(text, &["qdisc"])
        },
        is_line: |words| {
            let verbs = ["add", "change", "replace", "del", "delete"];
            let is_tc = ["tc", "/sbin/tc", "/usr/sbin/tc", "$TC", "${TC}"];
            match words {
                ["qdisc" | "class" | "filter", verb, ..] if verbs.contains(verb) => true,
                ["qdisc", _, handle, ..] => handle.ends_with(':'),
                ["sudo", first, _, ..] | [first, _, ..] => is_tc.contains(first),
                _ => false,
            }
        },
    },
    line("sqm", "an OpenWrt configuration of sqm", |words| {
        matches!(words, ["config", "queue", ..] | ["package", "sqm"])
    }),
    line(
        "systemd",
        "a .network file of systemd-networkd",
        |words| matches!(words, [one] if SECTIONS.contains(one)),
    ),
    line("routeros", "a configuration of RouterOS", |words| {
        words[0] == "/queue" || words[0].starts_with("/queue/")
    }),
    line("mqc", "a configuration of Cisco IOS", |words| {
        matches!(words, ["policy-map" | "class-map" | "service-policy", _, ..])
    }),
    foreign(
        "ipfw",
        "a configuration of ipfw with dummynet",
        "write a class for each `pipe` (its `bw` is the `ceil`) and each `queue` (its `weight`, \
         with `scheduler = \"wf2q+\"`); a rule of ipfw becomes a `match`",
        |words| {
            let words = match words {
                ["ipfw" | "/sbin/ipfw" | "${fwcmd}" | "$cmd" | "dnctl", rest @ ..] => rest,
                words => words,
            };
            match words {
                ["pipe" | "queue" | "sched", _, "config", ..] => true,
                ["add", rest @ ..] => rest.contains(&"pipe") || rest.contains(&"queue"),
                _ => false,
            }
        },
    ),
    foreign(
        "fireqos",
        "a configuration of FireQOS",
        "`fireqos FILE debug` prints the commands of tc that it gives: `weir import tc` reads them",
        |words| {
            let direction = ["input", "output", "bidirectional"];
            words[0] == "interface" && words.iter().any(|word| direction.contains(word))
        },
    ),
    foreign(
        "junos",
        "a configuration of Junos with class-of-service",
        "write a class for each scheduler, with `rate` from `transmit-rate` and `ceil` from \
         `shaping-rate`",
        |words| matches!(words, ["class-of-service", "{"] | ["set", "class-of-service", ..]),
    ),
    foreign(
        "vyos",
        "a configuration of VyOS with a traffic policy",
        "VyOS gives it to the kernel: `weir import tc --from-kernel` on the router reads it",
        |words| matches!(words, ["set", "qos" | "traffic-policy", ..] | ["traffic-policy", "{"]),
    ),
    foreign(
        "wondershaper",
        "a configuration of wondershaper",
        "it gives commands of tc: `weir import tc --run` runs a script in a sandbox",
        |words| words[0].starts_with("DSPEED=") || words[0].starts_with("USPEED="),
    ),
    line("altq", "an altq.conf", |words| words[0] == "interface" && words.contains(&"bandwidth")),
    line("pf", "a pf.conf", |words| match words {
        ["altq", "on", ..] => true,
        ["pass" | "block" | "match", second, ..] => {
            ["in", "out", "on", "quick", "all"].contains(second)
        }
        ["queue", _, rest @ ..] => rest.contains(&"bandwidth") || rest.contains(&"parent"),
        _ => false,
    }),
];
/// Sections by which a file of systemd is known.
const SECTIONS: [&str; 10] = [
    "[CAKE]",
    "[TokenBucketFilter]",
    "[HierarchyTokenBucket]",
    "[HierarchyTokenBucketClass]",
    "[DeficitRoundRobinScheduler]",
    "[QuickFairQueueing]",
    "[FairQueueingControlledDelay]",
    "[StochasticFairnessQueueing]",
    "[NetworkEmulator]",
    "[QDisc]",
];
/// Bound: characters by which a text as a whole is known; what follows them is not looked at.
const HEAD_MAX: usize = 1 << 16;
/// Bound: lines by which a text is known; further ones are not looked at.
const LINES_MAX: usize = 1 << 17;
/// Bound: words of a line by which a text is known; further ones are not looked at.
const WORDS_MAX: usize = 64;
