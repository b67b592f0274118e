//! The pairs of policies, mixes and lines that forecasts are judged by.
//!
//! Each list was fixed before any of its pairs was run, and is not changed by what they show: first
//! [`PAIRS`], later [`FURTHER`], with senders that the first does not have. Rates are in Mbit/s,
//! round trips in ms, losses (behind the link) in %. Queues are as long as their time at the rate.

/// A pair of policies, and the traffic and line of both.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The policy whose capture is known, and the one that is forecast.
    pub policies: [Policy; 2],
    /// The rate of the link.
    pub rate: u32,
    /// The round trip without a queue.
    pub round_trip: u32,
    /// Lost behind the link.
    pub loss: f64,
    /// The senders' congestion control.
    pub congestion: &'static str,
    /// The traffic.
    pub mix: Mix,
}

/// How many of each application.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix {
    /// Downloads without end.
    pub bulk: u8,
    /// Readers of pages.
    pub web: u8,
    /// Players that fetch a second of film each second, of a fifth of the rate.
    pub video: u8,
    /// Calls.
    pub voice: u8,
    /// Games.
    pub game: u8,
    /// Senders of other kinds.
    pub others: Others,
}

/// How many of each kind of sender that the first list does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Others {
    /// Downloads without end by TCP with BBR, whatever the others have.
    pub bbr: u8,
    /// Downloads without end by QUIC.
    pub quic: u8,
    /// Readers of pages by QUIC.
    pub quic_web: u8,
    /// Players that hold three seconds of film: they fetch chunks of a second, of a fifth of the
    /// rate, at once until they hold so much, and then as there is room.
    pub player: u8,
}

/// A policy, by name; see [`Policy::text`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// One queue of so many ms.
    Fifo(u32),
    /// One queue with CoDel.
    Codel,
    /// One queue with PIE.
    Pie,
    /// Flow queues with CoDel.
    FqCodel,
    /// Strict priorities: calls and games, pages, all else.
    Priq,
    /// Round robin over the three classes.
    Drr,
    /// Shares of 20, 30 and 50 %, by HTB.
    Htb,
    /// The same by CBQ.
    Cbq,
    /// The same by HFSC.
    Hfsc,
}

const OTHERS: Others = Others { bbr: 0, quic: 0, quic_web: 0, player: 0 };
const NONE: Mix = Mix { bulk: 0, web: 0, video: 0, voice: 1, game: 0, others: OTHERS };
const CALLS: Mix = Mix { bulk: 1, ..NONE };
const HOME: Mix = Mix { bulk: 1, web: 2, ..NONE };
const EVENING: Mix = Mix { bulk: 1, web: 1, video: 1, game: 1, ..NONE };
const BUSY: Mix = Mix { bulk: 4, web: 3, game: 1, ..NONE };
const PAGES: Mix = Mix { web: 6, ..NONE };
/// BBR alone, and beside CUBIC.
const BBR: Mix = Mix { web: 2, others: Others { bbr: 1, ..OTHERS }, ..NONE };
const RIVALS: Mix = Mix { bulk: 1, web: 1, others: Others { bbr: 1, ..OTHERS }, ..NONE };
/// QUIC alone, and beside TCP.
const QUIC: Mix = Mix { others: Others { quic: 1, quic_web: 2, ..OTHERS }, ..NONE };
const BOTH: Mix =
    Mix { bulk: 1, web: 1, others: Others { quic: 1, quic_web: 1, ..OTHERS }, ..NONE };
/// A player beside a download, and two beside a reader and a game.
const FILM: Mix = Mix { bulk: 1, web: 1, others: Others { player: 1, ..OTHERS }, ..NONE };
const FILMS: Mix = Mix { web: 1, game: 1, others: Others { player: 2, ..OTHERS }, ..NONE };

