//! The status of sessions, for clients of the control socket.

use weir_core::units::Instant;
use weir_link::status::reservations::{
    ReservationStatus, Reservations, SenderStatus, SessionStatus,
};
use weir_rsvp::node::{FlowView, Node, ReservationView, SenderView, SessionView};
use weir_rsvp::wire::Style;

use super::traffic_control::LinkControl;

/// Describes at most so many sessions.
pub fn describe(node: &Node, control: &LinkControl, limit: usize, now: Instant) -> Reservations {
    let counts = node.counts();
    let (admitted, reserved, room) = control.admission().load();
    let session = |view: SessionView| describe_session(&view, control, now);
    Reservations {
        sessions: node.session_count() as u64,
        admitted: admitted as u64,
        reserved,
        room,
        received: counts.received,
        sent: counts.sent,
        malformed: counts.malformed,
        insecure: counts.insecure,
        refused: counts.refused,
        shown: node.sessions().take(limit).map(session).collect(),
    }
}

fn describe_session(view: &SessionView, control: &LinkControl, now: Instant) -> SessionStatus {
    let expires_ms =
        |at: Option<Instant>| at.map(|at| at.as_nanos().saturating_sub(now.as_nanos()) / 1_000_000);
    let sender = |one: &SenderView| SenderStatus {
        sender: one.sender.to_string(),
        from: one.hop.map(|(_, address)| address.to_string()),
        rate: one.tspec.rate.into(),
        bucket: one.tspec.bucket.into(),
        expires_ms: expires_ms(one.expires),
    };
    let reservation = |one: &ReservationView| {
        let own = view.flows.iter().find(|flow| is_for(flow, one)).map(|flow| flow.id);
        ReservationStatus {
            by: one.hop.map(|(_, address)| address.to_string()),
            style: one.style.to_string(),
            service: one.flowspec.service().to_string(),
            rate: one.flowspec.rate().into(),
            bucket: one.flowspec.tspec().bucket.into(),
            senders: one.filters.iter().map(ToString::to_string).collect(),
            admitted: one.admitted,
            class: own.and_then(|flow| control.admission().class_of(flow)).map(str::to_owned),
            expires_ms: expires_ms(one.expires),
        }
    };
    SessionStatus {
        destination: view.session.destination.to_string(),
        protocol: view.session.protocol,
        port: view.session.port,
        senders: view.senders.iter().map(sender).collect(),
        reservations: view.reservations.iter().map(reservation).collect(),
    }
}

/// Returns whether a flow of traffic control is for a reservation.
fn is_for(flow: &FlowView, one: &ReservationView) -> bool {
    let (Some(request), Some((interface, hop))) = (&flow.installed, one.hop) else { return false };
    let is_named = |filter| request.filters.contains(filter);
    request.interface == interface
        && request.hops.contains(&hop)
        && (one.style == Style::Wildcard || one.filters.iter().any(is_named))
}
