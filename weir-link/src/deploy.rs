//! A deployment's bridges, as the run loop wants them.

use std::path::Path;

use weir_autorate::{Plan, Way};
use weir_core::classify::InterfaceId;
use weir_core::sched::SCHEDULERS;
use weir_policy::deployment::{self, Autorate, Deployment, Direction, Side};
use weir_policy::policy;
use weir_trace::record::{File, Head, LaneHead};

use crate::bridge::{BridgeConfig, BridgePort, LaneConfig, Varies};
use crate::port::impaired::Impairment;
use crate::port::{PortConfig, SHARES_MAX, worker};
use crate::sorter::{SortConfig, SortPlan};
use weir_host::error::{Result, SystemError};
use weir_host::sandbox;
use weir_host::wait::{WaitPolicy, usable_cpus};

/// Returns what each bridge of a deployment runs.
///
/// # Errors
/// When a link cannot be built.
pub fn bridges(deployment: &Deployment) -> Result<Vec<BridgeConfig>> {
    bridges_sorted(deployment, &sort_plans(deployment))
}

/// As [`bridges`], of a deployment whose directions have these plans.
///
/// # Errors
/// When a link cannot be built.
pub fn bridges_sorted(deployment: &Deployment, plans: &[SortPlan]) -> Result<Vec<BridgeConfig>> {
    deployment.bridges.iter().map(|bridge| config((deployment, plans), bridge)).collect()
}

/// Returns how frames of each direction are sorted into rings.
pub fn sort_plans(deployment: &Deployment) -> Vec<SortPlan> {
    let config = deployment.directions.iter().map(SortConfig::of_direction);
    config.map(SortPlan::new).collect()
}

/// Returns the ports of a deployment by number, each as its bridge opens it but for how it sorts
/// frames: what a keeper's [`AuthorityServer`](crate::authority::AuthorityServer) is made of. It
/// needs no policy.
pub fn port_configs(deployment: &Deployment) -> Vec<PortConfig> {
    (0..deployment.ports.len()).map(|number| port_config(deployment, number)).collect()
}

/// Returns what the kernel cannot keep apart where directions have these plans: classes that share
/// the ring of the default class, so that a flood in one of them takes frames of the others.
pub fn notes(deployment: &Deployment, plans: &[SortPlan]) -> Vec<String> {
    let said = |(direction, plan): (&Direction, &SortPlan)| {
        let name = |leaf| direction.policy.leaf_name(leaf).to_owned();
        let notes = plan.notes(&sorted(deployment, direction), name).into_iter();
        notes.map(|note| format!("{}: {note}", direction.name)).collect::<Vec<_>>()
    };
    deployment.directions.iter().zip(plans).flat_map(said).collect()
}

/// Returns which files that a deployment needs while it runs are missing on this machine: the
/// folder of its log, and programs of alarms.
pub fn missing(deployment: &Deployment) -> Vec<String> {
    let mut missing = Vec::new();
    let folder = deployment.service.log.as_deref().and_then(Path::parent);
    if let Some(folder) = folder.filter(|folder| *folder != Path::new("") && !folder.is_dir()) {
        missing.push(format!("there is no folder `{}` for the `log`", folder.display()));
    }
    let programs = deployment.alarms.iter().filter_map(|alarm| Some((alarm, alarm.run.first()?)));
    for (alarm, program) in programs.filter(|(_, program)| !Path::new(program).is_file()) {
        missing.push(format!("there is no program `{program}`, which alarm `{}` runs", alarm.name));
    }
    missing
}

/// Returns what is wrong with the user of a deployment on this machine, if something is. Another
/// machine, for which the deployment may be, can have the user.
pub fn missing_user(deployment: &Deployment) -> Option<String> {
    let user = deployment.service.user.as_ref()?;
    (!sandbox::is_user(user)).then(|| {
        format!(
            "there is no user `{user}` here, which the forwarder is to be; `weir up` will not \
             start as root: name one that `getent passwd` lists in `user`"
        )
    })
}

