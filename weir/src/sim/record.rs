//! Writes a run as a record, as a running link would have written it: `weir view`, `weir explain`,
//! `weir fork` and `weir replay --record` then show all of it.
//!
//! A record holds policies as text and calls of a link. So the packets that the simulator offered
//! to a link that has a policy are offered once more, at the same instants, to a link that is
//! built from the text, and that is what is written. A link decides by its calls alone, so it does
//! the same; only what draws random numbers (such as RED) draws others, since the simulator mixes
//! the scenario's seed in. Invariant: what [`weir_trace::recorded::replay`] makes of the file is
//! the same to the bit.

use crate::whole_file::cannot;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use toml::{Table, Value};
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::ids::Handle;
use weir_core::link::{AnyLink, Change as LinkChange, Packet, Pending};
use weir_core::packet::Headers;
use weir_core::sched::Descriptor;
use weir_core::units::Instant;
use weir_policy::file::ReadFile;
use weir_policy::{Policy, policy, translate};
use weir_sim::watch::places;
use weir_sim::{Fate, Scenario, frame};
use weir_trace::record::{
    Arrival, Change, End, Fate as Offer, File, Head, LaneHead, RecordWriter, Step, headers_of,
};
use weir_trace::recorded::policy_of;

/// A record in the making: packets are kept until the run is over, since they are told as they
/// leave and recorded as they came.
pub struct Recording {
    head: Head,
    lanes: Vec<Lane>,
    /// The lane of each outlet that has a policy.
    of_outlet: BTreeMap<u32, usize>,
    end: Instant,
    frame: Vec<u8>,
}

/// The packets of an outlet.
struct Lane {
    /// When the policy changes, in the order of time, and to which.
    changes: Vec<(Instant, File)>,
    frames: Vec<Frame>,
}

/// A packet that was offered.
struct Frame {
    arrived: Instant,
    length: u32,
    class: Box<str>,
    headers: Box<[u8]>,
}

/// The texts that a scenario was read from.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    /// The scenario's own, and its name.
    pub text: &'a str,
    /// Its name.
    pub name: &'a Path,
    /// Reads the files that it names.
    pub read: ReadFile<'a>,
    /// The scheduler for which the main outlet's policy is translated.
    pub scheduler: Option<&'static Descriptor>,
}

impl Recording {
    /// An empty record of a run.
    ///
    /// # Errors
    /// When a text cannot be read, or a link cannot be recorded.
    pub fn of(scenario: &Scenario, written: Written<'_>) -> Result<Self, String> {
        let table: Table = toml::from_str(written.text)
            .map_err(|error| format!("{}: {error}", written.name.display()))?;
        let main = scenario.network.as_ref().map_or(0, |network| network.main.0);
        let texts = Texts { written, table: &table, main };
        let mut head = Head {
            weir: weir_cli::VERSION.to_owned(),
            name: scenario.name.clone(),
            ..Head::default()
        };
        let (mut lanes, mut of_outlet) = (Vec::new(), BTreeMap::new());
        let mut outlets: Vec<_> = (0u32..).zip(places(scenario)).collect();
        // The page opens on the first.
        outlets.sort_by_key(|(outlet, _)| *outlet != main);
        for (outlet, (link, from)) in outlets {
            let Some(file) = texts.of_outlet(outlet, scenario)? else { continue };
            of_outlet.insert(outlet, lanes.len());
            let lane = if from.is_empty() { link } else { format!("{link} from {from}") };
            let place = lanes.len() as u16;
            head.ports.extend([format!("{lane}, in"), format!("{lane}, out")]);
            head.lanes.push(LaneHead {
                name: lane,
                bridge: place,
                from: vec![2 * place],
                to: 2 * place + 1,
                policy: file.name.clone(),
                sojourn_max: Vec::new(),
            });
            head.files.extend(texts.with_named(file)?);
            lanes.push(Lane { changes: texts.changes(outlet, scenario)?, frames: Vec::new() });
        }
        if lanes.is_empty() {
            return Err("--record: no link of the scenario has a policy".to_owned());
        }
        let end = Instant::ZERO.after(scenario.duration);
        Ok(Self { head, lanes, of_outlet, end, frame: Vec::new() })
    }

    /// Keeps a packet that left, was dropped, or waits at the end.
    pub fn add(&mut self, fate: &Fate<'_>) {
        let Some(lane) = self.of_outlet.get(&fate.outlet.0) else { return };
        frame::write(fate.headers, fate.length, fate.content, None, &mut self.frame);
        let parsed = Headers::parse_ethernet(&self.frame);
        self.lanes[*lane].frames.push(Frame {
            arrived: fate.arrived,
            length: fate.length,
            class: fate.class.into(),
            headers: headers_of(&self.frame, &parsed).into(),
        });
    }

