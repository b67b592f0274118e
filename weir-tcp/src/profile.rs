//! Profiles: tables of all values of a [`Config`], one for each kind of host.
//!
//! `linux` is today's kernel (about 6.12) with its defaults, `rfc` the letter of the RFCs, and the
//! others are what papers of their time simulated.

use crate::config::{
    AccurateOption, AckPolicy, BufferPolicy, Config, Congestion, Cubic, EcnMode, HyStart,
    InitialWindow, RateLimits, Recovery, Retries, RtoPolicy, SackCompression, SlowStart,
};
use weir_core::units::{Bytes, Duration};

/// A named table of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Linux, about 6.12.
    Linux,
    /// The letter of the RFCs of today.
    Rfc,
    /// 4.4BSD as of 1998: NewReno without SACK, delayed acknowledgements of 200 ms, a timeout of at
    /// least a second in steps of half a second.
    Bsd1998,
    /// 4.3BSD Tahoe as of 1988: fast retransmission, no fast recovery.
    Tahoe1988,
}

impl Profile {
    /// Every profile, for lists and tests.
    pub const ALL: [Profile; 4] =
        [Profile::Linux, Profile::Rfc, Profile::Bsd1998, Profile::Tahoe1988];

    /// Returns the word in scenarios.
    pub const fn keyword(self) -> &'static str {
        match self {
            Profile::Linux => "linux",
            Profile::Rfc => "rfc",
            Profile::Bsd1998 => "bsd-1998",
            Profile::Tahoe1988 => "tahoe-1988",
        }
    }

    /// Returns the configuration of the profile.
    pub fn config(self) -> Config {
        match self {
            Profile::Linux => Config::linux(),
            Profile::Rfc => Config::rfc(),
            Profile::Bsd1998 => Config::bsd_1998(),
            Profile::Tahoe1988 => Config::tahoe_1988(),
        }
    }
}

impl Config {
    /// Returns the values of Linux, about 6.12.
    pub fn linux() -> Config {
        Config {
            mtu: 1500,
            ip_header: 20,
            mss: None,
            sack: true,
            dsack: true,
            timestamps: true,
            window_scale: Some(7),
            buffers: BufferPolicy {
                receive: Bytes::new(65_536),
                receive_max: Bytes::new(3 << 20),
                autotuning: true,
                send: Bytes::new(4 << 20),
            },
            initial_window: InitialWindow::Segments(10),
            slow_start: SlowStart::Bytes { limit: None },
            congestion: Congestion::Cubic,
            cubic: Cubic::linux(),
            ecn: EcnMode::Passive,
            accurate_option: AccurateOption::Full,
            ecn_fallback: true,
            recovery: Recovery::linux(),
            rto: RtoPolicy {
                initial: Duration::from_secs(1),
                min: Duration::from_millis(200),
                max: Duration::from_secs(120),
                min_bounds_deviation: true,
                margin: Duration::from_millis(2),
                tick: Duration::from_millis(1),
                min_rtt_window: Duration::from_secs(300),
            },
            retries: Retries { syn: 6, syn_linear: 4, syn_ack: 5, data: 15 },
            acks: AckPolicy {
                delay: Some(Duration::from_millis(40)),
                delay_max: Duration::from_millis(200),
                adaptive: true,
                quick: 16,
                segments: 1,
                compression: Some(SackCompression {
                    delay_max: Duration::from_millis(1),
                    count: 44,
                }),
            },
            limits: RateLimits {
                pacing: false,
                pacing_slow_start: 200,
                pacing_avoidance: 120,
                burst: 1,
                burst_min: 2,
                small_queue: None,
            },
            nagle: true,
            idle_restart: true,
            window_validation: true,
            time_wait: Duration::from_secs(60),
        }
    }

