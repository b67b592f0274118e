//! The reservations of a report: each one, the outlets that have classes for them, and messages.

use super::Signals;
use super::control::Counts;
use super::plan::Signalling;
use crate::figures::Amount;
use crate::meter::SourceMeter;
use crate::network::plan::Network;
use serde::Serialize;
use std::fmt;
use weir_core::units::{Duration, Instant};
use weir_policy::table::Table;

/// The figures of signalling.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SignallingReport {
    /// Every reservation in the order of declaration.
    pub reservations: Vec<ReservationReport>,
    /// Every outlet whose policy has the class for reservations.
    pub outlets: Vec<ReservingReport>,
    /// Messages that nodes sent and that reached their links, after the warm-up.
    pub messages: Amount,
    /// Messages that queues dropped, after the warm-up.
    pub dropped: Amount,
    /// Messages that were lost as the scenario wants it, in the whole run.
    pub lost: u64,
}

/// The figures of one reservation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReservationReport {
    /// The name in the scenario.
    pub name: String,
    /// The session that it receives.
    pub session: String,
    /// WF, FF or SE.
    pub style: String,
    /// The service that was requested.
    pub service: &'static str,
    /// The names of the leaves that it had.
    pub classes: Vec<String>,
    /// Whether traffic control of all outlets on the way has it at the end.
    pub stands: bool,
    /// From its start until traffic control of all outlets on the way had it.
    pub setup_us: Option<f64>,
    /// From its start until the receiver learned that it stands.
    pub confirmed_us: Option<f64>,
    /// The part of the time between start and stop in which all outlets had it.
    pub in_place: f64,
    /// Errors that came back.
    pub errors: u64,
    /// The last of them.
    pub last_error: Option<String>,
    /// Of guaranteed service, the bound on the delay from end to end that the receiver computed;
    /// the largest, if it changed.
    pub bound_us: Option<f64>,
}

/// An outlet whose policy has the class for reservations.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReservingReport {
    /// The name of the link.
    pub link: String,
    /// The node that it leads away from.
    pub from: String,
    /// The class below which leaves are added.
    pub class: String,
    /// The changes of the outlet.
    #[serde(flatten)]
    pub counts: Counts,
    /// The rate that is reserved at the end.
    pub reserved_bps: u64,
}

impl Signals<'_> {
    /// The report at the end of a run.
    pub fn report(
        &mut self,
        network: &Network,
        (meter, span, end): (&SourceMeter, Duration, Instant),
    ) -> SignallingReport {
        let Signalling { reservations, class, .. } = self.plan;
        let micros = |time: Option<Duration>| time.map(|time| time.as_nanos() as f64 / 1e3);
        let rows = reservations.iter().zip(&mut self.applications);
        let rows = rows.map(|(row, application)| ReservationReport {
            name: row.name.clone(),
            session: row.session.to_string(),
            style: row.style.to_string(),
            service: row.service_word(),
            classes: application.classes.iter().cloned().collect(),
            stands: application.stands(),
            setup_us: micros(application.after_start(application.complete)),
            confirmed_us: micros(application.after_start(application.confirmed)),
            in_place: application.part_in_place(end),
            errors: application.errors,
            last_error: application.last_error.clone(),
            bound_us: application.bound,
        });
        let outlets = self.controls.iter().map(|(&outlet, control)| {
            let (link, from) = network.outlet_names(outlet);
            ReservingReport {
                link: link.to_owned(),
                from: from.to_owned(),
                class: class.clone(),
                counts: control.counts,
                reserved_bps: control.reserved(),
            }
        });
        SignallingReport {
            reservations: rows.collect(),
            outlets: outlets.collect(),
            messages: Amount::of(meter.sent, span),
            dropped: Amount::of(meter.dropped, span),
            lost: self.lost,
        }
    }
}

impl SignallingReport {
    /// The reservation called `name`.
    pub fn reservation(&self, name: &str) -> Option<&ReservationReport> {
        self.reservations.iter().find(|row| row.name == name)
    }
}

impl fmt::Display for SignallingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head =
            ["reservation", "style", "service", "set up ms", "in place %", "stands", "errors"];
        let mut table = Table::new(head).words(&[1, 2, 5]);
        for row in &self.reservations {
            let setup = row.setup_us.map_or("-".to_owned(), |us| format!("{:.2}", us / 1e3));
            let stands = if row.stands { "yes" } else { "no" };
            let in_place = format!("{:.1}", row.in_place * 100.0);
            let errors = row.errors.to_string();
            table.row([&row.name, &row.style, row.service, &setup, &in_place, stands, &errors]);
        }
        writeln!(f, "{table}")?;
        for row in &self.reservations {
            if let Some(error) = &row.last_error {
                writeln!(f, "{}: {error}", row.name)?;
            }
            if let Some(bound) = row.bound_us {
                writeln!(f, "{}: no packet takes longer than {:.2} ms", row.name, bound / 1e3)?;
            }
        }
        for outlet in &self.outlets {
            let ReservingReport { link, from, class, counts, .. } = outlet;
            let Counts { added, retuned, removed, refused, .. } = counts;
            let rate = outlet.reserved_bps as f64 / 1e6;
            writeln!(
                f,
                "{link}, {from}: {added} leaves joined `{class}`, {retuned} retuned, {removed} \
                 left, {refused} refused; {rate:.3} Mbit/s are reserved at the end"
            )?;
        }
        let (messages, bits) = (self.messages.packets, self.messages.bits_per_second as f64 / 1e3);
        let (dropped, lost) = (self.dropped.packets, self.lost);
        writeln!(
            f,
            "RSVP: {messages} messages sent, {bits:.2} kbit/s; {dropped} dropped by queues, \
             {lost} lost"
        )
    }
}
