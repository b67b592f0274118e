//! The events and the status of a host that announces or reserves: as sentences, and as values for
//! programs.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_rsvp::intserv::{Service, Tspec};
use weir_rsvp::receiver::{Wanted, rate_text};
use weir_rsvp::wire::{Cause, ErrorSpec, Filter, Reservation, Select, Session};

/// The state of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// No sender, or no reservation, is there yet.
    Waiting,
    /// A reservation is requested, and no answer came yet.
    Asked,
    /// The reservation is in force.
    Accepted {
        /// The node that says so; none on the sender's side.
        by: Option<IpAddr>,
    },
    /// A node refused it.
    Refused {
        /// The node that refused.
        by: IpAddr,
        /// The error code of RSVP.
        code: u8,
        /// The error value of RSVP.
        value: u16,
    },
    /// The path cannot give the requested service.
    Impossible {
        /// The reason, in words.
        why: String,
    },
}

/// Which side of the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It announces the flow.
    Sender,
    /// It receives the flow, and reserves for it.
    Receiver,
}

/// The status of a program that announces or reserves, for other programs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostStatus {
    /// The number of its process.
    pub process: u32,
    /// Whether it announces or reserves.
    pub role: Role,
    /// Where the packets go.
    pub destination: IpAddr,
    /// The IP protocol of the packets.
    pub protocol: u8,
    /// Their destination port; 0 for any.
    pub port: u16,
    /// The senders, with their ports; 0 for any.
    pub senders: Vec<(IpAddr, u16)>,
    /// The style of a reservation: `FF`, `SE` or `WF`.
    pub style: Option<String>,
    /// The service of a reservation: `controlled-load` or `guaranteed`.
    pub service: Option<String>,
    /// Bytes a second: what is reserved, or announced.
    pub rate: f64,
    /// The state of the flow.
    #[serde(flatten)]
    pub state: State,
    /// How long it runs.
    pub seconds: u64,
}

/// A change that the host reports.
#[derive(Clone, PartialEq, Debug)]
pub enum HostEvent {
    /// This host announces its flow.
    Announced {
        /// Its address and port.
        sender: (IpAddr, u16),
        /// The most that it sends.
        tspec: Tspec,
    },
    /// This host waits for senders of a session.
    Listening(Session),
    /// A sender is there.
    Sender {
        /// Its address and port.
        sender: (IpAddr, u16),
        /// The most that it sends.
        tspec: Tspec,
        /// A router of the path does not take part.
        broken: bool,
    },
    /// A sender withdrew, or its state expired.
    SenderGone {
        /// Its address and port.
        sender: (IpAddr, u16),
    },
    /// A reservation is requested.
    Asked(Wanted),
    /// The state changed to this one.
    State(State),
    /// Another receiver's larger reservation was refused; this host's is requested without it.
    OtherRefused {
        /// The node that refused.
        by: IpAddr,
        /// The error code of RSVP.
        code: u8,
        /// The error value of RSVP.
        value: u16,
    },
    /// For a sender: the reservation on the first hop changed.
    Reserved {
        /// The reservation on the first hop; `None` if there is none any more.
        reservation: Option<Reservation>,
    },
}

impl State {
    pub(super) fn refused(error: &ErrorSpec) -> Self {
        let ErrorSpec { node: by, cause: Cause { code, value }, .. } = *error;
        Self::Refused { by, code, value }
    }
}

/// The address and port of a sender; a flow label of IPv6 counts as any port.
pub(super) fn place(filter: &Filter) -> (IpAddr, u16) {
    match filter.select {
        Select::Port(port) => (filter.source, port),
        Select::FlowLabel(_) => (filter.source, 0),
    }
}

/// The name of a protocol: `UDP`, `TCP` or a number.
pub fn protocol_name(protocol: u8) -> String {
    match protocol {
        17 => "UDP".to_owned(),
        6 => "TCP".to_owned(),
        other => format!("protocol {other}"),
    }
}

fn sender_text((address, port): &(IpAddr, u16)) -> String {
    match port {
        0 => address.to_string(),
        port => format!("{address} port {port}"),
    }
}

fn tspec_text(tspec: &Tspec) -> String {
    let Tspec { rate, bucket, packet_min, packet_max, peak } = tspec;
    let peak = match peak.is_finite() {
        true => format!(", at most {} at once", rate_text((*peak).into())),
        false => String::new(),
    };
    format!(
        "{} with bursts of {bucket:.0} bytes{peak}, packets of {packet_min} to {packet_max} bytes",
        rate_text((*rate).into())
    )
}

fn tspec_json(tspec: &Tspec) -> Value {
    let Tspec { rate, bucket, packet_min, packet_max, peak } = tspec;
    let peak = peak.is_finite().then_some(*peak);
    json!({
        "rate": rate, "bucket": bucket, "peak": peak, "packet_min": packet_min,
        "packet_max": packet_max,
    })
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Waiting => f.write_str("waiting"),
            State::Asked => f.write_str("no answer yet"),
            State::Accepted { by: Some(by) } => {
                write!(f, "accepted: {by} confirms the reservation")
            }
            State::Accepted { by: None } => f.write_str("reserved"),
            State::Refused { by, code, value } => {
                write!(f, "refused by {by}: {}", Cause::new(*code, *value))
            }
            State::Impossible { why } => write!(f, "not possible: {why}"),
        }
    }
}

