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

/// Parameters of a function, `self` aside; the leaves of a tuple count one each.
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

/// Violations that are allowed, each with its reason.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        check: "absence",
        file: "weir-sim/src/replicate/parallel.rs",
        reason: "replications run side by side; each thread has whole runs, which share nothing",
    },
    Exception {
        check: "absence",
        file: "weir-trace/src/parallel.rs",
        reason: "calls that share nothing run side by side; results are in the order of numbers",
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
        check: "algorithm-name",
        file: "weir-infer/src/scenario.rs",
        reason: "the link of a capture without a policy is one queue, and its text names a scheduler",
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
    ("weir-autorate", &["weir-core"]),
    ("weir-policy", &["weir-core", "weir-autorate"]),
    ("weir-import", &["weir-core", "weir-policy"]),
    ("weir-trace", &["weir-core", "weir-policy"]),
    ("weir-rsvp", &["weir-core", "weir-policy"]),
    (
        "weir-sim",
        &["weir-core", "weir-tcp", "weir-autorate", "weir-policy", "weir-trace", "weir-rsvp"],
    ),
    ("weir-infer", &["weir-core", "weir-policy", "weir-trace", "weir-sim"]),
    ("weir-host", &["weir-core", "weir-policy", "weir-rsvp"]),
    (
        "weir-link",
        &["weir-core", "weir-autorate", "weir-policy", "weir-trace", "weir-rsvp", "weir-host"],
    ),
    ("weir-control", &["weir-core", "weir-policy", "weir-trace", "weir-host", "weir-link"]),
    ("weir-traffic", &["weir-core", "weir-policy", "weir-trace", "weir-sim", "weir-host"]),
    ("weir-show", &["weir-core", "weir-trace", "weir-sim", "weir-link"]),
    ("weir-sweep", &["weir-policy", "weir-sim"]),
    ("weir-lsp", &["weir-core", "weir-policy", "weir-sim", "weir-sweep"]),
    (
        "weir-gateway",
        &[
            "weir-core",
            "weir-policy",
            "weir-sim",
            "weir-infer",
            "weir-trace",
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
            "weir-trace",
            "weir-rsvp",
            "weir-host",
            "weir-link",
            "weir-control",
        ],
    ),
    (
        "weir-bench",
        &[
            "weir-core",
            "weir-autorate",
            "weir-policy",
            "weir-sim",
            "weir-trace",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-traffic",
        ],
    ),
    ("weir-cli", &["weir-core", "weir-policy", "weir-sim", "weir-host", "weir-show"]),
    (
        "weir-lab",
        &[
            "weir-core",
            "weir-autorate",
            "weir-policy",
            "weir-import",
            "weir-sim",
            "weir-infer",
            "weir-trace",
            "weir-rsvp",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-gateway",
            "weir-traffic",
            "weir-show",
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
            "weir-infer",
            "weir-trace",
            "weir-rsvp",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-traffic",
            "weir-show",
            "weir-sweep",
            "weir-lsp",
            "weir-bench",
            "weir-cli",
            "weir-gateway",
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
            "weir-trace",
            "weir-sim",
            "weir-infer",
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
            "weir-autorate",
            "weir-policy",
            "weir-import",
            "weir-sim",
            "weir-infer",
            "weir-trace",
            "weir-rsvp",
            "weir-host",
            "weir-link",
            "weir-control",
            "weir-traffic",
            "weir-lsp",
            "weir-gateway",
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
    ("fnv", &[]),
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

/// Files of a crate that import each other, directly or around, and may.
pub struct Circle {
    /// The first of the files, in the order of their names.
    pub first: &'static str,
    /// How many they are.
    pub files: usize,
    /// Why the circle stays.
    pub reason: &'static str,
}

/// Why the files of a folder and its `mod.rs`, or the file of the same name, may use each other.
const FOLDER: &str =
    "callers read a folder's types first; its files are parts of them and use them";

/// The circles that stay.
pub const CIRCLES: &[Circle] = &[
    Circle { first: "packetdrill/src/driver/mod.rs", files: 2, reason: FOLDER },
    Circle { first: "packetdrill/src/expression/evaluate.rs", files: 3, reason: FOLDER },
    Circle { first: "packetdrill/src/parse/call.rs", files: 4, reason: FOLDER },
    Circle { first: "testbed/src/rows.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-autorate/src/controller/cake_autorate.rs", files: 3, reason: FOLDER },
    Circle { first: "weir-bench/src/bench/classify.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-bench/src/demo/checks.rs", files: 8, reason: FOLDER },
    Circle {
        first: "weir-control/src/client.rs",
        files: 2,
        reason: "a link is found by asking it, and who asks is told why a place is denied",
    },
    Circle { first: "weir-control/src/server/mod.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-core/src/classify/altq_fragments.rs", files: 8, reason: FOLDER },
    Circle { first: "weir-core/src/classify/tuples/build.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-core/src/link/explain.rs", files: 2, reason: FOLDER },
    Circle {
        first: "weir-core/src/packet/encapsulation.rs",
        files: 4,
        reason: "one parser: each layer goes on with the one inside it",
    },
    Circle { first: "weir-core/src/queue/entry.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-core/src/queue/flows.rs", files: 6, reason: FOLDER },
    Circle {
        first: "weir-core/src/sched/cbq_altq/rounds.rs",
        files: 2,
        reason: "rounds ask the rules of sharing, which step through the circle of a round",
    },
    Circle {
        first: "weir-core/src/sched/htb/engine.rs",
        files: 2,
        reason: "the engine has turns, as many as it has levels and priorities",
    },
    Circle {
        first: "weir-core/src/state/error.rs",
        files: 3,
        reason: "an error names the version that the seal expects, and reading a seal may fail",
    },
    Circle { first: "weir-core/src/state/mod.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-core/src/tree/mod.rs", files: 2, reason: FOLDER },
    Circle {
        first: "weir-daemon/src/forward/control_listener.rs",
        files: 2,
        reason: "a client's request is met by the policies, which ask the first thread as it does",
    },
    Circle { first: "weir-daemon/src/rsvp.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-daemon/src/up/keeper.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-host/src/claim/mod.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-host/src/sandbox/capabilities.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-host/src/script/answers.rs", files: 5, reason: FOLDER },
    Circle { first: "weir-import/src/import/altq.rs", files: 43, reason: FOLDER },
    Circle { first: "weir-import/src/import/tc/kernel/filters.rs", files: 3, reason: FOLDER },
    Circle {
        first: "weir-infer/src/lib.rs",
        files: 3,
        reason: "flows are made first, and then get what they share with others",
    },
    Circle {
        first: "weir-lab/src/claims/kind.rs",
        files: 2,
        reason: "a claim is of a kind, and a kind judges a claim",
    },
    Circle { first: "weir-lab/src/command/archive.rs", files: 4, reason: FOLDER },
    Circle { first: "weir-lab/src/experiments/changes/joins.rs", files: 3, reason: FOLDER },
    Circle { first: "weir-lab/src/experiments/durations/figures.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-lab/src/experiments/faults/exits.rs", files: 5, reason: FOLDER },
    Circle { first: "weir-lab/src/experiments/ns2/mod.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-lab/src/experiments/overload/mod.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-lab/src/experiments/quadros/live.rs", files: 4, reason: FOLDER },
    Circle { first: "weir-lab/src/experiments/risso99/mod.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-lab/src/experiments/rsvp/churn.rs", files: 7, reason: FOLDER },
    Circle { first: "weir-lab/src/experiments/simulator_speed/mod.rs", files: 2, reason: FOLDER },
    Circle {
        first: "weir-lab/src/report/html.rs",
        files: 2,
        reason: "a page has the overview, which refers to a paper as pages do",
    },
    Circle {
        first: "weir-link/src/alarm/mod.rs",
        files: 7,
        reason: "a loop takes changes, and a change replaces parts and alarms of loops; to be undone",
    },
    Circle { first: "weir-link/src/doctor/facts.rs", files: 3, reason: FOLDER },
    Circle { first: "weir-link/src/events/log.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-link/src/offload.rs", files: 3, reason: FOLDER },
    Circle {
        first: "weir-link/src/port/afpacket.rs",
        files: 17,
        reason: "the list of kinds names each, and a port may wrap one of another kind",
    },
    Circle { first: "weir-link/src/port/worker/exchange.rs", files: 6, reason: FOLDER },
    Circle { first: "weir-link/src/sorter/cbpf.rs", files: 4, reason: FOLDER },
    Circle {
        first: "weir-link/src/status/board.rs",
        files: 5,
        reason: "a board keeps counts and their windows, which readers of the board are told together",
    },
    Circle { first: "weir-policy/src/calculus/at_least.rs", files: 4, reason: FOLDER },
    Circle { first: "weir-policy/src/deployment/alarm.rs", files: 15, reason: FOLDER },
    Circle {
        first: "weir-policy/src/lints/mod.rs",
        files: 9,
        reason: "the list of lints names each, and reading a policy ends with them",
    },
    Circle { first: "weir-policy/src/policy/template/circuits.rs", files: 3, reason: FOLDER },
    Circle { first: "weir-policy/src/translate/mod.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-rsvp/src/admission/class.rs", files: 3, reason: FOLDER },
    Circle {
        first: "weir-rsvp/src/integrity.rs",
        files: 3,
        reason: "a message has an object that covers the message",
    },
    Circle {
        first: "weir-sim/src/classes.rs",
        files: 29,
        reason: "one call runs a link or a network, and both have one report; to be undone",
    },
    Circle { first: "weir-sim/src/compare/measured.rs", files: 2, reason: FOLDER },
    Circle {
        first: "weir-sim/src/kinds/capture.rs",
        files: 2,
        reason: "a capture becomes records, and records may come from a capture",
    },
    Circle {
        first: "weir-sim/src/network/plan.rs",
        files: 2,
        reason: "a network's plan has that of its signalling, which names its nodes",
    },
    Circle {
        first: "weir-sim/src/network/signalling/built.rs",
        files: 2,
        reason: "steps of the control work on what was built, which has the steps",
    },
    Circle {
        first: "weir-sweep/src/sweep.rs",
        files: 4,
        reason: "a sweep keeps a table, whose rows are the runs that it has done",
    },
    Circle {
        first: "weir-tcp/src/ack.rs",
        files: 3,
        reason: "one receiving half in three files, which are methods of one state",
    },
    Circle { first: "weir-tcp/src/cc/bbr.rs", files: 7, reason: FOLDER },
    Circle {
        first: "weir-tcp/src/ecn/counters.rs",
        files: 4,
        reason: "feedback is in segments, whose length counts its option",
    },
    Circle {
        first: "weir-tcp/src/emission.rs",
        files: 3,
        reason: "one endpoint in three files, which are methods of one state",
    },
    Circle {
        first: "weir-tcp/src/recovery/mod.rs",
        files: 5,
        reason: "one sending half in five files, which are methods of one state",
    },
    Circle { first: "weir-trace/src/causes/mod.rs", files: 2, reason: FOLDER },
    Circle { first: "weir-trace/src/recorded/lane.rs", files: 2, reason: FOLDER },
    Circle {
        first: "weir-traffic/src/sender.rs",
        files: 2,
        reason: "a transfer is one way to send what a sender plans",
    },
    Circle { first: "weir-gateway/src/live/collector.rs", files: 2, reason: FOLDER },
    Circle {
        first: "weir-gateway/src/record/shown.rs",
        files: 2,
        reason: "a tape is shown with as many classes as it keeps at most",
    },
    Circle { first: "weir-gateway/src/page/mod.rs", files: 2, reason: FOLDER },
    Circle {
        first: "weir/src/check.rs",
        files: 2,
        reason: "a verb that cannot use a file checks it, and a check tells kinds apart",
    },
    Circle { first: "weir/src/import.rs", files: 2, reason: FOLDER },
    Circle { first: "weir/src/schema.rs", files: 3, reason: FOLDER },
    Circle { first: "weir/src/status.rs", files: 2, reason: FOLDER },
    Circle {
        first: "weir/src/top/draw.rs",
        files: 7,
        reason: "one screen: keys, rows and what is drawn",
    },
    Circle {
        first: "xtask/src/figures.rs",
        files: 3,
        reason: "the list names each part, and each part returns the list's verdict",
    },
    Circle { first: "xtask/src/tidy/absences.rs", files: 13, reason: FOLDER },
];

/// A token sequence that must not occur in some crates.
pub struct Absence {
    /// The crates where it must not occur; empty means all but those of `but`.
    pub crates: &'static [&'static str],
    /// The crates where it may, if `crates` is empty.
    pub but: &'static [&'static str],
    /// The tokens, separated by spaces.
    pub tokens: &'static [&'static str],
    /// A description of the tokens, for the message.
    pub what: &'static str,
    /// Advice in place of the tokens.
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
    "weir-autorate",
    "weir-policy",
    "weir-import",
    "weir-trace",
    "weir-rsvp",
    "weir-sim",
    "weir-infer",
];

