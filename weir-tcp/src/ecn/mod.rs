//! Explicit congestion notification: classic [rfc3168] and accurate [rfc9768], as Linux has them.
//!
//! Accurate ECN follows RFC 9768: three flags count marked packets modulo 8, an option counts
//! bytes; `feedback.rs` is the sender's half, `counters.rs` the receiver's. Invariant: what is not
//! negotiated is neither sent nor believed.

mod counters;
mod feedback;

pub(crate) use counters::{Counters, Fit, option_len, sack_len};
pub(crate) use feedback::{Delivered, Feedback};

use crate::config::{AccurateOption, Config, EcnMode};
use crate::segment::{AccEcn, Ecn, Flags, Segment};
use counters::handshake_ace;

/// The use of ECN on which both sides agreed in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Agreed {
    #[default]
    Nothing,
    Classic,
    Accurate,
}

/// The state of ECN on the sending side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnSender {
    pub agreed: Agreed,
    /// The next new data carries CWR [rfc3168 §6.1.2].
    cwr: bool,
    /// The other side's counters of accurate ECN.
    pub feedback: Feedback,
    /// Segments take no marks: the path changes them, or the flags that report them.
    bleached: bool,
    /// A segment after the handshake was looked at.
    begun: bool,
}

/// The state of ECN on the receiving side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnReceiver {
    pub agreed: Agreed,
    /// The mark is echoed until the sender says that it reduced its window.
    echo: bool,
    /// Marks are echoed one by one [rfc8257 §3.2].
    pub exact: bool,
    /// The counters that accurate ECN reports.
    pub counters: Counters,
    /// The codepoint of the SYN, for the handshake's encoding.
    syn: Ecn,
    /// A SYN came again without the flags that the first one had.
    bleached: bool,
}

impl EcnSender {
    /// Notes that the window was reduced.
    pub fn queue_cwr(&mut self) {
        self.cwr = self.agreed == Agreed::Classic;
    }

    /// Clears the queued CWR: the reduction was undone.
    pub fn withdraw_cwr(&mut self) {
        self.cwr = false;
    }

    /// Sets codepoint and CWR of a segment; with classic ECN, what is sent again and what has no
    /// data takes no marks [rfc3168 §6.1.4] [rfc3168 §6.1.5].
    pub fn dress(&mut self, segment: &mut Segment, l4s: bool) {
        let plain = segment.again.is_some() || segment.length == 0;
        match self.agreed {
            Agreed::Nothing => return,
            Agreed::Classic if plain => return,
            Agreed::Classic => {
                segment.flags |= Flags::NONE.with(Flags::CWR, core::mem::take(&mut self.cwr));
            }
            Agreed::Accurate if self.bleached => return,
            Agreed::Accurate => {}
        }
        segment.ecn = if l4s { Ecn::Ect1 } else { Ecn::Ect0 };
    }

    /// Starts to count from the handshake.
    pub fn start(&mut self, agreed: Agreed, bleached: bool) {
        *self = Self { agreed, bleached, ..Self::default() };
    }

    /// Looks at the first segment after a handshake with accurate ECN; `passive` if it ends the
    /// handshake of a server. Returns whether it reports that the SYN's acknowledgement was marked.
    pub fn begin(&mut self, segment: &Segment, passive: bool, config: &Config) -> bool {
        if self.agreed != Agreed::Accurate || core::mem::replace(&mut self.begun, true) {
            return false;
        }
        let ace = segment.flags.ace();
        // [rfc9768 §3.2.2.4] Flags that are zero now were zeroed on the path.
        self.bleached |= ace == 0;
        let reported = feedback::reported(ace).filter(|_| passive && segment.length == 0);
        let changed = reported.is_some_and(|codepoint| codepoint != Ecn::NotEct);
        if changed && config.ecn_fallback {
            // [rfc9768 §3.2.2.3] It was sent without the mark that it arrived with.
            self.bleached = true;
            return false;
        }
        let marked = reported == Some(Ecn::Ce);
        if marked {
            self.feedback.count_handshake();
        }
        marked
    }
}

impl EcnReceiver {
    /// Takes the codepoint of a packet that arrived with `length` bytes of data. Returns true if
    /// that calls for an acknowledgement at once.
    pub fn take(&mut self, segment: &Segment) -> bool {
        match (self.agreed, segment.ecn) {
            (Agreed::Nothing, _) => false,
            (Agreed::Accurate, _) => self.counters.take(segment),
            (Agreed::Classic, codepoint) => {
                if segment.flags.has(Flags::CWR) && !self.exact {
                    self.echo = false;
                }
                let (marked, before) = (codepoint == Ecn::Ce, self.echo);
                if self.exact && segment.length > 0 {
                    self.echo = marked;
                    return before != marked;
                }
                self.echo |= marked;
                marked && !before
            }
        }
    }

