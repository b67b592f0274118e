//! Every number and table that tidy uses, and every exception, each with its reason.
//!
//! Where a limit makes code worse, change it here and in the style page, with the reason.

use super::Finding;

/// Lines of a function, from its signature to its closing brace.
pub const FUNCTION_LINES: usize = 70;

/// Lines of a file, tests and tables aside.
pub const FILE_LINES: usize = 1000;

/// Characters of a line.
pub const LINE_WIDTH: usize = 100;

/// Parameters of a function, `self` aside.
pub const PARAMETERS: usize = 5;

/// Depth of blocks in a function: its body is 0; a branch, a loop, a match arm, a closure, an
/// `unsafe` or bare block each add one. An `else if` is as deep as its `if`.
pub const NESTING: usize = 4;

/// A place that may violate one rule.
pub struct Exception {
    /// The name of the check, as in findings.
    pub check: &'static str,
    /// The file, relative to the workspace's root.
    pub file: &'static str,
    /// Why the rule would make this place worse.
    pub reason: &'static str,
}

impl Exception {
    /// Returns true if this exception covers that finding.
    pub fn covers(&self, finding: &Finding) -> bool {
        self.check == finding.check && self.file == finding.file
    }
}

/// The exceptions.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        check: "absence",
        file: "weir-sim/src/replicate/parallel.rs",
        reason: "replications run side by side; each thread has whole runs, which share nothing",
    },
    Exception {
        check: "absence",
        file: "weir-core/src/sched/cbq_ref/class.rs",
        reason: "the estimator of ns-2 is in floats; only the same operations give its decisions",
    },
    Exception {
        check: "absence",
        file: "weir-core/src/sched/cbq_ref/rules.rs",
        reason: "the rules of ns-2 compare times in floats; other times would break ties differently",
    },
    Exception {
        check: "absence",
        file: "weir-core/src/sched/cbq_ref/mod.rs",
        reason: "whole nanoseconds become the seconds in floats that the rules of ns-2 compare",
    },
    Exception {
        check: "names",
        file: "weir-tcp/src/endpoint.rs",
        reason: "`tcp_info` is Linux's name, and so that of the scripts that assert its values",
    },
    Exception {
        check: "names",
        file: "weir-tcp/src/report.rs",
        reason: "the values of `tcp_info`, under their names in Linux",
    },
    Exception {
        check: "absence",
        file: "weir-core/src/sched/cbq_altq/spec.rs",
        reason: "ALTQ computes a class's limits in double precision when it is built, and truncates",
    },
];

/// The crates of Weir that a crate may depend on (ARCHITECTURE.md, "The crates"): arrows point down
/// only.
pub const CRATE_ARROWS: &[(&str, &[&str])] = &[
    ("weir-core", &[]),
    ("weir-tcp", &["weir-core"]),
    ("weir-policy", &["weir-core"]),
    ("weir-import", &["weir-core", "weir-policy"]),
    ("weir-record", &["weir-core"]),
    ("weir-rsvp", &["weir-core", "weir-policy"]),
    ("weir-sim", &["weir-core", "weir-tcp", "weir-policy", "weir-record", "weir-rsvp"]),
    ("weir-host", &["weir-core", "weir-policy", "weir-rsvp"]),
    ("weir-link", &["weir-core", "weir-policy", "weir-record", "weir-rsvp", "weir-host"]),
    ("weir-control", &["weir-core", "weir-policy", "weir-record", "weir-host", "weir-link"]),
    ("weir-traffic", &["weir-core", "weir-policy", "weir-sim", "weir-host"]),
    ("weir-plot", &["weir-core", "weir-sim"]),
    ("weir-sweep", &["weir-policy", "weir-sim"]),
    (
        "weir-view",
        &[
            "weir-core",
            "weir-policy",
            "weir-sim",
            "weir-record",
            "weir-host",
            "weir-link",
            "weir-control",
        ],
    ),
    (
        "weir-daemon",
        &[
            "weir-core",
            "weir-policy",
            "weir-record",
            "weir-rsvp",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-view",
        ],
    ),
    (
        "weir-bench",
        &[
            "weir-core",
            "weir-policy",
            "weir-sim",
            "weir-record",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-traffic",
        ],
    ),
    ("weir-cli", &["weir-policy", "weir-sim", "weir-host", "weir-plot"]),
    (
        "weir-lab",
        &[
            "weir-core",
            "weir-policy",
            "weir-import",
            "weir-sim",
            "weir-record",
            "weir-rsvp",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-traffic",
            "weir-plot",
            "weir-bench",
            "weir-cli",
        ],
    ),
    (
        "weir",
        &[
            "weir-core",
            "weir-policy",
            "weir-import",
            "weir-sim",
            "weir-record",
            "weir-rsvp",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-traffic",
            "weir-plot",
            "weir-sweep",
            "weir-bench",
            "weir-cli",
            "weir-view",
            "weir-daemon",
        ],
    ),
    (
        "weir-python",
        &[
            "weir-core",
            "weir-policy",
            "weir-import",
            "weir-rsvp",
            "weir-sim",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-sweep",
            "weir-lab",
        ],
    ),
    (
        "fuzz",
        &[
            "weir-core",
            "weir-tcp",
            "weir-policy",
            "weir-import",
            "weir-sim",
            "weir-record",
            "weir-rsvp",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-traffic",
            "weir-view",
            "weir-daemon",
        ],
    ),
    ("testbed", &["weir-core", "weir-policy", "weir-rsvp", "weir-host", "weir-link"]),
    ("packetdrill", &["weir-core", "weir-tcp"]),
    ("xtask", &[]),
];

