//! Fragments that leave their class [risso99 §7.1]: only the first fragment of a datagram has
//! ports, so the others go where packets without ports go.

use super::Subject;
use crate::codes::{Code, Severity};
use crate::finding::{Draft, Fix, Report};
use weir_core::classify::FragmentPolicy;

pub(super) static CODE: Code = Code {
    id: "W141",
    severity: Severity::Warning,
    title: "fragments that leave their class",
    source: Some("risso99 §7.1"),
};

/// Reports rules for ports if fragments are each matched alone.
pub(super) fn check(subject: &Subject<'_, '_>, report: &mut Report) {
    let alone =
        matches!(subject.search.fragments, FragmentPolicy::EachAlone | FragmentPolicy::AltqBroken);
    let by_ports = subject.rules.iter().filter(|rule| rule.matches.needs_ports()).count();
    if !alone || by_ports == 0 {
        return;
    }
    // Links before this one may have cut it smaller than this one needs.
    let mtu = subject.plan.tree.mtu().get().clamp(1, ETHERNET);
    let largest = 65_535_u64.div_ceil(mtu);
    let rules = if by_ports == 1 { "1 rule tests" } else { &format!("{by_ports} rules test") };
    let message = format!(
        "{rules} ports, which only the first fragment of a datagram has: of the longest datagram \
         {} fragments of {largest} go to another class",
        largest - 1
    );
    let span = subject.link.fragments_span.unwrap_or(subject.link.span);
    let cure = "remove `fragments`, so that they follow the first";
    let fix = Fix::set(&["link", "fragments"], "");
    report.push(Draft::new(&CODE, span, message).cure(cure).fix([fix]));
}

/// The largest frame of most links.
const ETHERNET: u64 = 1514;

/// The trap, and its cure.
pub(super) const TRAP: super::Trap = super::Trap {
    policy: r#"[link]
rate = "10 Mbit/s"
scheduler = "drr"
fragments = "none"

[class.a]
match = { proto = "udp", dport = "5004-5010" }

[class.b]
default = true
"#,
    replace: r#"fragments = "none""#,
    by: r#"fragments = "cache""#,
};