impl fmt::Display for HostEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostEvent::Announced { sender, tspec } => {
                write!(f, "announcing a flow from {}: {}", sender_text(sender), tspec_text(tspec))
            }
            HostEvent::Listening(Session { destination, protocol, port }) => {
                let protocol = protocol_name(*protocol);
                write!(f, "waiting for a sender of {protocol} to {destination} port {port}")
            }
            HostEvent::Sender { sender, tspec, broken } => {
                write!(f, "{} sends {}", sender_text(sender), tspec_text(tspec))?;
                match broken {
                    true => f.write_str("; a router of the path does not speak RSVP"),
                    false => Ok(()),
                }
            }
            HostEvent::SenderGone { sender } => write!(f, "{} sends no more", sender_text(sender)),
            HostEvent::Asked(wanted) => {
                write!(f, "asking for {}", reserved_text(&wanted.reservation))?;
                match wanted.delay_max {
                    Some(delay) => write!(f, ", no packet later than {:.3} ms", delay / 1e3),
                    None => Ok(()),
                }
            }
            HostEvent::State(state) => state.fmt(f),
            HostEvent::OtherRefused { by, code, value } => write!(
                f,
                "{by} refused a larger reservation of another receiver: {}; this one is asked for \
                 without it",
                Cause::new(*code, *value)
            ),
            HostEvent::Reserved { reservation: Some(reservation) } => {
                write!(f, "reserved: {}", reserved_text(reservation))
            }
            HostEvent::Reserved { reservation: None } => f.write_str("no longer reserved"),
        }
    }
}

fn reserved_text(reservation: &Reservation) -> String {
    let service = match reservation.service() {
        Some(Service::Guaranteed) => "guaranteed service",
        Some(Service::ControlledLoad) => "controlled load",
        None => "",
    };
    format!("{} of {service}, style {}", rate_text(reservation.rate()), reservation.style)
}

/// The style, service and rate of a reservation.
fn reserved_json(event: &str, reservation: &Reservation) -> Value {
    json!({
        "event": event, "style": reservation.style.to_string(),
        "service": reservation.service().map(|service| service.to_string()),
        "rate": reservation.rate(),
    })
}

impl HostEvent {
    /// Returns it for a program: `event` names it, `says` is the sentence; rates are in bytes a
    /// second.
    pub fn json(&self) -> Value {
        let mut value = match self {
            HostEvent::Announced { sender, tspec } => {
                json!({ "event": "announced", "sender": sender, "tspec": tspec_json(tspec) })
            }
            HostEvent::Listening(Session { destination, protocol, port }) => json!({
                "event": "listening", "destination": destination, "protocol": protocol,
                "port": port,
            }),
            HostEvent::Sender { sender, tspec, broken } => json!({
                "event": "sender", "sender": sender, "tspec": tspec_json(tspec), "broken": broken,
            }),
            HostEvent::SenderGone { sender } => json!({ "event": "sender-gone", "sender": sender }),
            HostEvent::Asked(wanted) => {
                let mut value = reserved_json("asked", &wanted.reservation);
                value["delay_us"] = json!(wanted.delay_max);
                value
            }
            HostEvent::State(state) => {
                let mut value = json!(state);
                value["event"] = value["state"].take();
                value
            }
            HostEvent::OtherRefused { by, code, value } => {
                json!({ "event": "other-refused", "by": by, "code": code, "value": value })
            }
            HostEvent::Reserved { reservation: None } => json!({ "event": "not-reserved" }),
            HostEvent::Reserved { reservation: Some(one) } => reserved_json("reserved", one),
        };
        value["says"] = json!(self.to_string());
        if let Some(object) = value.as_object_mut() {
            object.remove("state");
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_its_text() {
        let state = State::Refused { by: [10, 0, 0, 1].into(), code: 1, value: 2 };
        let status = HostStatus {
            process: 7,
            role: Role::Receiver,
            destination: [10, 0, 0, 2].into(),
            protocol: 17,
            port: 5004,
            senders: vec![([10, 0, 0, 3].into(), 0)],
            style: Some("FF".to_owned()),
            service: Some("guaranteed".to_owned()),
            rate: 125_000.0,
            state,
            seconds: 3,
        };
        let text = serde_json::to_string(&status).expect("it has text keys");
        assert!(text.contains("\"state\":\"refused\"") && text.contains("\"FF\""), "{text}");
        let back: HostStatus = serde_json::from_str(&text).expect("it is the same type");
        assert_eq!(back, status);
    }

    #[test]
    fn sentences_name_who_and_why() {
        let refused =
            HostEvent::State(State::Refused { by: [10, 0, 0, 1].into(), code: 1, value: 2 });
        let says = refused.to_string();
        assert!(
            says.starts_with("refused by 10.0.0.1: admission refused: the bandwidth"),
            "{says}"
        );
        let value = refused.json();
        assert_eq!((&value["event"], &value["code"]), (&"refused".into(), &1.into()), "{value}");
        assert_eq!(rate_text(125_000.0), "1 Mbit/s");
    }
}
