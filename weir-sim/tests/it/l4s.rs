//! L4S end to end: a sender of marks beside one of drops, in the two queues of a leaf.

use crate::common;

use common::{run, written};
use weir_core::units::Duration;

const EXAMPLE: &str = include_str!("../../../examples/sim/l4s.toml");
/// The way behind the line, and a packet on it.
const WAY: Duration = Duration::from_micros(5_000 + 303);

#[test]
fn prague_and_cubic_share_a_line_and_prague_does_not_wait() {
    for rules in ["rfc9332", "linux"] {
        let queue = format!("dropper = \"dualpi2\", rules = \"{rules}\"");
        let text = EXAMPLE.replace("dropper = \"dualpi2\"", &queue);
        let report = run(&written(&text));
        let [prague, cubic] =
            ["prague", "cubic"].map(|name| report.source(name).expect("it is declared"));
        assert!(report.link.utilisation >= 0.95, "{rules}\n{report}");
        let ratio = prague.goodput_bps as f64 / cubic.goodput_bps as f64;
        assert!((0.5..=2.0).contains(&ratio), "{rules}: {ratio}\n{report}");
        let waits = Duration::from_nanos(prague.delay.p99.as_nanos() - WAY.as_nanos());
        assert!(waits <= Duration::from_millis(2), "{rules}: {waits:?}\n{report}");
        assert!(cubic.delay.p50 > prague.delay.p99, "{rules}\n{report}");
        assert_eq!(prague.lost.packets, 0, "{rules}\n{report}");
    }
}
