//! The keys of a source over QUIC: those of TCP that mean the same there.

use super::codes;
use super::source::{bounded, mtu, read_or};
use super::tcp::{contents, initial_window, optional, window_from};
use crate::scenario::{Mtu, Quic, QuicCongestion};
use weir_core::units::{Bytes, Duration};
use weir_policy::codes as common;
use weir_policy::finding::Report;
use weir_policy::reader::{Node, Table};

/// Reads a source of `kind = "quic"`.
pub(super) fn read(
    table: &mut Table<'_>,
    mtu_there: Option<Mtu>,
    report: &mut Report,
) -> Option<Quic> {
    let connection = connection(table, mtu_there, report);
    let (transfer, conversation) = contents(table, report)?;
    Some(Quic { transfer, conversation, ..connection? })
}

/// Reads the keys of every source over QUIC, whatever it transfers; `mtu_there` is the MTU of a
/// network's first link.
pub(crate) fn connection(
    table: &mut Table<'_>,
    mtu_there: Option<Mtu>,
    report: &mut Report,
) -> Option<Quic> {
    let own = Quic::default();
    let foreign = foreign(table, report);
    let congestion = congestion(table, report);
    let initial = optional(table, "initial_window", report, initial_window);
    let window =
        optional(table, "window", report, |node, report| window_from(WINDOW_MIN, node, report));
    let ack_delay = optional(table, "ack_delay", report, ack_delay);
    let ecn = table
        .field("ecn")
        .map_or(Some(false), |node| node.one_of(&[("off", false), ("classic", true)], report));
    let mtu = read_or(table.field("mtu"), mtu_there.unwrap_or(own.mtu), report, mtu);
    // In a network acknowledgements travel as packets do.
    let return_delay = match mtu_there {
        None => table.value_by("return_delay", report, bounded),
        Some(_) => Some(Duration::ZERO),
    };
    foreign?;
    Some(Quic {
        congestion: congestion?,
        initial_window: initial?.unwrap_or(own.initial_window),
        window: window?.unwrap_or(own.window),
        ack_delay: ack_delay?.unwrap_or(own.ack_delay),
        ecn: ecn?,
        mtu: mtu?,
        transfer: None,
        conversation: None,
        return_delay: return_delay?,
    })
}

/// Keys that only TCP has are findings.
fn foreign(table: &mut Table<'_>, report: &mut Report) -> Option<()> {
    let mut sound = Some(());
    for key in TCP_ONLY {
        // A key that is not asked for is none of those that findings list as known.
        let written = table.has(key).then(|| table.foreign(key));
        let Some(node) = written.flatten() else { continue };
        let cure = "take it out, or send over TCP";
        report.push(node.draft(&codes::NEEDLESS, "means nothing over QUIC").cure(cure));
        sound = None;
    }
    sound
}

fn congestion(table: &mut Table<'_>, report: &mut Report) -> Option<QuicCongestion> {
    let Some(node) = table.field("congestion") else { return Some(Quic::default().congestion) };
    match node.choice(&["cubic", "reno", "bbr"], report)? {
        "cubic" => Some(QuicCongestion::Cubic),
        "reno" => Some(QuicCongestion::Reno),
        // Its probes for bandwidth begin at random, with numbers that no caller can seed.
        _ => {
            let message = "one seed would not be one run: quinn's BBR draws from the system";
            let cure = "write `cubic` or `reno`, or send over TCP, which has a `bbr` of its own";
            report.push(node.draft(&codes::EXCLUSIVE, message).cure(cure));
            None
        }
    }
}

/// The longest wait of an acknowledgement: none, or one within the range that a frame of QUIC has.
fn ack_delay(node: &Node<'_>, report: &mut Report) -> Option<Option<Duration>> {
    let delay = bounded(node, report)?;
    let most = Duration::from_millis(ACK_DELAY_MAX_MS);
    if delay == Duration::ZERO || (ACK_DELAY_MIN..=most).contains(&delay) {
        return Some(Some(delay));
    }
    let message = format!("{delay} is neither 0 s nor in {ACK_DELAY_MIN} to {most}");
    let cure = "write a time such as `25 ms`";
    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    None
}

const TCP_ONLY: [&str; 12] = [
    "profile",
    "hystart",
    "slow_start",
    "pacing",
    "nagle",
    "idle_restart",
    "sack",
    "rto_min",
    "window_max",
    "mss",
    "quick_acks",
    "timestamps",
];
/// quinn tells of new room once it is an eighth of the window: of less than 8 bytes that is
/// nothing, and both hosts would tell without end.
const WINDOW_MIN: Bytes = Bytes::new(8);
/// The granularity of quinn's timers.
const ACK_DELAY_MIN: Duration = Duration::from_millis(1);
/// [rfc9000 §18.2]
const ACK_DELAY_MAX_MS: u64 = (1 << 14) - 1;
