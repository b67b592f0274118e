//! The connection that a script drives: an endpoint of the model, in the script's terms.
//!
//! This is the only place that knows the model. Invariant: times are microseconds here, and a
//! timer never fires early for the rounding.

mod settings;
mod wire;

pub use settings::Settings;

use crate::script::Packet;
use weir_core::units::{Duration, Instant};
use weir_tcp::{CaState, Endpoint, Info, Options, SeqNumber, State};

/// An endpoint of the model.
pub struct Connection {
    endpoint: Endpoint,
}

impl Connection {
    /// Returns an endpoint that opens a connection.
    pub fn connect(settings: &Settings, now: i64) -> Self {
        Self { endpoint: Endpoint::connect(settings.config(), instant(now), initial(settings)) }
    }

    /// Returns an endpoint that waits for a connection.
    pub fn listen(settings: &Settings) -> Self {
        Self { endpoint: Endpoint::listen(settings.config(), initial(settings)) }
    }

    /// Takes a packet that arrives.
    pub fn receive(&mut self, now: i64, packet: &Packet) {
        self.endpoint.receive(instant(now), &wire::segment(packet));
    }

    /// Fires the timers that are due.
    pub fn wake(&mut self, now: i64) {
        self.endpoint.wake(instant(now));
    }

    /// Returns when the next timer is due.
    pub fn next_wake(&self) -> Option<i64> {
        self.endpoint.next_wake().map(|wake| wake.as_nanos().div_ceil(1000) as i64)
    }

    /// Returns what is sent now and the largest segment in it; to be called until it returns
    /// `None`.
    pub fn emit(&mut self, now: i64) -> Option<(Packet, u32)> {
        let segment = self.endpoint.emit(instant(now))?;
        Some((wire::packet(&segment), u32::from(segment.mss)))
    }

    /// Writes bytes; returns how many were taken.
    pub fn write(&mut self, bytes: u64) -> u64 {
        self.endpoint.write(bytes)
    }

    /// Returns how many bytes can be read.
    pub fn readable(&self) -> u64 {
        self.endpoint.readable()
    }

    /// Reads bytes, as the application does.
    pub fn read(&mut self, bytes: u64) {
        self.endpoint.read(bytes);
    }

    /// Ends what is sent.
    pub fn shut(&mut self) {
        self.endpoint.close();
    }

    /// Closes the connection; with unread data it sends a reset, as `tcp_close` does.
    pub fn close(&mut self) {
        if self.endpoint.readable() > 0 {
            self.endpoint.abort();
        } else {
            self.endpoint.close();
        }
    }

    /// Takes options that changed.
    pub fn change(&mut self, settings: &Settings) {
        let options = Options { no_delay: settings.is_nagle_off, cork: settings.is_corked };
        self.endpoint.set_options(options);
        self.endpoint.set_accurate_option(settings.accurate_option());
        if settings.is_quick {
            self.endpoint.quick_ack();
        }
    }

    /// Returns whether the handshake is over, and the connection has not ended.
    pub fn is_open(&self) -> bool {
        !matches!(
            self.endpoint.state(),
            State::Closed | State::Listen | State::SynSent | State::SynReceived
        )
    }

    /// Returns whether the connection has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.endpoint.state(), State::Closed | State::TimeWait)
    }

    /// Returns whether nothing is left of the connection.
    pub fn is_gone(&self) -> bool {
        matches!(self.endpoint.state(), State::Closed)
    }

    /// Returns a field of `tcp_info`, in Linux's units.
    pub fn field(&self, name: &str, _now: i64) -> Option<i64> {
        field(&self.endpoint.tcp_info(), name.strip_prefix("tcpi_")?)
    }
}

/// Returns whether the model has this field of `tcp_info`.
pub fn knows(name: &str) -> bool {
    let name = name.strip_prefix("tcpi_").unwrap_or(name);
    field(&Info::default(), name).is_some()
}

fn field(info: &Info, name: &str) -> Option<i64> {
    let micros = |duration: Duration| (duration.as_nanos() / 1000) as i64;
    Some(match name {
        "ca_state" => ca_state(info.ca_state),
        "retransmits" => i64::from(info.retransmits),
        "probes" => i64::from(info.probes),
        "backoff" => i64::from(info.backoff),
        "rto" => micros(info.rto),
        "snd_mss" => i64::from(info.snd_mss),
        "unacked" => i64::from(info.unacked),
        "sacked" => i64::from(info.sacked),
        "lost" => i64::from(info.lost),
        "retrans" => i64::from(info.retrans),
        "rtt" => micros(info.srtt),
        "rttvar" => micros(info.rttvar),
        "min_rtt" => micros(info.min_rtt),
        "snd_ssthresh" => i64::from(info.snd_ssthresh),
        "snd_cwnd" => i64::from(info.snd_cwnd),
        "reordering" => i64::from(info.reordering),
        "reord_seen" => i64::from(info.reord_seen),
        "total_retrans" => info.total_retrans as i64,
        "rcv_wnd" => i64::from(info.rcv_wnd),
        "snd_wnd" => i64::from(info.snd_wnd),
        "delivered" => info.delivered as i64,
        "delivered_ce" => info.delivered_ce as i64,
        "delivered_e0_bytes" => i64::from(info.delivered_e0_bytes),
        "delivered_ce_bytes" => i64::from(info.delivered_ce_bytes),
        "delivered_e1_bytes" => i64::from(info.delivered_e1_bytes),
        "pacing_rate" => info.pacing_rate as i64,
        "notsent_bytes" => info.notsent as i64,
        _ => return None,
    })
}

fn ca_state(state: CaState) -> i64 {
    match state {
        CaState::Open => 0,
        CaState::Disorder => 1,
        CaState::Cwr => 2,
        CaState::Recovery => 3,
        CaState::Loss => 4,
    }
}

fn initial(settings: &Settings) -> SeqNumber {
    SeqNumber(settings.initial)
}

fn instant(micros: i64) -> Instant {
    Instant::from_nanos(micros.unsigned_abs() * 1000)
}