    /// Starts to count from the handshake.
    pub fn start(&mut self, agreed: Agreed, exact: bool) {
        (self.agreed, self.exact) = (agreed, exact);
    }

    /// Returns whether marks cannot be relied on.
    pub fn is_bleached(&self) -> bool {
        self.bleached
    }

    /// Returns the option of accurate ECN that fits into `room` bytes with so many blocks.
    pub fn fit(&self, room: u32, blocks: u32) -> Option<Fit> {
        (self.agreed == Agreed::Accurate).then(|| self.counters.fit(room, blocks)).flatten()
    }

    /// Sets the flags and the option of a segment.
    pub fn dress(&mut self, segment: &mut Segment, fit: Option<Fit>) {
        match self.agreed {
            Agreed::Nothing => {}
            Agreed::Classic => segment.flags |= Flags::NONE.with(Flags::ECE, self.echo),
            Agreed::Accurate => self.counters.dress(segment, fit),
        }
    }

    /// Returns the flags of a SYN [rfc3168 §6.1.1] [rfc9768 §3.1.1].
    pub fn syn_flags(config: &Config) -> Flags {
        match config.ecn {
            EcnMode::Off | EcnMode::Passive | EcnMode::AccuratePassive => Flags::NONE,
            EcnMode::Active | EcnMode::AccurateClassic => Flags::ECE | Flags::CWR,
            EcnMode::Accurate => Flags::AE | Flags::ECE | Flags::CWR,
        }
    }

    /// Takes a SYN; returns what is agreed on.
    pub fn answer_syn(&mut self, config: &Config, syn: &Segment) -> Agreed {
        use EcnMode::{Accurate, AccurateClassic, AccuratePassive, Off};
        self.counters = Counters::new(config.accurate_option);
        self.syn = syn.ecn;
        let accurate = matches!(config.ecn, Accurate | AccuratePassive | AccurateClassic);
        match syn.flags.ace() {
            0 => Agreed::Nothing,
            // [rfc9768 §3.1.2] Any other value of the three flags requests accurate ECN.
            ace if accurate && ace != 3 => Agreed::Accurate,
            // A host that only knows classic ECN ignores AE.
            3 | 7 if config.ecn != Off => Agreed::Classic,
            _ => Agreed::Nothing,
        }
    }

    /// Takes a SYN that came again; without flags now, marks are not relied on [rfc9768 §3.1.5].
    pub fn take_repeated_syn(&mut self, syn: &Segment, agreed: Agreed) {
        if agreed == Agreed::Accurate {
            self.syn = syn.ecn;
            self.bleached |= syn.flags.ace() == 0;
        }
    }

    /// Reports the codepoint of a SYN, or of its acknowledgement, in the next segment.
    pub fn reflect(&mut self, syn: &Segment) {
        self.counters.option_seen |= syn.acc_ecn.is_some();
        self.counters.reflect(syn.ecn);
    }

    /// Returns the flags of a SYN's acknowledgement [rfc9768 §3.1.2].
    pub fn syn_ack_flags(&self, agreed: Agreed) -> Flags {
        match agreed {
            Agreed::Nothing => Flags::NONE,
            Agreed::Classic => Flags::ECE,
            Agreed::Accurate => Flags::from_ace(handshake_ace(self.syn)),
        }
    }

    /// Returns the option of a SYN's acknowledgement.
    pub fn syn_ack_option(&self, agreed: Agreed) -> Option<AccEcn> {
        let sent = agreed == Agreed::Accurate && self.counters.level != AccurateOption::Off;
        sent.then(|| self.counters.option(3))
    }

    /// Takes a SYN's acknowledgement; returns what is agreed on.
    pub fn take_syn_ack(&mut self, config: &Config, syn_ack: &Segment) -> Agreed {
        self.counters = Counters::new(config.accurate_option);
        let agreed = match (config.ecn, syn_ack.flags.ace()) {
            // [rfc9768 §3.1.2] The combination 101 is reserved, and to be taken as accurate ECN.
            (EcnMode::Accurate, 2..=6) => Agreed::Accurate,
            (EcnMode::Accurate | EcnMode::Active | EcnMode::AccurateClassic, 1) => Agreed::Classic,
            _ => Agreed::Nothing,
        };
        if agreed == Agreed::Accurate {
            self.reflect(syn_ack);
            if syn_ack.ecn == Ecn::Ce {
                self.counters.count_handshake();
            }
        }
        agreed
    }
}

/// Counters of packets start at 5 [rfc9768 §3.2.1].
const INITIAL_PACKETS: u32 = 5;
