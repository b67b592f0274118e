//! The keys of deployments.

use super::alarm::ALARMS_MAX;
use super::circuits::{ATTRIBUTES, CLIENTS_MAX};
use super::ports::PORT_KINDS;
use super::rsvp::{EXCESSES, INTERFACES_MAX, SESSIONS_MAX};
use super::service::{EXITS, FOREVER, NONE, PRIORITIES, RESTARTS};
use super::{CARRIERS, NICE_DEFAULT, NICE_MAX, SUPER_PACKETS, WAITS};
use crate::keys::{ANY, Key, Keys, MANY, MUST, NAMES, RATE, SHARE, Values, key, words};
use weir_autorate::controller::CONTROLLERS;
use weir_autorate::{REFLECTORS_MAX, REFLECTORS_MIN};
use weir_core::units::{Bytes, Duration};

/// The file.
pub const FILE: Keys = &[&[
    key("deployment", Values::Table(DEPLOYMENT), MUST, ""),
    key("direction", Values::Named(&Values::Table(DIRECTION), 0, DIRECTIONS_MAX), "", ""),
]];

/// `[deployment]`.
pub const DEPLOYMENT: Keys = &[LINKS, SERVICE, TABLES];

/// The keys of `[deployment]` about its links.
const LINKS: &[Key] = &[
    key("name", Values::Text, "the name of the file", "The name in `weir status`."),
    key(
        "ports",
        Values::Either(&[Values::Named(&PORT_OR_INTERFACE, 2, PORTS_MAX), Values::Table(HOST)]),
        MUST,
        "Names for rules and directions, each with its Linux interface or a table; 2 to 8 a \
         bridge, at most 64. Or `host` alone: the traffic of this machine, whose directions join \
         `host` and `wire`.",
    ),
    key(
        "wait",
        Values::Words(&words::<_, { WAITS.len() }>(WAITS)),
        "hybrid",
        "Until when the loop sleeps: shortly before a deadline, or the deadline, or not at all.",
    ),
    key("cpu", CPU, SYSTEM, "The processor to run on, for one bridge."),
    key(
        "cpus",
        Values::List(&CPU, 0, MANY),
        SYSTEM,
        "The processors to run on: one a bridge, in the order of the bridges' first ports.",
    ),
    key(
        "workers",
        Values::WordOr(AUTO, &Values::Number(1, WORKERS_MAX)),
        "1",
        "How many threads receive and send frames for each bridge. With 1 its loop does that as \
         well; with more each port is given to one of them, and the loop keeps the decisions, \
         which stay the same. Where there are more than ports, each port has an equal part of them, \
         the first ports one more if some are left, and its flows are spread over these: of a port of \
         AF_XDP sockets its receive queues, where it has as many. A host's end, and one with `delay` \
         or `loss`, have one. `auto` takes one processor for the loop and the others for workers, up \
         to 8.",
    ),
    key(
        "nice",
        Values::Integer(NICE_DEFAULT as i64, NICE_MAX),
        "-20 if the process may",
        "The niceness of the bridges' threads; lower runs first.",
    ),
    key("control", Values::Text, "made from the name", "The socket for `weir status`."),
    // Below a millisecond the loop's own wake-ups would count as stalls.
    key(
        "lag_max",
        Values::Time(Duration::from_millis(1), TEN_SECONDS),
        "100 ms",
        "A longer stall is not made up for.",
    ),
    // With MTU 1500 the default takes up to 16 MiB.
    key(
        "pool",
        POOL,
        "8192 packets",
        "Frames that each direction holds, unless it says otherwise.",
    ),
    // 7 ms at 300 000 frames a second by default; at most 128 MiB for each port with MTU 1500.
    key(
        "receive_ring",
        Values::Packets(256, 1 << 16),
        "2048 packets",
        "Frames that the first receive ring of each port holds, rounded up to a power of two; a \
         link that waits longer for its processor loses frames there.",
    ),
    key("sojourn_max", SOJOURN, BOUNDED, "As in a direction, for all that do not write it."),
    key(
        "super_packets",
        Values::Words(&words::<_, { SUPER_PACKETS.len() }>(SUPER_PACKETS)),
        "cut",
        "Whether the frames of a TCP super-packet are decided one by one, or pass as one packet; \
         with `auto` they do where that takes less than a millisecond at the class's rate.",
    ),
    key(
        "carrier",
        Values::Words(&words::<_, { CARRIERS.len() }>(CARRIERS)),
        "keep",
        "What the other ports of a bridge do when one loses its carrier: keep theirs, or lose it \
         too.",
    ),
    key(
        "take",
        Values::Flag,
        "false",
        "Takes interfaces that have addresses or routes, which then stop working.",
    ),
];

