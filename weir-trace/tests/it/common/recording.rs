//! Records of a lane without ports, in virtual time: overload, pauses, stalls and changes.

use super::policies::{self, text};
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::ids::Handle;
use weir_core::link::{AnyLink, Change as LinkChange, Packet, Pending};
use weir_core::packet::Headers;
use weir_core::random::Random;
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;
use weir_trace::record::state::checkpoint;
use weir_trace::record::{
    Arrival, Change, End, Fate, File, Head, LaneHead, RecordWriter, Step, headers_of,
};
use weir_trace::recorded::policy_of;

/// A lane that records, without ports: what `weir-link` does with frames, in virtual time.
pub struct Recording {
    head: Head,
    policy: Policy,
    classifier: Classifier,
    link: Box<dyn AnyLink>,
    pending: Pending,
    writer: RecordWriter<Vec<u8>>,
    is_on: bool,
    random: Random,
    now: u64,
    handle: u32,
    /// Whether all frames are acknowledgements of some connections, without data.
    pub acknowledges: bool,
}

const SOJOURN: Duration = Duration::from_millis(30);

impl Recording {
    /// A record of a link with this policy; none if the policy has errors.
    pub fn new(policy: &str, seed: u64) -> Option<Self> {
        let files = vec![File { name: "p.toml".to_owned(), text: policy.to_owned() }];
        let leaves = weir_policy::parse(policy, "p").plan?.link.tree.leaf_count();
        let lane = LaneHead {
            name: "up".to_owned(),
            policy: "p.toml".to_owned(),
            sojourn_max: vec![SOJOURN; leaves],
            ..LaneHead::default()
        };
        let head = Head { files, lanes: vec![lane], ..Head::default() };
        let policy = policy_of("p.toml", &head.files, &head).ok()?;
        Some(Self {
            classifier: policy.classifier(),
            link: policy.link.build().ok()?,
            policy,
            pending: Pending::default(),
            writer: RecordWriter::new(Vec::new(), &head).expect("a Vec takes all"),
            is_on: true,
            head,
            random: Random::new(seed, 0),
            now: 0,
            handle: 0,
            acknowledges: false,
        })
    }

    /// As it is, but recorded from its first checkpoint on.
    pub fn later(self) -> Self {
        Self { is_on: false, ..self }
    }

    fn note(&mut self, step: &Step<'_>) {
        if self.is_on {
            self.writer.step(0, step).expect("a Vec takes all");
        }
    }

    /// The state here: the record begins with it, or holds the replay to it.
    fn checkpoint(&mut self) {
        let mut out = Vec::new();
        checkpoint(&self.pending, (self.link.as_ref(), &self.classifier), &mut out);
        self.writer.steps(0, &out).expect("a Vec takes all");
        self.is_on = true;
    }

    /// A frame arrives a little before now.
    fn arrive(&mut self) {
        let frame = match self.acknowledges {
            true => acknowledgement(&mut self.random, self.handle),
            false => frame(&mut self.random),
        };
        let headers = Headers::parse_ethernet(&frame);
        let stamp = self.now.saturating_sub(self.random.below(50_000).into());
        let at = self.pending.offer_at(Instant::from_nanos(stamp));
        let classified =
            self.classifier.classify(self.pending.classify_at(at), InterfaceId(0), &headers);
        self.handle += 1;
        let packet = Packet {
            handle: Handle(self.handle),
            length: frame.len() as u32,
            train: 0,
            flow: headers.flow(classified.flow),
            host: headers.host(classified.flow),
            traffic_class: headers.traffic_class.unwrap_or(0),
            meter: classified.meter,
        };
        let refused = self.random.below(50) == 0;
        let fate = if refused { Fate::Refused } else { Fate::Offered };
        let (port, leaf) = (InterfaceId(0), classified.leaf);
        let headers = headers_of(&frame, &headers);
        let arrival = Arrival { at, port, leaf, packet, fate, headers };
        self.note(&Step::Arrival(arrival));
        if !refused {
            let parsed = Headers::parse_ethernet(&frame);
            self.link.note_frame(&arrival.offered(), &frame, &parsed);
            self.pending.push(arrival.offered());
        }
    }

    fn serve(&mut self, behind: u64) {
        let until = self.pending.now().max(Instant::from_nanos(self.now.saturating_sub(behind)));
        let mut out = Vec::new();
        let link = &mut self.link;
        self.pending.serve(until, |due| link.serve(due, until, &mut out));
        self.note(&Step::Serve { until });
        out.iter().for_each(|departure| self.note(&Step::Departure(*departure)));
        self.take_dropped();
    }