/// Crates for tests, each with the crates that may link it. Every crate may test with it.
pub const FOR_TESTS: &[(&str, &[&str])] = &[("weir-testbed", &["weir-lab", "weir-bench"])];

/// Crates without any outside dependency.
pub const DEPENDENCY_FREE: &[&str] = &["weir-core"];

/// The core's modules that a module may use; `link` joins those below it.
pub const CORE_ARROWS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("ids", &[]),
    ("state", &["units", "ids"]),
    ("random", &["state"]),
    ("parameter", &["units", "ids"]),
    ("tree", &["units", "ids", "parameter"]),
    ("order", &["units", "ids", "state", "random", "parameter", "tree"]),
    ("packet", &["units", "ids", "state"]),
    ("event", &["units", "ids", "state", "packet"]),
    ("classify", &["units", "ids", "state", "random", "packet", "parameter"]),
    ("account", &["units", "ids", "state", "packet", "event"]),
    (
        "queue",
        &[
            "units",
            "ids",
            "state",
            "random",
            "parameter",
            "tree",
            "order",
            "packet",
            "event",
            "account",
        ],
    ),
    ("police", &["units", "ids", "state", "random", "packet", "parameter"]),
    ("sched", &["units", "ids", "state", "random", "parameter", "tree", "order", "packet"]),
    (
        "link",
        &[
            "units",
            "ids",
            "state",
            "parameter",
            "tree",
            "packet",
            "event",
            "account",
            "queue",
            "police",
            "sched",
        ],
    ),
];

/// A token sequence that must not occur in some crates.
pub struct Absence {
    /// The crates where it must not occur; empty means all but those of `but`.
    pub crates: &'static [&'static str],
    /// The crates where it may, if `crates` is empty.
    pub but: &'static [&'static str],
    /// The tokens, separated by spaces.
    pub tokens: &'static [&'static str],
    /// What the tokens are, for the message.
    pub what: &'static str,
    /// The replacement.
    pub cure: &'static str,
}

/// Files in which an [`Absence`] may occur, by what it is, with the reason.
pub const PRESENT: &[(&str, &str, &str)] = &[(
    "weir-sim/src/quic.rs",
    "a clock below the ports",
    "quinn's instants are the system's, of which only differences from the first count",
)];

/// The crates below the ports: same calls, same decisions, to the bit.
const DETERMINISTIC: &[&str] = &[
    "weir-core",
    "weir-tcp",
    "weir-policy",
    "weir-import",
    "weir-record",
    "weir-rsvp",
    "weir-sim",
];