/// The keys of `[deployment]` about its processes.
const SERVICE: &[Key] = &[
    key(
        "on_exit",
        Values::Words(&words::<_, { EXITS.len() }>(EXITS)),
        "closed; open with `host`",
        "What becomes of traffic while the process that forwards is dead: nothing passes, or the \
         kernel carries it on, unshaped, from a few milliseconds after the death. A stop that you \
         ask for ends the traffic all the same. `open` takes Linux 6.6 and root.",
    ),
    key(
        "drain",
        Values::Time(Duration::ZERO, TEN_SECONDS),
        "200 ms",
        "How long what waits is still sent when Weir is to end or starts anew; the rest is dropped \
         and counted.",
    ),
    key(
        "restart",
        Values::Words(&words::<_, { RESTARTS.len() }>(RESTARTS)),
        "always",
        "Whether a forwarder that died is started again.",
    ),
    key(
        "wait_for_ports",
        Values::WordOr(FOREVER, &Values::Time(Duration::ZERO, Duration::from_secs(24 * 3600))),
        "0 s",
        "How long interfaces that do not exist yet are waited for at the start.",
    ),
    // A shorter one would kill a forwarder on a busy machine.
    key(
        "watchdog",
        Values::WordOr(NONE, &Values::Time(Duration::from_millis(200), Duration::from_secs(60))),
        "2 s",
        "A forwarder that gives no sign of life for so long is killed, as if it had died.",
    ),
    key(
        "user",
        ACCOUNT,
        "a number of the link's own",
        "The user as which the forwarder runs, where Weir was started by root. Unless it is \
         written, it is a number above 1 879 048 192 that belongs to no other program.",
    ),
    key(
        "control_group",
        ACCOUNT,
        "none",
        "A group whose members may use `weir status`, beside root and the user who runs Weir.",
    ),
    key(
        "priority",
        Values::Words(&words::<_, { PRIORITIES.len() }>(PRIORITIES)),
        "normal",
        "The scheduling class of the threads that forward: that of other programs, with `nice`, or \
         one before all of them.",
    ),
    key(
        "log",
        Values::Text,
        "none",
        "A file to which events are appended, too; relative to the folder of the deployment.",
    ),
    // The smallest ring is in segments of this size, of which a loop has eight.
    key(
        "ring",
        Values::Size(Bytes::new(8 << 20), Bytes::new(4 << 30)),
        "nothing; 64 MiB with `web`",
        "How much is kept of what the link did of late, for `weir record --last`; in memory.",
    ),
];

/// The tables within `[deployment]`, and the page.
const TABLES: &[Key] = &[
    key(
        "alarm",
        Values::Named(&Values::Table(ALARM), 0, ALARMS_MAX),
        "none",
        "Tables `[deployment.alarm.NAME]`, see below.",
    ),
    key("api", Values::Table(API), "none", "A table `[deployment.api]`, see below."),
    key(
        "web",
        LISTEN,
        "none",
        "The address of a page that shows the link in a browser and tunes it (`weir view NAME` \
         says how to open it). Tokens and certificate are those of `[deployment.api]`, if there is \
         one; without a certificate only this machine reaches it.",
    ),
    key("rsvp", Values::Table(RSVP), "none", "A table `[deployment.rsvp]`, see below."),
    key("circuits", Values::Table(CIRCUITS), "none", "A table `[deployment.circuits]`, see below."),
];

