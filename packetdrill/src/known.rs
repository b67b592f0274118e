//! Why scripts fail, a sentence each.
//!
//! Invariant: a sentence says what differs and why it stays, not that it will be mended.

/// The scripts that fail, by the end of their path, and why.
pub const SENTENCES: [(&str, &str); 4] = [
    (
        "cwnd-moderation-ecn-enter-cwr-no-moderation-700.pkt",
        "The script is older than the extra segment for an acknowledgement without losses: \
         `tcp_cwnd_reduction` of 6.12 computes 3 in flight + min(4, 1 + 1) = 5, as the model does.",
    ),
    (
        "cubic/cubic-bulk-166k.pkt",
        "HyStart ends slow start at the ninth sample of a round. The script has that at a window of \
         48, so its round began at acknowledgement 12; in the model, and by the source of 6.12, it \
         begins at acknowledgement 6, which makes 36. What held the kernel's sender back is not known.",
    ),
    ("cubic/cubic-bulk-166k-idle-restart.pkt", "The same as of cubic-bulk-166k."),
    (
        "ts_recent/invalid_ack.pkt",
        "An acknowledgement of what was never sent is answered by the model, as RFC 9293 says; Linux \
         drops it in silence.",
    ),
];