/// The first list.
pub const PAIRS: [Pair; 24] = {
    use Policy::*;
    [
        pair([Fifo(400), FqCodel], (2, 30), HOME),
        pair([Fifo(400), Codel], (5, 40), HOME),
        pair([Fifo(300), FqCodel], (10, 40), EVENING),
        pair([Fifo(300), Fifo(40)], (10, 20), HOME),
        pair([Fifo(40), Fifo(300)], (10, 20), HOME),
        pair([Fifo(200), Pie], (10, 80), BUSY),
        pair([Fifo(200), FqCodel], (20, 20), BUSY),
        pair([Fifo(200), Htb], (20, 40), EVENING),
        pair([Fifo(100), Drr], (20, 150), HOME),
        pair([Fifo(100), Priq], (50, 20), BUSY),
        pair([Fifo(100), FqCodel], (100, 10), BUSY),
        pair([Fifo(50), Codel], (100, 5), EVENING),
        pair([Htb, Cbq], (10, 40), EVENING),
        pair([Cbq, Htb], (20, 20), BUSY),
        pair([Htb, FqCodel], (10, 60), HOME),
        pair([FqCodel, Fifo(300)], (10, 40), HOME),
        pair([FqCodel, Htb], (50, 30), BUSY),
        pair([Drr, Hfsc], (10, 100), EVENING),
        pair([Priq, Drr], (5, 20), HOME),
        pair([Codel, FqCodel], (20, 60), PAGES),
        lossy(pair([Fifo(200), FqCodel], (10, 40), HOME), 0.1),
        lossy(pair([Htb, FqCodel], (20, 80), EVENING), 0.5),
        reno(pair([Fifo(200), FqCodel], (10, 40), BUSY)),
        reno(lossy(pair([Fifo(300), Codel], (5, 150), CALLS), 0.1)),
    ]
};

/// The second list.
pub const FURTHER: [Pair; 14] = {
    use Policy::*;
    [
        pair([Fifo(400), FqCodel], (10, 40), BBR),
        pair([FqCodel, Fifo(300)], (10, 40), BBR),
        lossy(pair([Fifo(200), FqCodel], (20, 60), BBR), 0.5),
        pair([Fifo(200), Codel], (20, 20), RIVALS),
        pair([Fifo(300), Htb], (10, 40), RIVALS),
        pair([Fifo(400), FqCodel], (10, 40), QUIC),
        pair([Fifo(300), Fifo(40)], (20, 20), QUIC),
        pair([FqCodel, Htb], (20, 60), QUIC),
        pair([Fifo(300), Codel], (10, 40), BOTH),
        lossy(pair([Fifo(200), FqCodel], (10, 60), BOTH), 0.5),
        pair([Fifo(300), FqCodel], (10, 40), FILM),
        pair([FqCodel, Fifo(300)], (10, 40), FILM),
        pair([Fifo(200), Drr], (20, 40), FILMS),
        pair([Htb, FqCodel], (20, 20), FILM),
    ]
};

const fn pair(policies: [Policy; 2], (rate, round_trip): (u32, u32), mix: Mix) -> Pair {
    Pair { policies, rate, round_trip, loss: 0.0, congestion: "cubic", mix }
}

const fn lossy(pair: Pair, loss: f64) -> Pair {
    Pair { loss, ..pair }
}

const fn reno(pair: Pair) -> Pair {
    Pair { congestion: "reno", ..pair }
}

impl Pair {
    /// Returns the words of its rows.
    pub fn name(&self) -> String {
        let Self { policies, rate, round_trip, loss, congestion, mix } = self;
        let [was, then] = policies.map(Policy::name);
        let lost = if *loss > 0.0 { format!(", {loss} % lost") } else { String::new() };
        let reno = if *congestion == "cubic" { "" } else { ", reno" };
        let Mix { bulk, web, video, voice, game, others } = mix;
        let Others { bbr, quic, quic_web, player } = others;
        let words = [(bbr, "bbr"), (quic, "quic"), (quic_web, "quic web"), (player, "player")];
        let more = words.into_iter().filter(|row| *row.0 > 0);
        let more: String = more.map(|(count, word)| format!(", {count} {word}")).collect();
        format!(
            "{was} to {then}, {rate} Mbit/s, {round_trip} ms{lost}{reno}, mix \
             {bulk}-{web}-{video}-{voice}-{game}{more}"
        )
    }
}