    /// Writes the record; returns the output, and how many packets came to another class than in
    /// the run.
    ///
    /// # Errors
    /// When it cannot be written, or a policy cannot be built from its text.
    pub fn finish<W: Write>(self, output: W) -> Result<(W, u64), String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut writer = RecordWriter::new(output, &self.head).map_err(failed)?;
        let mut others = 0;
        for (place, mut lane) in self.lanes.into_iter().enumerate() {
            // Told as they leave; those that came at one instant keep that order.
            lane.frames.sort_by_key(|frame| frame.arrived);
            let mut link = Replayed::new(place, &self.head, &mut writer)?;
            let mut changes = lane.changes.into_iter().peekable();
            for frames in lane.frames.chunk_by(|one, next| one.arrived == next.arrived) {
                let now = frames[0].arrived;
                while let Some((at, file)) = changes.next_if(|change| change.0 <= now) {
                    link.change(at, file, &self.head)?;
                }
                link.arrive(now, frames)?;
            }
            for (at, file) in changes {
                link.change(at, file, &self.head)?;
            }
            link.serve(self.end)?;
            others += link.others;
        }
        Ok((writer.finish(End::Time).map_err(failed)?, others))
    }
}

/// A link that is built from the text of its policy, and what it does is written.
struct Replayed<'a, W> {
    lane: usize,
    policy: Policy,
    classifier: Classifier,
    link: Box<dyn AnyLink>,
    pending: Pending,
    writer: &'a mut RecordWriter<W>,
    handle: u32,
    /// When the link has to be served again.
    next: Option<Instant>,
    /// Packets that came to another class than in the run.
    others: u64,
}

impl<'a, W: Write> Replayed<'a, W> {
    fn new(lane: usize, head: &Head, writer: &'a mut RecordWriter<W>) -> Result<Self, String> {
        let policy = policy_of(&head.lanes[lane].policy, &head.files, head)?.with_places();
        Ok(Self {
            lane,
            classifier: policy.classifier(),
            link: policy.link.build().map_err(|error| error.message)?,
            policy,
            pending: Pending::default(),
            writer,
            handle: 0,
            next: None,
            others: 0,
        })
    }

    fn note(&mut self, step: &Step<'_>) -> Result<(), String> {
        self.writer.step(self.lane, step).map_err(|error| error.to_string())
    }

    /// Offers the packets of an instant.
    fn arrive(&mut self, now: Instant, frames: &[Frame]) -> Result<(), String> {
        self.serve_before(now)?;
        frames.iter().try_for_each(|frame| self.classify(frame))?;
        self.serve_at(now)
    }

    fn classify(&mut self, frame: &Frame) -> Result<(), String> {
        let headers = Headers::parse_ethernet(&frame.headers);
        let at = self.pending.offer_at(frame.arrived);
        let port = InterfaceId(2 * self.lane as u16);
        let classified = self.classifier.classify(self.pending.classify_at(at), port, &headers);
        self.others += u64::from(self.policy.leaf_name(classified.leaf) != &*frame.class);
        self.handle = self.handle.wrapping_add(1);
        let packet = Packet {
            handle: Handle(self.handle),
            length: frame.length,
            train: 0,
            flow: headers.flow(classified.flow),
            host: headers.host(classified.flow),
            traffic_class: headers.traffic_class.unwrap_or(0),
            meter: classified.meter,
        };
        let (leaf, fate) = (classified.leaf, Offer::Offered);
        let arrival = Arrival { at, port, leaf, packet, fate, headers: &frame.headers };
        self.note(&Step::Arrival(arrival))?;
        let offered = arrival.offered();
        self.link.note_frame(&offered, &frame.headers, &headers);
        self.pending.push(offered);
        Ok(())
    }

    /// Serves whenever the link asks for it, so that nothing leaves late, and at `until`.
    fn serve(&mut self, until: Instant) -> Result<(), String> {
        self.serve_before(until)?;
        self.serve_at(until)
    }

    fn serve_before(&mut self, until: Instant) -> Result<(), String> {
        while let Some(next) = self.next.filter(|next| *next < until) {
            self.serve_at(next.max(self.pending.now()))?;
        }
        Ok(())
    }

    fn serve_at(&mut self, until: Instant) -> Result<(), String> {
        let mut out = Vec::new();
        let link = &mut self.link;
        let next = self.pending.serve(until, |due| link.serve(due, until, &mut out));
        // A link that asks for the same instant again is asked at the next one.
        self.next = next.filter(|next| *next > until);
        self.note(&Step::Serve { until })?;
        for departure in out {
            self.note(&Step::Departure(departure))?;
        }
        self.take_dropped()
    }

    fn take_dropped(&mut self) -> Result<(), String> {
        let mut drops = Vec::new();
        self.link.take_dropped(&mut |dropped| drops.push(dropped));
        drops.iter().try_for_each(|dropped| self.note(&Step::Dropped(*dropped)))
    }