/// A port that is a table.
pub const PORT: Keys = &[&[
    key("interface", Values::Interface, MUST, "The Linux interface."),
    key(
        "kind",
        Values::Words(PORT_KINDS),
        PORT_KINDS[0],
        "How frames are exchanged with it. `auto` takes `afxdp` for a network card with one \
         receive queue where that works, else `afpacket`; with `host` there is no other.",
    ),
    // Beyond the longest path that any experiment needs; ten seconds of a busy line are many
    // frames.
    key(
        "delay",
        Values::Time(Duration::ZERO, TEN_SECONDS),
        "0 s",
        "How much later each frame leaves by it. At most 32 768 frames wait for that; further ones \
         are lost as `busy port`.",
    ),
    key("loss", SHARE, "0 %", "The part of the frames that are lost instead of leaving."),
    // TOML's integers have 63 bits.
    key(
        "seed",
        Values::Number(0, i64::MAX as u64),
        "its number among the ports",
        "The seed of the random numbers that choose lost frames.",
    ),
]];
/// `ports` of host egress.
const HOST: Keys = &[&[key("host", PORT_OR_INTERFACE, MUST, "")]];

/// `[direction.NAME]`.
pub const DIRECTION: Keys = &[&[
    key(
        "from",
        NAMES,
        MUST,
        "The port where frames come in, or several whose frames share the policy.",
    ),
    key("to", Values::Text, MUST, "The port where frames leave; another one."),
    key("policy", Values::Text, MUST, "The file of the policy, relative to this one."),
    key("pool", POOL, "that of `[deployment]`", "Frames that the direction holds."),
    key(
        "sojourn_max",
        SOJOURN,
        BOUNDED,
        "After a stall, packets that waited longer are dropped as stale; `none`: no packet is.",
    ),
    key(
        "restore_dscp",
        Values::Flag,
        "false",
        "Whether frames get the code point that the first frame of their connection had which went \
         the other way, before rules and queues see them: the download that of the upload.",
    ),
    key(
        "autorate",
        Values::Table(AUTORATE),
        "none",
        "A table `[direction.NAME.autorate]`, see below.",
    ),
]];

/// `[direction.NAME.autorate]`.
pub const AUTORATE: Keys = &[&[
    key("min", RATE, MUST, "The least rate: what the line carries at its worst."),
    key("base", RATE, MUST, "The rate at the start, and while nothing passes that tells."),
    key("max", RATE, MUST, "The largest rate: what the line carries at its best."),
    key(
        "target",
        Values::Time(Duration::from_millis(1), Duration::from_secs(1)),
        "15 ms",
        "How long frames may wait in the modem.",
    ),
    key(
        "controller",
        Values::Words(&CONTROLLER_NAMES),
        CONTROLLER_NAMES[0],
        "The rule by which the rate follows what is measured.",
    ),
    key(
        "modem",
        Values::Text,
        "where a direction ends whose name begins with `up`, and where one begins whose name \
         begins with `down`; with `host` it is `wire`",
        "The port behind which the modem is: the one where the direction ends, or the only one \
         where it begins.",
    ),
    key(
        "probes",
        Values::List(&Values::Ip, REFLECTORS_MIN, REFLECTORS_MAX),
        "none",
        "Hosts behind the modem, by IPv4 or IPv6, that are pinged while the line is loaded and \
         nothing that passes tells. The pings must pass this link on their way, as those of a \
         machine behind it do.",
    ),
]];

/// The names of the controllers of `weir_autorate`, in the order of its registry.
const CONTROLLER_NAMES: [&str; CONTROLLERS.len()] = {
    let mut names = [""; CONTROLLERS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = CONTROLLERS[at].name;
        at += 1;
    }
    names
};

