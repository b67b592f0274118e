//! A record's frames as the sources of a scenario: the same frames at the same times, for another
//! policy, scheduler or rate.

use crate::change::PlanChange;
use crate::kinds::{RECORD_FLOWS_MAX, RECORDS_MAX, Record, Recorded};
use crate::network::plan::OutletId;
use crate::scenario::{Jitter, LENGTH_MAX, Scenario, Source, Traffic};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_core::classify::InterfaceId;
use weir_core::packet::{FlowKey, Headers};
use weir_core::units::{Duration, Instant};
use weir_trace::record::{Change, Fate, Head, RecordReader, Step};
use weir_trace::recorded::{RecordedError, policy_of};

/// Returns a scenario of one direction of a record: its policy with its changes, and each flow of
/// its frames as a source. Without a name, of the first direction. Frames that were lost before the
/// link are sources, too: a simulation has no room that they could lack.
///
/// # Errors
/// When it is no record or damaged, has no such direction or more flows than a simulation takes.
pub fn scenario(
    mut reader: RecordReader<'_>,
    direction: Option<&str>,
) -> Result<Scenario, RecordedError> {
    let head = reader.head().clone();
    let names = || head.lanes.iter().map(|lane| lane.name.as_str());
    let lane = match direction {
        None => 0,
        Some(name) => names().position(|known| known == name).ok_or_else(|| {
            let names = names().collect::<Vec<_>>().join("`, `");
            RecordedError::Policy(format!("there is no direction `{name}`; there are `{names}`"))
        })?,
    };
    let own = head
        .lanes
        .get(lane)
        .ok_or_else(|| RecordedError::Policy("the record has no direction".to_owned()))?;
    let policy = policy_of(&own.policy, &head.files, &head).map_err(RecordedError::Policy)?;
    let classifier = policy.classifier();
    let mut gathered =
        Gathered { tests_details: classifier.tests_details(), ..Gathered::default() };
    while let Some((of, step)) = reader.next_step().map_err(RecordedError::Record)? {
        if of == lane {
            gathered.add(&step, &head).map_err(RecordedError::Policy)?;
        }
    }
    Ok(Scenario {
        name: own.name.clone(),
        link: policy.link,
        classifier,
        delay: Duration::ZERO,
        duration: gathered.duration(),
        warmup: Duration::ZERO,
        seed: 1,
        demands: policy.demands,
        sources: gathered.sources.into_iter().map(Flow::source).collect(),
        changes: gathered.changes,
        network: None,
        behind: None,
        jitter: Jitter::default(),
    })
}

/// A simulation takes its policies from texts.
const JOINED: &str = "classes joined the link or left it while this was recorded, which a \
                      simulation does not follow; record while none does";

/// The sources and changes of one direction of a record.
#[derive(Default)]
struct Gathered {
    sources: Vec<Flow>,
    /// Places in `sources`, by a key that is quick to compare.
    places: BTreeMap<(u16, u32, Option<u8>), Vec<usize>>,
    changes: Vec<PlanChange>,
    /// Whether rules test TCP's flags or lengths: then segments with other flags are another flow.
    tests_details: bool,
    frames: usize,
    start: Option<u64>,
    last: u64,
}

/// Frames with equal headers.
struct Flow {
    name: String,
    headers: Headers,
    interface: InterfaceId,
    records: Vec<Record>,
}

impl Flow {
    fn source(self) -> Source {
        Source {
            name: self.name,
            headers: self.headers,
            interface: self.interface,
            start: Instant::ZERO,
            stop: None,
            traffic: Traffic::Scripted(Arc::new(Recorded::new(self.records))),
            ends: None,
        }
    }
}

impl Gathered {
    fn add(&mut self, step: &Step<'_>, head: &Head) -> Result<(), String> {
        match step {
            Step::Checkpoint { now, .. } => {
                self.start.get_or_insert(now.as_nanos());
            }
            Step::Arrival(arrival) if arrival.fate != Fate::Resumed => {
                let at = self.since_start(arrival.at);
                self.last = self.last.max(at);
                let place = self.flow(arrival.port, Headers::parse_ethernet(arrival.headers));
                let length = arrival.packet.length.clamp(1, LENGTH_MAX);
                self.sources[place].records.push(Record { at, length, flow: 0 });
                self.frames += 1;
                let flows = self.sources.len();
                if self.frames > RECORDS_MAX || flows > RECORD_FLOWS_MAX {
                    return Err(format!(
                        "the record has more than {RECORDS_MAX} frames or {RECORD_FLOWS_MAX} \
                         flows; record for a shorter time"
                    ));
                }
            }
            Step::Change(change) => self.change(change, head)?,
            Step::Joins(_) => return Err(JOINED.to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, change: &Change, head: &Head) -> Result<(), String> {
        let policy = policy_of(&change.policy, &change.files, head)?;
        let at = Instant::from_nanos(self.since_start(change.at));
        let classifier = policy.classifier();
        self.tests_details |= classifier.tests_details();
        self.changes.push(PlanChange {
            at,
            policy: change.policy.clone(),
            classifier,
            heir: policy.default.leaf,
            link: policy.link,
            outlet: OutletId(0),
            interfaces: Vec::new(),
        });
        Ok(())
    }

    fn since_start(&mut self, at: Instant) -> u64 {
        let start = *self.start.get_or_insert(at.as_nanos());
        at.as_nanos().saturating_sub(start)
    }

    /// Returns the place of the flow with these headers, which is made if there is none.
    fn flow(&mut self, interface: InterfaceId, headers: Headers) -> usize {
        let transport = headers.transport;
        let mut headers = headers.in_common();
        if self.tests_details {
            headers.transport = transport;
        }
        let key = (interface.0, headers.flow(FlowKey::Connection), headers.traffic_class);
        let places = self.places.entry(key).or_default();
        let known = places.iter().find(|place| self.sources[**place].headers == headers);
        if let Some(place) = known {
            return *place;
        }
        let place = self.sources.len();
        places.push(place);
        let name = format!("flow/{}", place + 1);
        self.sources.push(Flow { name, headers, interface, records: Vec::new() });
        place
    }

    /// Returns the time to the last frame, and a second more for what waits then.
    fn duration(&self) -> Duration {
        Duration::from_nanos(self.last.saturating_add(1_000_000_000))
    }
}
