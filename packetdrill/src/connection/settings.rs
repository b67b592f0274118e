//! The effect of sysctls and socket options on the profile `linux`.
//!
//! Invariant: what is not set has the profile's value, but for what `defaults.sh` sets.

use crate::defaults::Sysctls;
use weir_core::units::{Bytes, Duration};
use weir_tcp::{AccurateOption, Config, Congestion, EcnMode, Profile};

/// The settings of the next connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// The sysctls that the script set.
    pub sysctls: Sysctls,
    /// The kernel's ticks are of 4 ms (`CONFIG_HZ=250`), not of 1 ms.
    pub is_coarse: bool,
    /// Whether each segment is sent for itself (`--strict_segments`, or no offload).
    pub is_strict: bool,
    /// Whether packets leave at a pace (the queue discipline `fq`).
    pub is_paced: bool,
    /// The first sequence number, as the script writes it.
    pub initial: u32,
    /// Set by `TCP_CORK`.
    pub is_corked: bool,
    /// Set by `TCP_NODELAY`.
    pub is_nagle_off: bool,
    /// Set by `TCP_QUICKACK`.
    pub is_quick: bool,
    /// Set by `TCP_MAXSEG`.
    pub mss: Option<u16>,
    /// Twice `SO_SNDBUF`, as the kernel takes it.
    pub send_buffer: Option<u64>,
    /// Twice `SO_RCVBUF`, as the kernel takes it.
    pub receive_buffer: Option<u64>,
    /// Set by `TCP_SYNCNT`.
    pub syn_retries: Option<u8>,
    /// Set by `TCP_CONGESTION`.
    pub congestion: Option<String>,
}

impl Settings {
    /// Returns the configuration of an endpoint.
    pub fn config(&self) -> Config {
        let mut config = Profile::Linux.config();
        config.mss = self.mss;
        config.sack = self.is_on("tcp_sack");
        config.dsack = self.is_on("tcp_dsack");
        config.timestamps = self.is_on("tcp_timestamps");
        config.nagle = !self.is_nagle_off;
        config.idle_restart = self.is_on("tcp_slow_start_after_idle");
        config.ecn = self.ecn();
        config.ecn_fallback = self.is_on("tcp_ecn_fallback");
        config.accurate_option = self.accurate_option();
        self.set_buffers(&mut config);
        self.set_recovery(&mut config);
        self.set_limits(&mut config);
        config.congestion = self.congestion();
        config
    }

    fn is_on(&self, name: &str) -> bool {
        self.sysctls.number(name) != Some(0)
    }

    fn small(&self, name: &str, or: u8) -> u8 {
        self.sysctls.number(name).and_then(|value| u8::try_from(value).ok()).unwrap_or(or)
    }

    fn ecn(&self) -> EcnMode {
        match self.sysctls.number("tcp_ecn") {
            Some(1) => EcnMode::Active,
            Some(2) => EcnMode::Passive,
            Some(3) => EcnMode::Accurate,
            Some(4) => EcnMode::AccurateClassic,
            Some(5) => EcnMode::AccuratePassive,
            _ => EcnMode::Off,
        }
    }

    /// Returns when accurate ECN's option is sent.
    pub fn accurate_option(&self) -> AccurateOption {
        match self.sysctls.number("tcp_ecn_option") {
            Some(0) => AccurateOption::Off,
            Some(1) => AccurateOption::Demanded,
            _ => AccurateOption::Full,
        }
    }

    /// Sets buffers. The window is half of the memory, as Linux counts overhead; its scale comes
    /// from the largest memory (`tcp_select_initial_window`).
    fn set_buffers(&self, config: &mut Config) {
        let memory = self.sysctls.numbers("tcp_rmem");
        let at = |place: usize| memory.get(place).copied().unwrap_or(MEMORY).max(1).unsigned_abs();
        let largest = at(2).max(self.receive_buffer.unwrap_or_default());
        let shift = largest.ilog2().saturating_sub(15).min(14) as u8;
        config.window_scale = self.is_on("tcp_window_scaling").then_some(shift);
        config.buffers.receive = Bytes::new(self.receive_buffer.unwrap_or(at(1)) / 2);
        config.buffers.receive_max = Bytes::new(self.receive_buffer.unwrap_or(at(2)) / 2);
        config.buffers.autotuning = self.receive_buffer.is_none();
        config.buffers.send = Bytes::new(SEND_BUFFER);
    }

    fn set_recovery(&self, config: &mut Config) {
        let bits = self.sysctls.number("tcp_recovery").unwrap_or(1);
        let recovery = &mut config.recovery;
        recovery.rack = bits & 1 != 0;
        recovery.rack_adapts = bits & 2 == 0;
        recovery.rack_threshold = bits & 4 == 0;
        recovery.tail_probe = self.is_on("tcp_early_retrans");
        recovery.frto = self.is_on("tcp_frto");
        recovery.duplicates = u32::from(self.small("tcp_reordering", 3));
        config.retries.syn = self.syn_retries.unwrap_or(self.small("tcp_syn_retries", 6));
        config.retries.syn_ack = self.small("tcp_synack_retries", 5);
        if self.is_coarse {
            config.rto.tick = Duration::from_millis(4);
            // `TCP_TIMEOUT_MIN` is two ticks.
            config.rto.margin = Duration::from_millis(8);
        }
        if let Some(millis) = self.sysctls.number("tcp_rto_max_ms") {
            config.rto.max = Duration::from_millis(millis.unsigned_abs());
        }
    }

    fn set_limits(&self, config: &mut Config) {
        let limits = &mut config.limits;
        limits.burst = if self.is_strict { 1 } else { BURST };
        limits.burst_min = u32::from(self.small("tcp_min_tso_segs", 2));
        limits.pacing = self.is_paced;
        limits.pacing_slow_start = self.share("tcp_pacing_ss_ratio", 200);
        limits.pacing_avoidance = self.share("tcp_pacing_ca_ratio", 120);
    }

    fn share(&self, name: &str, or: u32) -> u32 {
        self.sysctls.number(name).and_then(|value| u32::try_from(value).ok()).unwrap_or(or)
    }

    fn congestion(&self) -> Congestion {
        let name = self.congestion.as_deref();
        match name.unwrap_or(self.sysctls.text("tcp_congestion_control")) {
            "reno" => Congestion::Reno,
            "bbr" => Congestion::Bbr,
            "dctcp" => Congestion::Dctcp,
            "prague" => Congestion::Prague,
            _ => Congestion::Cubic,
        }
    }
}

/// Memory where `tcp_rmem` has no number.
const MEMORY: i64 = 131_072;

/// The size of the send buffer. The kernel's accounting of its memory is not modelled, so it is
/// large enough for every script.
const SEND_BUFFER: u64 = 1 << 30;

/// The segments of a burst at most: 64 KiB of the smallest segments.
const BURST: u32 = 65_536 / 536;