    fn take_dropped(&mut self) {
        let mut drops = Vec::new();
        self.link.take_dropped(&mut |dropped| drops.push(dropped));
        drops.iter().for_each(|dropped| self.note(&Step::Dropped(*dropped)));
    }

    fn stall(&mut self) {
        self.now += 60_000_000;
        let (clock, before) =
            (Instant::from_nanos(self.now), Instant::from_nanos(self.now - 1_000_000));
        self.pending.forfeit_before(before);
        self.link.forfeit_before(before);
        self.note(&Step::Forfeit { before });
        self.link.drop_older(&|_| clock.before(SOJOURN));
        self.note(&Step::DropOlder { clock });
        self.take_dropped();
    }

    /// Everything that came before is over, so that no frame needs a new leaf.
    fn change(&mut self, text: &str) {
        let change = Change {
            at: self.pending.now(),
            policy: "new.toml".to_owned(),
            files: vec![File { name: "new.toml".to_owned(), text: text.to_owned() }],
            sojourn_max: Vec::new(),
            ..Change::default()
        };
        let policy = policy_of("new.toml", &change.files, &self.head).expect("a sound policy");
        let (from, to) = (&self.policy.link, &policy.link);
        let heir = policy.default.leaf;
        LinkChange { from, to, heir }.apply(&mut self.link, change.at).expect("it builds");
        self.classifier = policy.classifier();
        let sojourn_max = vec![SOJOURN; policy.link.tree.leaf_count()];
        self.policy = policy;
        self.note(&Step::Change(Box::new(Change { sojourn_max, ..change })));
        self.take_dropped();
    }

    /// Turns with bursts above the line's rate, pauses, and a stall; with `new` another policy in
    /// the middle.
    pub fn run(mut self, turns: u32, new: Option<&str>) -> Vec<u8> {
        for turn in 0..turns {
            self.now += u64::from(self.random.below(2_000_000));
            (0..self.random.below(12)).for_each(|_| self.arrive());
            let behind = if self.random.below(4) == 0 { 40_000 } else { 0 };
            self.serve(behind);
            if turn == turns / 3 {
                self.stall();
            }
            if [turns / 6, turns * 3 / 4].contains(&turn) {
                self.checkpoint();
            }
            if turn == turns / 2 {
                self.serve(0);
                new.into_iter().for_each(|new| self.change(new));
            }
        }
        self.writer.finish(End::Asked).expect("a Vec takes all")
    }
}

/// A datagram to one of some ports, of any length; some are fragments, some have a tag, some are
/// other frames.
fn frame(random: &mut Random) -> Vec<u8> {
    let length = 60 + random.below(policies::MTU - 60) as usize;
    let mut frame = vec![0; length];
    frame[12] = 8;
    frame[14..16].copy_from_slice(&[0x45, [0, 1, 2, 0xb8][random.below(4) as usize]]);
    frame[16..18].copy_from_slice(&(length as u16 - 14).to_be_bytes());
    frame[19] = random.below(4) as u8;
    frame[20] = [0, 0, 0, 0, 0x20, 0x01][random.below(6) as usize];
    frame[23] = [17, 6][random.below(2) as usize];
    frame[29] = random.below(4) as u8;
    frame[35] = random.below(8) as u8;
    frame[37] = random.below(10) as u8;
    if frame[23] == 6 && length >= 54 {
        let flags = [0x10, 0x02, 0x18, 0x11][frame[29] as usize];
        frame[46..48].copy_from_slice(&[0x50, flags]);
    }
    match random.below(40) {
        0 => frame[12] = 0x88,
        1..10 => {
            let tag = [0x81, 0, frame[35] << 5, 7];
            frame.splice(12..12, tag);
            frame.truncate(length);
        }
        _ => {}
    }
    frame
}

/// A segment of one of three connections that acknowledges `acknowledged`, without data.
fn acknowledgement(random: &mut Random, acknowledged: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[17] = 40;
    frame[23] = 6;
    frame[29] = random.below(3) as u8;
    frame[35] = 1;
    frame[37] = 2;
    frame[42..46].copy_from_slice(&acknowledged.to_be_bytes());
    frame[46..48].copy_from_slice(&[0x50, 0x10]);
    frame
}

/// Returns a policy of this scheduler, with this dropper and this classifier.
pub fn policy(scheduler: &str, dropper: &str, classifier: &str, random: &mut Random) -> String {
    let text = text(scheduler, random);
    let queue = format!("queue = {{ dropper = '{dropper}', limit = '20 packets' }}");
    let text = text.replace("queue = { limit = '20 packets' }", &queue);
    text.replacen("[link]\n", &format!("[link]\nclassifier = '{classifier}'\n"), 1)
}