    /// Returns the letter of the RFCs.
    pub fn rfc() -> Config {
        let linux = Config::linux();
        Config {
            initial_window: InitialWindow::Rfc6928,
            // [rfc9438 §4.10] leaves slow start to [rfc5681], whose growth [rfc3465] bounds.
            slow_start: SlowStart::Bytes { limit: Some(2) },
            cubic: Cubic {
                refresh: Duration::ZERO,
                count_unknown: None,
                hystart: None,
                ..Cubic::linux()
            },
            recovery: Recovery { prr_safe_ack: true, ..Recovery::linux() },
            rto: RtoPolicy {
                min: Duration::from_secs(1),
                max: Duration::from_secs(60),
                min_bounds_deviation: false,
                tick: Duration::ZERO,
                ..linux.rto
            },
            acks: AckPolicy {
                // [rfc5681 §4.2] At least every second segment, within 500 ms.
                delay: Some(Duration::from_millis(200)),
                delay_max: Duration::from_millis(500),
                adaptive: false,
                quick: 0,
                segments: 1,
                compression: None,
            },
            time_wait: Duration::from_secs(240),
            ..linux
        }
    }

    /// Returns the values of 4.4BSD as of 1998.
    pub fn bsd_1998() -> Config {
        let rfc = Config::rfc();
        Config {
            sack: false,
            dsack: false,
            timestamps: false,
            window_scale: None,
            buffers: BufferPolicy {
                receive: Bytes::new(16_384),
                receive_max: Bytes::new(16_384),
                autotuning: false,
                send: Bytes::new(16_384),
            },
            initial_window: InitialWindow::Segments(1),
            slow_start: SlowStart::Acks,
            congestion: Congestion::Reno,
            ecn: EcnMode::Off,
            recovery: Recovery::bsd(),
            rto: RtoPolicy {
                initial: Duration::from_secs(3),
                max: Duration::from_secs(64),
                margin: Duration::ZERO,
                tick: Duration::from_millis(500),
                ..rfc.rto
            },
            retries: Retries { syn: 3, syn_linear: 0, syn_ack: 3, data: 12 },
            window_validation: false,
            time_wait: Duration::from_secs(60),
            ..rfc
        }
    }

    /// Returns the values of 4.3BSD Tahoe.
    pub fn tahoe_1988() -> Config {
        let bsd = Config::bsd_1998();
        let recovery = Recovery { fast_recovery: false, partial_acks: false, ..Recovery::bsd() };
        Config { recovery, idle_restart: false, ..bsd }
    }
}

impl Cubic {
    /// Returns the values of `tcp_cubic.c`.
    pub fn linux() -> Cubic {
        Cubic {
            beta_1024: 717,
            c_1024: 410,
            fast_convergence: true,
            friendly: true,
            refresh: Duration::from_nanos(31_250_000),
            count_min: 2,
            count_unknown: Some(20),
            hystart: Some(HyStart {
                window_min: 16,
                train: true,
                delay: true,
                gap_max: Duration::from_millis(2),
                samples_min: 8,
                delay_min: Duration::from_millis(4),
                delay_max: Duration::from_millis(16),
            }),
        }
    }
}

impl Recovery {
    /// Returns what Linux does.
    pub fn linux() -> Recovery {
        Recovery {
            rack: true,
            rack_adapts: true,
            rack_threshold: true,
            rack_persist: 16,
            tail_probe: true,
            prr: true,
            prr_safe_ack: true,
            frto: true,
            undo: true,
            duplicates: 3,
            duplicates_max: 300,
            limited_transmit: true,
            partial_acks: true,
            fast_recovery: true,
        }
    }

    /// Returns what a host without SACK did [rfc6582].
    pub fn bsd() -> Recovery {
        Recovery {
            rack: false,
            rack_adapts: false,
            rack_threshold: false,
            rack_persist: 0,
            tail_probe: false,
            prr: false,
            prr_safe_ack: false,
            frto: false,
            undo: false,
            duplicates: 3,
            duplicates_max: 3,
            limited_transmit: false,
            partial_acks: true,
            fast_recovery: true,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::linux()
    }
}