impl Policy {
    /// Returns its name in rows.
    pub fn name(self) -> String {
        match self {
            Self::Fifo(ms) => format!("fifo of {ms} ms"),
            Self::Codel => "codel".to_owned(),
            Self::Pie => "pie".to_owned(),
            Self::FqCodel => "fq-codel".to_owned(),
            Self::Priq => "priq".to_owned(),
            Self::Drr => "drr".to_owned(),
            Self::Htb => "htb".to_owned(),
            Self::Cbq => "cbq".to_owned(),
            Self::Hfsc => "hfsc".to_owned(),
        }
    }

    /// Returns its text, for a link of this rate.
    pub fn text(self, rate: u32) -> String {
        let (one, limit) = (|queue: &str| single(rate, queue), bytes(rate, CLASS_MS));
        let classes = |scheduler, lines: [&str; 3]| classed(rate, scheduler, lines, limit);
        let shares = ["share = \"20 %\"", "share = \"30 %\"", "share = \"50 %\""];
        match self {
            Self::Fifo(ms) => one(&format!("limit = \"{} B\"", bytes(rate, ms))),
            Self::Codel => one("dropper = \"codel\", limit = \"1000 packets\""),
            Self::Pie => one("dropper = \"pie\", limit = \"1000 packets\""),
            Self::FqCodel => one("dropper = \"fq-codel\", limit = \"1000 packets\""),
            Self::Priq => classes("priq", ["priority = 7", "priority = 4", "priority = 1"]),
            Self::Drr => classes("drr", ["", "", ""]),
            Self::Htb => classes("htb", shares),
            Self::Cbq => classes("cbq", shares),
            Self::Hfsc => classes("hfsc", shares),
        }
    }
}

fn bytes(rate: u32, ms: u32) -> u32 {
    (rate * 125 * ms).max(LEAST)
}

fn single(rate: u32, queue: &str) -> String {
    format!(
        "[link]\nrate = \"{rate} Mbit/s\"\nscheduler = \"fifo\"\n\n[class.all]\n\
         default = true\nqueue = {{ {queue} }}\n"
    )
}

/// A policy with a class for calls and games, one for pages, and one for all else.
fn classed(rate: u32, scheduler: &str, lines: [&str; 3], limit: u32) -> String {
    let rules = [
        "match = [{ proto = \"udp\" }]",
        "match = [{ proto = \"tcp\", sport = 9002 }]",
        "default = true",
    ];
    let mut text = format!("[link]\nrate = \"{rate} Mbit/s\"\nscheduler = \"{scheduler}\"\n");
    for ((name, line), rule) in ["quick", "web", "rest"].iter().zip(lines).zip(rules) {
        text += &format!("\n[class.{name}]\n{line}\n{rule}\nqueue = {{ limit = \"{limit} B\" }}\n");
    }
    text
}

/// The queue of a class, in ms at the rate of the link.
const CLASS_MS: u32 = 100;
/// The shortest queue: twenty packets.
const LEAST: u32 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_policy_is_sound_and_no_pair_is_there_twice() {
        let all = || PAIRS.iter().chain(&FURTHER);
        let names: BTreeSet<String> = all().map(Pair::name).collect();
        assert_eq!(names.len(), PAIRS.len() + FURTHER.len());
        for pair in all() {
            for policy in pair.policies {
                let text = policy.text(pair.rate);
                let outcome = weir_policy::parse(&text, "pair.toml");
                assert!(outcome.plan.is_some(), "{text}\n{:?}", outcome.findings);
            }
        }
    }
}
