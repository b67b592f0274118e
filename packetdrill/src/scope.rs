//! Says of a script why the model cannot replay it, and what it is about.
//!
//! The model is one side of one connection: no sockets beside it, no checksums, no routes. The
//! reasons are found before the replay, so that a script is not half judged. Invariant: a script
//! without a reason has only calls, options and commands that the driver takes.

use crate::defaults::{Effect, Sysctls};
use crate::expression;
use crate::script::{Action, Call, Event, Packet, Script, TcpOption, Time};
use std::path::Path;

/// Returns whether a script is about what the goal counts: the congestion window, the recovery of
/// losses, timers, acknowledgements and marks.
pub fn is_counted(path: &Path) -> bool {
    let path = path.to_string_lossy().to_lowercase();
    COUNTED.iter().any(|subject| path.contains(subject))
}

/// Parts of paths that tell a counted subject.
const COUNTED: [&str; 25] = [
    "cubic",
    "cwnd",
    "/ecn",
    "_ecn",
    "accecn",
    "fast_recovery",
    "fast_retransmit",
    "limited_transmit",
    "/sack",
    "_sack",
    "dsack",
    "slow_start",
    "rto",
    "tlp",
    "rack",
    "initial_window",
    "/undo",
    "frto",
    "early_retransmit",
    "receiver_rtt",
    "delack",
    "dctcp",
    "bbr",
    "reno",
    "idle_restart",
];

/// Returns why the model cannot replay this script, if it cannot; `knows` says whether the model
/// has a field of `tcp_info`.
pub fn obstacle(script: &Script, knows: &dyn Fn(&str) -> bool) -> Option<String> {
    if let Some(value) = script.option("ip_version") {
        return Some(format!("addresses: --ip_version={value}"));
    }
    let mut sysctls = Sysctls::default();
    let mut synchronised = 0;
    for event in &script.events {
        let reason = match &event.action {
            Action::Shell(command) => shell(&mut sysctls, command, event.time),
            Action::Code(code) => code_reason(code, knows),
            Action::Foreign(protocol) => Some(format!("{protocol}: only TCP is modelled")),
            Action::Call(call) => call_reason(call),
            Action::Inject(packet) => {
                synchronised += u32::from(packet.flags.syn && !packet.flags.ack);
                packet_reason(packet)
            }
            Action::Expect(packet) => packet_reason(packet),
        };
        if let Some(reason) = reason {
            return Some(format!("{reason} (line {})", event.line));
        }
    }
    if script.events.iter().any(has_ports) && synchronised > 1 {
        return Some("several connections at once".to_owned());
    }
    None
}

fn has_ports(event: &Event) -> bool {
    matches!(&event.action, Action::Inject(packet) | Action::Expect(packet) if packet.ports)
}

fn shell(sysctls: &mut Sysctls, command: &str, time: Time) -> Option<String> {
    sysctls.shell(command).into_iter().find_map(|effect| match effect {
        Effect::DropAll if time != Time::Untimed => {
            Some("a queue of the interface that drops everything".to_owned())
        }
        Effect::Unknown(command) if time != Time::Untimed || !is_cleanup(&command) => {
            Some(format!("the shell command `{}`", shorten(&command)))
        }
        _ => None,
    })
}

fn is_cleanup(command: &str) -> bool {
    command.starts_with("rm ")
}

fn shorten(text: &str) -> String {
    text.chars().take(48).collect()
}

fn code_reason(code: &str, knows: &dyn Fn(&str) -> bool) -> Option<String> {
    let unknown = expression::fields(code).into_iter().find(|field| !knows(field));
    unknown.map(|field| format!("the field {field} of tcp_info, which the model does not have"))
}

fn packet_reason(packet: &Packet) -> Option<String> {
    if let Some(what) = &packet.foreign {
        return Some(what.clone());
    }
    if packet.flags.syn && !packet.flags.ack && packet.seq != 0 {
        return Some("sequence numbers that packetdrill rewrites".to_owned());
    }
    if packet.flags.urg {
        return Some("the urgent pointer".to_owned());
    }
    packet.options.iter().flatten().find_map(|option| match option {
        TcpOption::Other(name) if name == "FO" || name == "FOEXP" => {
            Some("TCP Fast Open".to_owned())
        }
        TcpOption::Other(name) if name.starts_with("md5") => Some("MD5 signatures".to_owned()),
        TcpOption::Other(name) => Some(format!("the TCP option {name}")),
        _ => None,
    })
}

fn call_reason(call: &Call) -> Option<String> {
    let text = call.arguments.join(", ");
    let found = ELSEWHERE.iter().find(|(word, _)| text.contains(word));
    if let Some((_, reason)) = found {
        return Some((*reason).to_owned());
    }
    match call.name.as_str() {
        name if name.starts_with("epoll") || name == "poll" => {
            Some(format!("waiting for events of sockets: {name}"))
        }
        name if name.starts_with("psp") => Some("PSP encryption".to_owned()),
        name if CALLS.contains(&name) => bad_call(call),
        name => Some(format!("the system call {name}")),
    }
}

/// Returns the reason for a call whose failure is about sockets, not about TCP.
fn bad_call(call: &Call) -> Option<String> {
    let error = call.error.as_deref()?;
    let is_ours = ["EINPROGRESS", "EAGAIN", "EALREADY", "EPIPE", "EWOULDBLOCK"].contains(&error);
    (!is_ours).then(|| format!("the error {error} of {}", call.name))
}

/// The calls that the driver takes.
const CALLS: [&str; 19] = [
    "socket",
    "setsockopt",
    "getsockopt",
    "bind",
    "listen",
    "accept",
    "connect",
    "write",
    "send",
    "sendto",
    "sendmsg",
    "read",
    "recv",
    "recvfrom",
    "recvmsg",
    "shutdown",
    "close",
    "fcntl",
    "writev",
];

/// The features of calls that are not modelled, by a word of their arguments.
const ELSEWHERE: [(&str, &str); 19] = [
    ("FASTOPEN", "TCP Fast Open"),
    ("ZEROCOPY", "zero copy"),
    ("TIMESTAMPING", "timestamps of sockets"),
    ("ERRQUEUE", "the error queue of sockets"),
    ("msg_control", "control messages of sockets"),
    ("MSG_MORE", "corked writes (MSG_MORE)"),
    ("MSG_EOR", "records of sockets (MSG_EOR)"),
    ("TCP_MD5SIG", "MD5 signatures"),
    ("USER_TIMEOUT", "the user timeout of sockets"),
    ("NOTSENT_LOWAT", "wake-ups of sockets (TCP_NOTSENT_LOWAT)"),
    ("TCP_INQ", "the queue length of sockets (TCP_INQ)"),
    ("SO_ERROR, [E", "errors of sockets"),
    ("MPTCP", "MPTCP"),
    ("TCP_ULP", "upper layer protocols"),
    ("SO_LINGER", "lingering sockets"),
    ("KEEPALIVE", "keep-alive probes"),
    ("SO_MARK", "marks of sockets"),
    ("IP_FREEBIND", "addresses"),
    ("MSG_PEEK", "peeking"),
];