/// Checks what a deployment needs of this process beside interfaces and files: that each CPU that
/// it names is there, and that the forwarder can become its user.
///
/// # Errors
/// When it is not; the error names the cure.
pub fn check_host(deployment: &Deployment) -> Result<()> {
    check_cpus(deployment)?;
    deployment.service.user.as_deref().map_or(Ok(()), sandbox::check_user)
}

/// Returns the ports where a direction's frames are sorted: those whose frames all go by it.
fn sorted(deployment: &Deployment, direction: &Direction) -> Vec<InterfaceId> {
    let has_two = |port: &&usize| {
        let bridge = deployment.bridges.iter().find(|bridge| bridge.ports.contains(port));
        bridge.is_some_and(|bridge| bridge.ports.len() == 2)
    };
    direction.from.iter().filter(has_two).map(|port| InterfaceId(*port as u16)).collect()
}

/// Checks that each CPU that a deployment names is there for this process; the error names those
/// that are.
fn check_cpus(deployment: &Deployment) -> Result<()> {
    let named = || deployment.bridges.iter().filter_map(|bridge| bridge.cpu);
    if named().next().is_none() {
        return Ok(());
    }
    // Where they cannot be read, the bridge's thread sees whether it gets its CPU.
    let Ok(usable) = usable_cpus() else { return Ok(()) };
    match named().find(|cpu| !usable.contains(&(*cpu as usize))) {
        Some(cpu) => Err(SystemError::refused(
            format!("keep a bridge on CPU {cpu}, as `cpu` or `cpus` says"),
            format!("this process may run on {} only", ranges(&usable)),
            "name one of these",
        )),
        None => Ok(()),
    }
}

/// Formats ascending numbers of CPUs, such as "CPUs 0-3, 8".
fn ranges(cpus: &[usize]) -> String {
    let runs = cpus.chunk_by(|one, next| one + 1 == *next).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(usize::to_string).collect(),
    });
    let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    format!("{noun} {}", runs.collect::<Vec<_>>().join(", "))
}

fn config(
    (deployment, plans): (&Deployment, &[SortPlan]),
    bridge: &deployment::Bridge,
) -> Result<BridgeConfig> {
    let port = |&port: &usize| BridgePort::new(port as u16, port_config(deployment, port));
    Ok(BridgeConfig {
        ports: bridge.ports.iter().map(port).collect(),
        lanes: lanes((deployment, plans), bridge)?,
        wait: match deployment.wait {
            deployment::Wait::Hybrid => WaitPolicy::Hybrid,
            deployment::Wait::Block => WaitPolicy::Block,
            deployment::Wait::Spin => WaitPolicy::Spin,
        },
        lag_max: deployment.lag_max,
        cpu: bridge.cpu.map(|cpu| cpu as usize),
        workers: workers(deployment.workers),
        passes_carrier: deployment.carrier == deployment::Carrier::Pass,
        intake: true,
    })
}

/// Returns how many threads may share a port of a deployment.
pub(crate) fn shares(deployment: &Deployment, port: usize) -> usize {
    let place = |bridge: &deployment::Bridge| bridge.ports.iter().position(|one| *one == port);
    let found = deployment.bridges.iter().find_map(|bridge| Some((bridge, place(bridge)?)));
    let of = |(bridge, place): (&deployment::Bridge, usize)| {
        worker::shares(workers(deployment.workers), bridge.ports.len(), place)
    };
    found.map_or(1, of)
}

/// Returns how many threads receive and send for a bridge: where the deployment leaves that to the
/// machine, those that remain of its processors beside the loop, up to what a number may say.
fn workers(wanted: Option<u32>) -> usize {
    let beside = || usable_cpus().map_or(1, |usable| usable.len().saturating_sub(1).max(1));
    wanted.map_or_else(beside, |workers| workers as usize).min(SHARES_MAX)
}

fn port_config(deployment: &Deployment, number: usize) -> PortConfig {
    let port = &deployment.ports[number];
    let kind = match port.side {
        Side::Interface => port.kind,
        Side::Host => "host",
        Side::Wire => "wire",
    };
    let impairment = Impairment { delay: port.delay, loss: port.loss, seed: port.seed };
    let withheld = deployment.rsvp_bridge().filter(|(bridge, _)| bridge.ports.contains(&number));
    let withheld = withheld.map(|(_, address)| address);
    // Packet sockets beside a port do not see what AF_XDP takes.
    let kind = if withheld.is_some() { "afpacket" } else { kind };
    PortConfig {
        kind: kind.to_owned(),
        impairment,
        withheld,
        reflectors: port.reflectors.clone(),
        ring_slots: deployment.receive_ring as usize,
        ..PortConfig::new(&port.interface)
    }
}