/// `[deployment.alarm.NAME]`.
pub const ALARM: Keys = &[&[
    key(
        "when",
        Values::Form("", "voice.delay.p99 > 10 ms"),
        MUST,
        "The trouble, in the words of a promise; what the class did is measured second by second.",
    ),
    key("direction", Values::Text, "each that has the class", "Where the class is watched."),
    // Conditions are measured second by second.
    key(
        "for",
        Values::Time(Duration::from_secs(1), HOUR),
        "10 s",
        "How long the condition holds before the alarm is raised.",
    ),
    key(
        "run",
        Values::List(&ANY, 1, WORDS_MAX),
        "none",
        "A program, with its whole path, and its arguments, to run.",
    ),
    key(
        "webhook",
        Values::Form("^http://[!-~]+$", "http://192.0.2.1/alarm"),
        "none",
        "An address that is told by a POST.",
    ),
]];

/// `[deployment.api]`.
pub const API: Keys = &[&[
    key(
        "listen",
        LISTEN,
        MUST,
        "The address and port. One that others can reach takes a certificate.",
    ),
    key(
        "token_file",
        Values::Text,
        MUST,
        "A file with the token that allows everything, of at least 32 characters; others may not \
         read it. Relative to the folder of the deployment, as the other files.",
    ),
    key("read_token_file", Values::Text, "none", "A file with a token that only allows to read."),
    key(
        "certificate",
        Values::Text,
        "none",
        "A file with the certificate, and those of its issuers, in PEM. With it, clients use TLS \
         1.3.",
    ),
    key("key", Values::Text, "none", "A file with the certificate's key in PEM."),
    key(
        "hosts",
        Values::List(&Values::Form("^[A-Za-z0-9.-]+$", ""), 0, MANY),
        "none",
        "Names by which clients may call it, beside its address and `localhost`.",
    ),
]];

/// `[deployment.rsvp]`.
pub const RSVP: Keys = &[&[
    key(
        "class",
        Values::Text,
        MUST,
        "The class whose `places` reservations take, with its `rate` for all of them.",
    ),
    key(
        "direction",
        Values::Text,
        "the first that ends at `wire`, or the only one of a bridge",
        "The direction whose policy has the class. On a bridge it begins at all ports but the one \
         where it ends.",
    ),
    key(
        "excess",
        Values::Words(&words::<_, { EXCESSES.len() }>(EXCESSES)),
        "best-effort",
        "What packets beyond a reservation get: what is free, or nothing. For `police` the class \
         gets its rate and no more, and its queue holds one burst.",
    ),
    key(
        "delay",
        Values::Time(Duration::from_micros(1), TEN_SECONDS),
        "what a reservation alone gets",
        "The term D: how much later than in a pipe of its rate a packet may leave, beside C/R. \
         What breaks it for a guaranteed reservation is refused.",
    ),
    key(
        "neighbour",
        Values::Table(NEIGHBOUR),
        "no limit",
        "What the reservations that one next hop asks for may have.",
    ),
    key(
        "preemption",
        Values::Flag,
        "false",
        "Whether a reservation takes the place of others that defend themselves with a lower \
         priority.",
    ),
    // [rfc2205 §3.7] The default. The most that the object TIME_VALUES should say is an hour; below
    // a tenth of a second refreshes are most of what is sent.
    key(
        "refresh",
        Values::Time(Duration::from_millis(100), HOUR),
        "30 s",
        "How often neighbours are told anew.",
    ),
    key(
        "reduction",
        Values::Flag,
        "false",
        "Whether all neighbours understand message identifiers and summary refreshes.",
    ),
    key("sessions", SESSIONS, "65536", "The most sessions."),
    key(
        "interfaces",
        Values::List(&Values::Interface, 1, INTERFACES_MAX),
        "all that have an address",
        "The interfaces by which RSVP is spoken.",
    ),
    key(
        "key_file",
        Values::Text,
        "none: messages are not signed",
        "A file with the keys that sign messages, which others may not read. Relative to the \
         folder of the deployment.",
    ),
    key(
        "address",
        Values::Ipv4,
        "none: `host` has its own",
        "On a bridge, and only there: its IPv4 address as a hop of RSVP. One of the network that \
         is bridged, which nothing else has.",
    ),
]];

