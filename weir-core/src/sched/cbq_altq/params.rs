//! The parameters of ALTQ's CBQ, its presets and switches, and the parsed parameters of a class
//! [algorithms §3.1-3.2].

use super::spec::{Limits, Wishes, Written};
use crate::ids::ClassId;
use crate::parameter::{BuildError, Kind, Parameter, Params, Scope};
use crate::sched::Tree;
use crate::units::Dimension;
use alloc::format;

/// How permitted classes of one priority take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum General {
    /// Weighted round robin by bytes.
    Wrr,
    /// A packet a turn.
    Prr,
    /// Deficit round robin, as in a comparison with proportional delay `[nieminen]`.
    Drr,
}

/// The correction when the estimated end of transmission runs too far ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cap {
    /// The estimate stays.
    Never,
    /// It is capped at now plus the most that it may run ahead.
    Clamp,
    /// The estimate becomes now.
    Reset,
}

/// The points in which ALTQ's states differ, and how the link is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Switches {
    /// Suspension counts from the estimated end of transmission instead of from now.
    pub undertime_from_end: bool,
    pub cap: Cap,
    pub minidle_scaled: bool,
    pub wake_clears_undertime: bool,
    pub overtime_correction: bool,
    /// The lender's cutoff ends when at most this many packets are left in the class.
    pub depart_packets: u32,
    /// The offtime replaces the time of a packet, to which it was added before 2.0.
    pub offtime_replaces: bool,
    /// The driver is called every ten ticks.
    pub watchdog: bool,
    /// Each call of the driver takes one packet, and none is taken without a call.
    pub one_packet_a_call: bool,
    /// Estimators run when a packet has left the wire, not when it is taken.
    pub at_completion: bool,
    pub tv_negative_slip: bool,
    pub forgives_debt: bool,
    pub counts_interior: bool,
    pub efficient: bool,
    /// The rule of top-level link sharing that is left out, 1 to 4; 0 for none [risso99 §2.1].
    pub rule_left_out: u8,
    pub general: General,
    pub hz: i64,
}

impl Switches {
    /// Returns the preset, with the switches that are written on top of it.
    pub fn new(params: &Params) -> Self {
        let mut this = Self::preset(params.choice("preset").unwrap_or(PRESET_DEFAULT));
        let flag = |name, switch: &mut bool| *switch = params.flag(name).unwrap_or(*switch);
        flag("wake_clears_undertime", &mut this.wake_clears_undertime);
        flag("overtime_correction", &mut this.overtime_correction);
        flag("tv_negative_slip", &mut this.tv_negative_slip);
        flag("watchdog", &mut this.watchdog);
        flag("one_packet_a_call", &mut this.one_packet_a_call);
        flag("wrr_counts_interior", &mut this.counts_interior);
        flag("efficient", &mut this.efficient);
        if let Some(base) = params.choice("undertime_base") {
            this.undertime_from_end = base == "ifnow";
        }
        if let Some(scale) = params.choice("minidle_scale") {
            this.minidle_scaled = scale == "scaled";
        }
        this.forgives_debt = params.choice("wrr_debt") != Some("keep");
        this.at_completion = params.choice("update_at") == Some("tx-complete");
        this.cap = match params.choice("ifnow_cap") {
            Some("none") => Cap::Never,
            Some("clamp") => Cap::Clamp,
            Some("reset") => Cap::Reset,
            _ => this.cap,
        };
        this.rule_left_out = match params.choice("rule_left_out") {
            Some("first") => 1,
            Some("second") => 2,
            Some("third") => 3,
            Some("fourth") => 4,
            _ => 0,
        };
        this.general = match params.choice("general") {
            Some("prr") => General::Prr,
            Some("drr") => General::Drr,
            _ => General::Wrr,
        };
        if let Some(packets) = params.number("depart_rule") {
            this.depart_packets = packets.min(1) as u32;
        }
        this.hz = params.number("hz").unwrap_or(HZ_DEFAULT).clamp(1, HZ_MAX) as i64;
        this
    }