/// A lane for each direction, and for the ways that none shapes one for each port where they end.
fn lanes(
    (deployment, plans): (&Deployment, &[SortPlan]),
    bridge: &deployment::Bridge,
) -> Result<Vec<LaneConfig>> {
    let lane = |LaneWay { name, from, to, direction }| match direction {
        Some(way) => shaped(&deployment.directions[way], (from, to), &plans[way]),
        None => unshaped(name, from, to, deployment.pool),
    };
    ways(deployment, bridge).into_iter().map(lane).collect()
}

/// A lane to be.
struct LaneWay {
    name: String,
    /// Places among the ports of the bridge.
    from: Vec<usize>,
    to: usize,
    /// The number of the direction that shapes it.
    direction: Option<usize>,
}

fn ways(deployment: &Deployment, bridge: &deployment::Bridge) -> Vec<LaneWay> {
    let index = |port: usize| bridge.ports.iter().position(|one| *one == port);
    let mut ways = Vec::new();
    for &number in &bridge.directions {
        let direction = &deployment.directions[number];
        let from = direction.from.iter().filter_map(|&port| index(port)).collect();
        let to = index(direction.to).unwrap_or_default();
        ways.push(LaneWay { name: direction.name.clone(), from, to, direction: Some(number) });
    }
    for (to, &port) in bridge.ports.iter().enumerate() {
        let is_unshaped =
            |&from: &usize| from != to && deployment.direction(bridge.ports[from], port).is_none();
        let from: Vec<usize> = (0..bridge.ports.len()).filter(is_unshaped).collect();
        if !from.is_empty() {
            let name = match from.as_slice() {
                [one] => format!("from {}", deployment.ports[bridge.ports[*one]].name),
                _ => format!("to {}", deployment.ports[port].name),
            };
            ways.push(LaneWay { name, from, to, direction: None });
        }
    }
    ways
}

fn shaped(direction: &Direction, ends: (Vec<usize>, usize), plan: &SortPlan) -> Result<LaneConfig> {
    let varies = |autorate: &Autorate| {
        let Autorate { way, limits, controller, .. } = *autorate;
        let modem = if way == Way::Up { ends.1 } else { *ends.0.first()? };
        Some(Varies { way, modem, plan: Plan { limits, controller } })
    };
    let autorate = direction.autorate.as_ref().and_then(varies);
    let lane = LaneConfig::unsorted(&direction.name, ends, &direction.policy)?;
    let (sojourn_max, train_max) = (direction.sojourn_max.clone(), direction.train_max.clone());
    let (sorting, frames_max) = (Some(plan.clone()), direction.pool);
    let restores_dscp = direction.restores_dscp;
    let lane = LaneConfig { sorting, frames_max, sojourn_max, train_max, ..lane };
    Ok(LaneConfig { autorate, restores_dscp, ..lane })
}

/// A lane through which frames pass at once.
fn unshaped(name: String, from: Vec<usize>, to: usize, frames_max: u32) -> Result<LaneConfig> {
    let outcome = policy::parse(&unshaped_policy(), UNSHAPED);
    let policy = outcome.plan.expect("the policy has no errors");
    let lane = LaneConfig::unsorted(&name, (from, to), &policy)?;
    Ok(LaneConfig { frames_max, ..lane })
}