/// `[deployment.circuits]`.
pub const CIRCUITS: Keys = &[&[
    key(
        "from",
        Values::Text,
        MUST,
        "Where circuits are heard of: a file that ends in `.csv`, relative to the folder of the \
         deployment and watched; `http`, the API; or `radius`, RADIUS accounting.",
    ),
    key(
        "template",
        Values::Text,
        "circuit",
        "The template with `circuits = true` of the policies that shape them.",
    ),
    key(
        "expire",
        Values::Time(Duration::from_secs(1), WEEK),
        "none: a circuit stays until it leaves",
        "After this time without news of it a circuit leaves, with `http` and `radius`.",
    ),
    key("listen", LISTEN_RADIUS, "must be written with `radius`", "The UDP address and port."),
    key(
        "clients",
        Values::List(&Values::Text, 1, CLIENTS_MAX),
        "must be written with `radius`",
        "The addresses from which packets of RADIUS are taken.",
    ),
    key(
        "secret_file",
        Values::Text,
        "must be written with `radius`",
        "A file with the secret that the clients share, which others may not read. Relative to \
         the folder of the deployment.",
    ),
    key("id", ATTRIBUTE, "User-Name", "The attribute of RADIUS that identifies a circuit."),
    key("plan", ATTRIBUTE, "Filter-Id", "The attribute that names its plan."),
    key("site", ATTRIBUTE, "NAS-Identifier", "The attribute that names its site."),
]];

/// `neighbour` of `[deployment.rsvp]`.
pub const NEIGHBOUR: Keys = &[&[
    key("rate", RATE, "no limit", "Their rates together."),
    key("count", SESSIONS, "no limit", "Their number."),
]];

const PORT_OR_INTERFACE: Values = Values::Either(&[Values::Interface, Values::Table(PORT)]);
const POOL: Values = Values::Packets(64, POOL_MAX);
/// Bound: frames that `pool` may say, two gigabytes; a deployment with more is refused.
pub(super) const POOL_MAX: u32 = 1 << 20;
/// Less would drop what waits in an ordinary queue.
const SOJOURN: Values = Values::WordOr(NONE, &Values::Time(Duration::from_millis(10), HOUR));
const BOUNDED: &str = "what the policy bounds, at least 1 s";
/// The word by which the processors decide how many workers there are.
pub const AUTO: &str = "auto";
/// Bound: threads that receive and send for one bridge; one with more is refused, as it has no
/// more ports.
const WORKERS_MAX: u64 = 8;
const CPU: Values = Values::Number(0, 4095);
const SYSTEM: &str = "the system's choice";
/// A name that useradd(8) and groupadd(8) allow.
const ACCOUNT: Values = Values::Form("^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,31}$", "");
const LISTEN: Values = Values::Form("", "127.0.0.1:8480");
const LISTEN_RADIUS: Values = Values::Form("", "192.0.2.1:1813");
const ATTRIBUTE: Values = Values::Words(&words::<_, { ATTRIBUTES.len() }>(ATTRIBUTES));
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const SESSIONS: Values = Values::Number(1, SESSIONS_MAX as u64);
const TEN_SECONDS: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);
/// Bound: ports of a deployment, eight bridges of eight; one with more is refused.
pub(super) const PORTS_MAX: usize = 64;
/// Bound: directions of a deployment; one with more is refused. Every pair of eight ports has 56.
pub(super) const DIRECTIONS_MAX: usize = 64;
/// The words of a program and its arguments.
pub(super) const WORDS_MAX: usize = 64;