    /// [algorithms §3.1] Returns the state of ALTQ with this name; each is a change of `altq1`.
    fn preset(word: &str) -> Self {
        let altq1 = Self {
            undertime_from_end: true,
            cap: Cap::Clamp,
            minidle_scaled: false,
            wake_clears_undertime: false,
            overtime_correction: true,
            depart_packets: 1,
            offtime_replaces: false,
            watchdog: true,
            one_packet_a_call: false,
            at_completion: false,
            tv_negative_slip: false,
            forgives_debt: true,
            counts_interior: true,
            efficient: false,
            rule_left_out: 0,
            general: General::Wrr,
            hz: HZ_DEFAULT as i64,
        };
        let altq1r = Self { undertime_from_end: false, overtime_correction: false, ..altq1 };
        let altq2 =
            Self { minidle_scaled: true, depart_packets: 0, offtime_replaces: true, ..altq1r };
        match word {
            "altq0" => Self { cap: Cap::Never, ..altq1 },
            "altq1" => altq1,
            "altq1r" => altq1r,
            "altq2" => altq2,
            _ => Self { wake_clears_undertime: true, watchdog: false, ..altq2 },
        }
    }
}

/// The parsed parameters of a class.
pub(super) struct ClassPlan {
    pub rate: u64,
    pub limits: Limits,
    /// 0 to 7, larger first; the root is at 0.
    pub priority: u8,
    pub borrow: bool,
}

impl ClassPlan {
    /// Reads the class as written, under a root of `link` bit/s.
    pub fn new(tree: &Tree, id: ClassId, link: u64, scaled: bool) -> Result<Self, BuildError> {
        let class = tree.class(id);
        let Some(rate) = class.params.rate("rate") else {
            let message = format!(
                "class {}: it needs a `rate`, its share of the link; write the rate",
                class.name
            );
            return Err(BuildError::in_class(id, "rate", message));
        };
        let rate = rate.bits_per_second();
        if rate > link {
            let message = format!(
                "class {}: rate {rate} bit/s is above the {link} bit/s of the root; lower `rate` \
                 or raise the root's, or the link's where the policy has no root",
                class.name
            );
            return Err(BuildError::in_class(id, "rate", message));
        }
        let params = &class.params;
        let mtu = mtu(tree);
        let size = |name| params.bytes(name).map(|bytes| bytes.get().clamp(1, mtu));
        let packet_max = size("maxpacketsize").unwrap_or(mtu);
        let wishes = Wishes {
            link,
            rate,
            packet: size("packetsize").unwrap_or(average_default(mtu)).min(packet_max),
            packet_max,
            maxburst: params.number("maxburst").map(|packets| packets.clamp(1, BURST_MAX)),
            minburst: params.number("minburst").unwrap_or(MINBURST_DEFAULT).clamp(1, BURST_MAX),
        };
        let written = Written {
            maxidle: params.number("maxidle"),
            offtime: params.number("offtime"),
            minidle: params.number("minidle"),
        };
        let priority = params.number("priority").unwrap_or(PRIORITY_DEFAULT);
        Ok(Self {
            rate,
            limits: wishes.spec().with(written).limits(scaled),
            priority: priority.min(PRIORITY_MAX) as u8,
            borrow: params.flag("borrow").unwrap_or(false),
        })
    }

    /// Returns the root above several classes without a parent: the whole link.
    pub fn root(tree: &Tree, scaled: bool) -> Self {
        let link = tree.rate().bits_per_second();
        let mtu = mtu(tree);
        let wishes = Wishes {
            link,
            rate: link,
            packet: average_default(mtu),
            packet_max: mtu,
            maxburst: None,
            minburst: MINBURST_DEFAULT,
        };
        Self { rate: link, limits: wishes.spec().limits(scaled), priority: 0, borrow: false }
    }
}