/// The absences (ARCHITECTURE.md, "What is absent, and stays absent").
pub const ABSENCES: &[Absence] = &[
    Absence {
        crates: &["weir-core", "weir-tcp", "weir-autorate"],
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
            "weir-trace",
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
        crates: &["weir-core", "weir-tcp", "weir-autorate"],
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
pub const ORDINARY_WORDS: &[&str] =
    &["tail", "head", "linear", "longest", "red", "blue", "pie", "isolate"];

/// Places where an algorithm other than the file's own may be named, by the beginning of the path.
pub const NAMING_PLACES: &[(&str, &str)] = &[
    ("weir-autorate/src/controller/", "a program for CAKE has the rule, and its own name"),
    ("weir-core/src/queue/isolate", "its turns of hosts are those of Linux's CAKE"),
    ("weir-core/src/sched/cbq", "its general scheduler is one of the round robins, by name"),
    ("weir-core/src/sched/altq_wfq", "its own name ends in another's"),
    (
        "weir-core/src/queue/longest",
        "its source is the file of a scheduler whose name ends in another's",
    ),
    ("weir-core/src/queue/isolate.rs", "a source of it is the file of another discipline"),
    ("weir-autorate/src/", "another program's name holds that of a dropper"),
    ("weir-core/src/queue/mod.rs", "the short key of a class has its dropper's name"),
    ("weir/src/init.rs", "its user asks for policies of one of two queues, by name"),
    ("weir/src/schema/about.rs", "the short key of a class has its dropper's name"),
    ("weir-core/src/queue/fq_pie.rs", "its name holds that of another dropper"),
    ("packetdrill/src/defaults.rs", "the kernel's word for its queue"),
    ("weir-core/src/queue/fq_codel.rs", "it is CoDel for each flow, and is named so"),
    ("weir-core/src/sched/fq_codel.rs", "its name holds that of a dropper"),
    ("weir-autorate/src/controller", "the program cake-autorate has a dropper's name in its own"),
    ("weir-core/src/event.rs", "a reason for drops may have the name of its dropper"),
    ("weir-core/src/queue/red_altq.rs", "ALTQ's word for a forced drop of what arrives"),
    ("weir-core/src/police", "a colour of packets has a dropper's name"),
    ("weir-core/src/sched/hfsc", "a service curve with one slope is linear"),
    ("weir-python/src/registry.rs", "a cost in proportion to the leaves is linear"),
    ("weir-core/src/sched/ets", "strict priority above deficit rounds, each as it is"),
    ("weir-core/src/sched/qfq_plus", "the original's groups and keyword, as Linux has them"),
    ("weir-core/src/sched/htb_265", "the sound variant's engine and keyword, with a version"),
    ("weir-import/src/import/", "other tools' words for algorithms, and which is which"),
    ("weir-policy/src/synonyms.rs", "what other tools' disciplines are here, as a cure for a typo"),
    ("weir-import/src/export/", "the kernel's names of algorithms"),
    ("weir-policy/src/lints/classic_marks", "the dropper that serves L4S, as the cure"),
    ("weir-policy/src/translate", "in one scheduler the smaller priority is first"),
    ("weir-tcp/", "in TCP, PRR is proportional rate reduction"),
    ("weir-bench/", "a benchmark says which algorithms it measures"),
    ("weir-lab/", "an experiment says which algorithms it compares"),
    ("fuzz/", "a fuzz target's corpus and policies name them"),
    ("xtask/", "the table of ordinary words above"),
];
