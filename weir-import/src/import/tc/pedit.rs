//! Reads the actions of a filter that rewrite a DSCP, as `tc` writes them [linux act_pedit,
//! act_csum].

use super::super::lines::Reading;
use super::super::words::{Word, Words};
use super::draft::Draft;
use super::units::base0;
use weir_core::packet::Dscp;

/// Reads `pedit [ex] munge ip dsfield set V [retain M] [pipe]`, behind `pedit`.
pub(super) fn read(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    words.accept("ex");
    let names = |words: &mut Words, reading: &mut Reading| -> Option<[Word; 4]> {
        let mut next = || words.need(A_FIELD, reading);
        Some([next()?, next()?, next()?, next()?])
    };
    let found = names(words, reading)?;
    let [munge, layer, field, set] = found.each_ref().map(|word| word.text.as_str());
    let is_dscp = FIELDS.contains(&(layer, field));
    if munge != "munge" || set != "set" || !is_dscp {
        let shown: Vec<_> = [munge, layer, field, set].map(cut).into();
        let note = format!(
            "Weir sets no other field of a packet than the DSCP, not `{}`",
            shown.join(" ")
        );
        reading.lost(draft.line, note);
        return None;
    }
    let byte = |text: &str| base0(text, u32::MAX).and_then(|number| u8::try_from(number).ok());
    let value = words.value("a byte such as 0xb8", byte, reading)?;
    let retained = match words.accept("retain") {
        true => words.value("a mask such as 0xfc", byte, reading)?,
        false => u8::MAX,
    };
    match retained {
        DSCP => {}
        u8::MAX => reading.approximated(draft.line, "the ECN field of packets stays as it is"),
        _ => {
            reading.lost(draft.line, "Weir sets the DSCP, and no part of it");
            return None;
        }
    }
    draft.set_dscp = Some(Dscp::of_traffic_class(value & DSCP));
    control(words, reading)
}

/// Reads `csum ip4h and udp [pipe]`, behind `csum`: checksums are always right here.
pub(super) fn checksums(words: &mut Words, reading: &mut Reading) -> Option<()> {
    while words.peek().is_some_and(|word| SUMS.contains(&word)) {
        words.take();
    }
    control(words, reading)
}

/// Reads what follows an action; nothing that would leave the filter.
fn control(words: &mut Words, reading: &mut Reading) -> Option<()> {
    match words.peek() {
        Some("pipe" | "ok" | "pass") => words.take().map(drop),
        Some("continue" | "drop" | "shot" | "reclassify" | "goto") => {
            let word = words.take()?;
            reading.unknown((&word.text, word.span), "word behind this action", &["pipe", "ok"]);
            None
        }
        _ => Some(()),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(20).collect()
}

const A_FIELD: &str = "a field to set such as `munge ip dsfield set 0xb8 retain 0xfc`";
const FIELDS: [(&str, &str); 4] =
    [("ip", "dsfield"), ("ip", "tos"), ("ip6", "traffic_class"), ("ip6", "dsfield")];
/// The bits of a traffic class that are the DSCP.
const DSCP: u8 = 0xfc;
const SUMS: [&str; 12] =
    ["ip4h", "ip", "iph", "icmp", "igmp", "tcp", "udp", "udplite", "sctp", "and", "or", "+"];