/// Returns what a record of a deployment's link begins with, at `epoch_ns` of the wall clock;
/// `files` are the policies with every file that they name. Its lanes are those of [`bridges`], one
/// after the other.
pub fn record_head(deployment: &Deployment, files: Vec<File>, epoch_ns: u64) -> Head {
    let mut head = Head {
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        name: deployment.name.clone(),
        epoch_ns,
        ports: deployment.ports.iter().map(|port| port.name.clone()).collect(),
        lanes: Vec::new(),
        files,
    };
    head.files.push(File { name: UNSHAPED.to_owned(), text: unshaped_policy() });
    for (number, bridge) in (0..).zip(&deployment.bridges) {
        let port = |index: usize| bridge.ports[index] as u16;
        for LaneWay { name, from, to, direction } in ways(deployment, bridge) {
            let direction = direction.map(|way| &deployment.directions[way]);
            let policy = direction.map_or(UNSHAPED.to_owned(), |it| it.path.display().to_string());
            head.lanes.push(LaneHead {
                name,
                bridge: number,
                from: from.into_iter().map(port).collect(),
                to: port(to),
                policy,
                sojourn_max: direction.map_or(Vec::new(), |it| it.sojourn_max.clone()),
            });
        }
    }
    head
}

/// The policy of a link that is fast enough never to hold a frame back.
fn unshaped_policy() -> String {
    let scheduler = SCHEDULERS[0].descriptor.keyword;
    format!(
        "[link]\nrate = '400 Gbit/s'\nmtu = '65535 B'\nscheduler = '{scheduler}'\n\
         [class.unshaped]\ndefault = true\n"
    )
}

/// The name of [`unshaped_policy`] in records.
const UNSHAPED: &str = "(unshaped)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::PortSource;

    const POLICY: &str = "[link]\nrate = '1 Mbit/s'\nscheduler = 'fifo'\n\
         [class.other]\nmatch = [{ ethertype = '0x88b6' }]\n[class.rest]\ndefault = true\n";

    /// A deployment of ports `a`, `b`, ... with these directions, each `from>to`.
    fn deployment(ports: usize, directions: &str) -> Deployment {
        let port = |n: usize| format!("{0} = '{0}0'", char::from(b'a' + n as u8));
        let ports = (0..ports).map(port).collect::<Vec<_>>().join(", ");
        let mut text = format!("[deployment]\nname = 'd'\nports = {{ {ports} }}\n");
        for way in directions.split(' ') {
            let (from, to) = way.split_once('>').expect("two ends");
            let from: Vec<_> = from.chars().map(|port| format!("'{port}'")).collect();
            let from = from.join(", ");
            let name = way.replace('>', "-");
            text +=
                &format!("[direction.{name}]\nfrom = [{from}]\nto = '{to}'\npolicy = 'p.toml'\n");
        }
        let read = |_: &std::path::Path| Ok(POLICY.as_bytes().to_vec());
        let outcome = deployment::parse(text.as_bytes(), "d.toml", &read);
        outcome.plan.unwrap_or_else(|| panic!("{directions}: {:?}", outcome.findings))
    }

    #[test]
    fn a_port_sorts_where_all_its_frames_go_one_way() {
        for (ports, directions, sorted) in [
            (2, "a>b b>a", 2),
            (2, "a>b", 1),
            (3, "ab>c c>a c>b", 0),
            (3, "ab>c ac>b bc>a", 0),
            (4, "a>b b>a c>d d>c", 4),
        ] {
            let deployment = deployment(ports, directions);
            let at_server = port_configs(&deployment);
            let mut count = 0;
            for mut bridge in bridges(&deployment).expect("links can be built") {
                for port in bridge.sorted_ports() {
                    let PortSource::Config(config) = &port.source else { continue };
                    let server = &at_server[usize::from(port.number.0)];
                    assert_eq!(
                        (&config.interface, &config.kind),
                        (&server.interface, &server.kind)
                    );
                    assert!(server.sorting.is_none(), "a server knows no policy");
                    let sound = config.sorting.as_ref().map(|sorting| sorting.check());
                    assert!(sound.is_none_or(|sound| sound.is_ok()), "{directions}");
                    count += usize::from(config.sorting.is_some());
                }
            }
            assert_eq!(count, sorted, "{directions}");
        }
    }

    #[test]
    fn cpus_are_shown_as_ranges() {
        let rows: &[(&[usize], &str)] =
            &[(&[0], "CPU 0"), (&[0, 1], "CPUs 0-1"), (&[0, 2, 3, 4, 9], "CPUs 0, 2-4, 9")];
        for (cpus, wanted) in rows {
            assert_eq!(ranges(cpus), *wanted);
        }
    }
}