/// The absences (ARCHITECTURE.md, "What is absent, and stays absent").
pub const ABSENCES: &[Absence] = &[
    Absence {
        crates: &["weir-core", "weir-tcp"],
        but: &[],
        tokens: &["std ::", "extern crate std", "println !", "eprintln !"],
        what: "the standard library or I/O in the core",
        cure: "use `core` or `alloc`, or do it in a port",
    },
    Absence {
        crates: DETERMINISTIC,
        but: &[],
        tokens: &["Instant :: now", "SystemTime", "UNIX_EPOCH", "std :: time :: Instant"],
        what: "a clock below the ports",
        cure: "take `now` as an argument",
    },
    Absence {
        crates: DETERMINISTIC,
        but: &[],
        tokens: &["std :: thread", "thread :: spawn", "thread :: sleep", "thread :: scope"],
        what: "a thread or a sleep below the ports",
        cure: "leave waiting to the run loop",
    },
    Absence {
        crates: DETERMINISTIC,
        but: &[],
        tokens: &["HashMap", "HashSet", "RandomState"],
        what: "a hash map, whose order differs between runs, below the ports",
        cure: "use a `BTreeMap`, or a `Vec` indexed by id",
    },
    Absence {
        crates: &[
            "weir-core",
            "weir-policy",
            "weir-import",
            "weir-rsvp",
            "weir-sim",
            "weir-bench",
            "weir-lab",
        ],
        but: &[],
        tokens: &["thread_rng", "from_entropy", "from_os_rng", "getrandom", "OsRng", "ThreadRng"],
        what: "unseeded randomness",
        cure: "take a seed as an argument",
    },
    Absence {
        crates: &["weir-core", "weir-tcp"],
        but: &[],
        tokens: &["f64", "f32"],
        what: "a float in the datapath",
        cure: "use an integer unit type, or except a historic variant in rules.rs",
    },
    Absence {
        crates: &[],
        but: &["weir-host", "weir-link"],
        tokens: &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"],
        what: "`unsafe` away from the edge",
        cure: "move it to weir-host or weir-link behind a safe call",
    },
];

/// The folders of the core that hold algorithms, with the macro in their `mod.rs` that registers
/// them, one line each: `module::Type,`.
pub const REGISTRIES: &[(&str, &str)] = &[
    ("weir-core/src/sched", "schedulers"),
    ("weir-core/src/queue", "droppers"),
    ("weir-core/src/police", "meters"),
    ("weir-core/src/classify", "classifiers"),
];

/// Names of algorithms that are also ordinary words: only a path such as `queue::tail` or the lone
/// string `"tail"` is a use of these.
pub const ORDINARY_WORDS: &[&str] = &["tail", "head", "linear", "longest", "red", "blue", "pie"];

/// Places where an algorithm other than the file's own may be named, by the beginning of the path.
pub const NAMING_PLACES: &[(&str, &str)] = &[
    ("weir-core/src/sched/cbq", "its general scheduler is one of the round robins, by name"),
    ("weir-core/src/sched/altq_wfq", "its own name ends in another's"),
    (
        "weir-core/src/queue/longest",
        "its source is the file of a scheduler whose name ends in another's",
    ),
    ("weir-core/src/queue/fq_codel.rs", "it is CoDel for each flow, and is named so"),
    ("weir-core/src/sched/fq_codel.rs", "its name holds that of a dropper"),
    ("weir-core/src/event.rs", "a reason for drops may have the name of its dropper"),
    ("weir-core/src/queue/red_altq.rs", "ALTQ's word for a forced drop of what arrives"),
    ("weir-core/src/police", "a colour of packets has a dropper's name"),
    ("weir-core/src/sched/hfsc", "a service curve with one slope is linear"),
    ("weir-python/src/registry.rs", "a cost in proportion to the leaves is linear"),
    ("weir-core/src/sched/htb_265", "the sound variant's engine and keyword, with a version"),
    ("weir-import/src/import/", "other tools' words for algorithms, and which is which"),
    ("weir-import/src/export/", "the kernel's names of algorithms"),
    ("weir-policy/src/translate", "in one scheduler the smaller priority is first"),
    ("weir-tcp/", "in TCP, PRR is proportional rate reduction"),
    ("weir-bench/", "a benchmark says which algorithms it measures"),
    ("weir-lab/", "an experiment says which algorithms it compares"),
    ("fuzz/", "a fuzz target's corpus and policies name them"),
    ("xtask/", "the table of ordinary words above"),
];