    fn change(&mut self, at: Instant, file: File, head: &Head) -> Result<(), String> {
        self.serve(at)?;
        let (name, files) = (file.name.clone(), vec![file]);
        let policy = policy_of(&name, &files, head)?.with_places();
        let (from, to) = (&self.policy.link, &policy.link);
        let applied = LinkChange { from, to, heir: policy.default.leaf }.apply(&mut self.link, at);
        applied.map_err(|error| error.message)?;
        self.classifier = policy.classifier();
        self.policy = policy;
        let change = Change { at, policy: name, files, ..Change::default() };
        self.note(&Step::Change(Box::new(change)))?;
        self.take_dropped()
    }
}

/// The texts of a scenario's policies.
struct Texts<'a> {
    written: Written<'a>,
    table: &'a Table,
    /// The outlet in question.
    main: u32,
}

impl Texts<'_> {
    /// Returns the policy of an outlet, if it has one.
    fn of_outlet(&self, outlet: u32, scenario: &Scenario) -> Result<Option<File>, String> {
        if scenario.network.is_none() {
            let value = self.table.get("policy");
            return value.map(|value| self.file(value, "policy.toml", outlet)).transpose();
        }
        let links = self.table.get("link").and_then(Value::as_array);
        let link = links.and_then(|links| links.get(outlet as usize / 2)?.as_table());
        let way = match outlet % 2 {
            0 => link,
            _ => link.and_then(|link| link.get("back")?.as_table()),
        };
        let Some(value) = way.and_then(|way| way.get("policy")) else { return Ok(None) };
        let driven = |key: &&str| way.is_some_and(|way| way.contains_key(*key));
        if let Some(key) = ["driver", "tick", "pvc_rate_is"].into_iter().find(driven) {
            return Err(format!(
                "--record: link {} has a `{key}`, and a record has only what a policy says; take \
                 it out",
                outlet / 2 + 1
            ));
        }
        self.file(value, &format!("policy-{outlet}.toml"), outlet).map(Some)
    }

    /// Returns the changes of an outlet's policy, in the order of time.
    fn changes(&self, outlet: u32, scenario: &Scenario) -> Result<Vec<(Instant, File)>, String> {
        let rows = self.table.get("change").and_then(Value::as_array);
        let rows = rows.map(Vec::as_slice).unwrap_or_default();
        let mut own = Vec::new();
        for (place, (change, row)) in scenario.changes.iter().zip(rows).enumerate() {
            let value = row.get("policy").filter(|_| change.outlet.0 == outlet);
            if let Some(value) = value {
                own.push((change.at, self.file(value, &format!("change-{place}.toml"), outlet)?));
            }
        }
        Ok(own)
    }

    /// Returns the file that a value names, or the text of the table that it is, as the outlet has
    /// it.
    fn file(&self, value: &Value, name: &str, outlet: u32) -> Result<File, String> {
        let file = match value {
            Value::String(named) => {
                let path = self.folder().join(named);
                let name = path.display().to_string();
                let read = self.written.read;
                let bytes = read(&path).map_err(|error| cannot("read", &name, &error))?;
                File { name, text: String::from_utf8_lossy(&bytes).into_owned() }
            }
            value => {
                let text = toml::to_string(value).map_err(|error| error.to_string())?;
                File { name: name.to_owned(), text }
            }
        };
        match self.written.scheduler.filter(|_| outlet == self.main) {
            Some(to) => self.translated(file, to),
            None => Ok(file),
        }
    }

    /// Returns a policy as it is for another scheduler.
    fn translated(&self, file: File, to: &'static Descriptor) -> Result<File, String> {
        let File { name, text } = file;
        let read = |path: &Path| self.near(path);
        let outcome = policy::parse_bytes(text.as_bytes(), &name, None, &read);
        let plan = outcome.plan.filter(|plan| plan.link.scheduler != to.keyword);
        let Some(plan) = plan else { return Ok(File { name, text }) };
        let converted = translate::convert((&text, &name), &plan, to)?;
        Ok(File { name, text: converted.text })
    }

    fn folder(&self) -> &Path {
        self.written.name.parent().unwrap_or(Path::new(""))
    }

    /// Reads a file that a policy names, from where it is named or from the scenario's folder.
    fn near(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let read = self.written.read;
        read(path).or_else(|_| read(&self.folder().join(path)))
    }

    /// Returns a policy and every file that it names.
    fn with_named(&self, file: File) -> Result<Vec<File>, String> {
        let named = std::cell::RefCell::new(Vec::new());
        let read = |path: &Path| {
            let bytes = self.near(path)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            named.borrow_mut().push(File { name: path.display().to_string(), text });
            Ok(bytes)
        };
        policy::parse_bytes(file.text.as_bytes(), &file.name, None, &read);
        let mut files = vec![file];
        files.extend(named.into_inner());
        Ok(files)
    }
}