/// Returns the largest packet, within bounds.
pub(super) fn mtu(tree: &Tree) -> u64 {
    tree.mtu().get().clamp(1, MTU_MAX)
}

/// [algorithms §3.2] Returns the MTU; above 2048 bytes its bit of value 2048 is cleared, where ALTQ
/// meant to round it down to 2048.
fn average_default(mtu: u64) -> u64 {
    if mtu > 2048 { mtu & !2048 } else { mtu }
}

/// The table of the descriptor.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "preset",
        scope: Scope::Link,
        kind: Kind::Choice(&["altq0", "altq1", "altq1r", "altq2", "altq3"]),
        default: Some(PRESET_DEFAULT),
        summary: "Which state of ALTQ; the switches below change one point of it each.",
    },
    Parameter {
        name: "general",
        scope: Scope::Link,
        kind: Kind::Choice(&["wrr", "prr", "drr"]),
        default: Some("wrr"),
        summary: "How classes of one priority take turns; ALTQ has no `drr`.",
    },
    Parameter {
        name: "efficient",
        scope: Scope::Link,
        kind: Kind::Flag,
        default: Some("false"),
        summary: "Let the first class that may borrow send when no class is permitted.",
    },
    Parameter {
        name: "hz",
        scope: Scope::Link,
        kind: Kind::Number(1, HZ_MAX),
        default: Some("100"),
        summary: "Ticks per second of the kernel's timer, on which suspended classes wake.",
    },
    Parameter {
        name: "update_at",
        scope: Scope::Link,
        kind: Kind::Choice(&["dequeue", "tx-complete"]),
        default: Some("dequeue"),
        summary: "When estimators run: ALTQ guesses at dequeue; CBQ's authors waited for the wire.",
    },
    Parameter {
        name: "undertime_base",
        scope: Scope::Link,
        kind: Kind::Choice(&["ifnow", "now"]),
        default: Some("by preset"),
        summary: "Suspension counts from the estimated end of transmission, or from now.",
    },
    Parameter {
        name: "ifnow_cap",
        scope: Scope::Link,
        kind: Kind::Choice(&["none", "clamp", "reset"]),
        default: Some("by preset"),
        summary: "What happens to the estimated end of transmission when it runs too far ahead.",
    },
    Parameter {
        name: "minidle_scale",
        scope: Scope::Link,
        kind: Kind::Choice(&["unscaled", "scaled"]),
        default: Some("by preset"),
        summary: "Whether the kernel scales the lower bound of the average idle time.",
    },
    Parameter {
        name: "wake_clears_undertime",
        scope: Scope::Link,
        kind: Kind::Flag,
        default: Some("by preset"),
        summary: "Whether a class that wakes is no longer overlimit.",
    },
    Parameter {
        name: "overtime_correction",
        scope: Scope::Link,
        kind: Kind::Flag,
        default: Some("by preset"),
        summary: "Count suspension from the end of transmission; before ALTQ 2.0 only.",
    },
    Parameter {
        name: "watchdog",
        scope: Scope::Link,
        kind: Kind::Flag,
        default: Some("by preset"),
        summary: "Call the driver every ten ticks while something waits; up to ALTQ 2.1.",
    },
    Parameter {
        name: "one_packet_a_call",
        scope: Scope::Link,
        kind: Kind::Flag,
        default: Some("false"),
        summary: "Send one packet for each arrival, departure and timer, as a corrected driver did.",
    },
    Parameter {
        name: "depart_rule",
        scope: Scope::Link,
        kind: Kind::Number(0, 1),
        default: Some("by preset"),
        summary: "The cutoff is recomputed when at most this many packets are left in a class.",
    },
    Parameter {
        name: "rule_left_out",
        scope: Scope::Link,
        kind: Kind::Choice(&["none", "first", "second", "third", "fourth"]),
        default: Some("none"),
        summary: "Leaves out one of the four rules that move the cutoff, to show what it does.",
    },
    Parameter {
        name: "tv_negative_slip",
        scope: Scope::Link,
        kind: Kind::Flag,
        default: Some("false"),
        summary: "Microseconds that become negative stay so; before ALTQ 2.0 only.",
    },
    Parameter {
        name: "wrr_debt",
        scope: Scope::Link,
        kind: Kind::Choice(&["forgive", "keep"]),
        default: Some("forgive"),
        summary: "Whether a class that is passed over loses the debt of an overdrawn turn.",
    },
    Parameter {
        name: "wrr_counts_interior",
        scope: Scope::Link,
        kind: Kind::Flag,
        default: Some("true"),
        summary: "Whether classes with children count when turns are weighted.",
    },
    Parameter {
        name: "rate",
        scope: Scope::Class,
        kind: Kind::Quantity(Dimension::Rate),
        default: None,
        summary: "What the class gets when it needs it; of the root, the bandwidth of ALTQ's interface.",
    },
    Parameter {
        name: "borrow",
        scope: Scope::Class,
        kind: Kind::Flag,
        default: Some("false"),
        summary: "Whether the class may use what its parent has left.",
    },
    Parameter {
        name: "priority",
        scope: Scope::Class,
        kind: Kind::Number(0, PRIORITY_MAX),
        default: Some("1"),
        summary: "The larger is served first; in a class with children it only shifts weights.",
    },
    Parameter {
        name: "maxburst",
        scope: Scope::Class,
        kind: Kind::Number(1, BURST_MAX),
        default: Some("16, or 4 if a packet of the class takes more than 10 ms"),
        summary: "Packets that the class may send at once after a pause.",
    },
    Parameter {
        name: "minburst",
        scope: Scope::Class,
        kind: Kind::Number(1, BURST_MAX),
        default: Some("2"),
        summary: "Packets that it sends at once in steady state; silently at most `maxburst`.",
    },
    Parameter {
        name: "packetsize",
        scope: Scope::Class,
        kind: Kind::Size(1, MTU_MAX),
        default: Some("the largest packet of the link"),
        summary: "The average packet that the estimator assumes.",
    },
    Parameter {
        name: "maxpacketsize",
        scope: Scope::Class,
        kind: Kind::Size(1, MTU_MAX),
        default: Some("the largest packet of the link"),
        summary: "The largest packet; sets the lower bound of the average idle time.",
    },
    Parameter {
        name: "maxidle",
        scope: Scope::Class,
        kind: Kind::Number(0, IDLE_MAX),
        default: Some("by `maxburst`"),
        summary: "The most that the average idle time grows to, as `altqd` tells the kernel: in \
                  1/32 µs at 1 Gbit/s, twice as long at half that rate.",
    },
    Parameter {
        name: "minidle",
        scope: Scope::Class,
        kind: Kind::Number(0, IDLE_MAX),
        default: Some("by `maxpacketsize`"),
        summary: "The least that it falls to, in the same unit, without its minus sign; `altq0` and `altq1` count µs.",
    },
    Parameter {
        name: "offtime",
        scope: Scope::Class,
        kind: Kind::Number(0, IDLE_MAX),
        default: Some("by `minburst`"),
        summary: "How long the class is suspended when it is overlimit, in the unit of `maxidle`.",
    },
];

/// The last state of ALTQ.
const PRESET_DEFAULT: &str = "altq3";
const HZ_DEFAULT: u64 = 100;
/// A tick of 100 µs.
const HZ_MAX: u64 = 10_000;
const PRIORITY_DEFAULT: u64 = 1;
/// ALTQ has eight priorities.
pub(super) const PRIORITY_MAX: u64 = 7;
const MINBURST_DEFAULT: u64 = 2;
/// The filter's gain to this power is still well above zero in double precision.
const BURST_MAX: u64 = 1000;
const MTU_MAX: u64 = 65_535;
/// The kernel keeps 32 bits with a sign.
const IDLE_MAX: u64 = i32::MAX as u64;
