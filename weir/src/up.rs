//! `weir up`: runs a deployment.

use crate::kind::{self, Kind};
use crate::output::{Exit, Output};
use crate::status::table;
use crate::{Run, input};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_control::protocol::default_socket;
use weir_control::server::Server;
use weir_core::classify::Classifier;
use weir_core::ids::LeafId;
use weir_core::link::{AnyLink, LinkPlan};
use weir_core::parameter::Params;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Rate};
use weir_live::bridge::{Bridge, BridgeConfig, BridgePort, LaneConfig};
use weir_live::privilege::{Need, Privilege};
use weir_live::signals::StopSignal;
use weir_live::status::Board;
use weir_live::wait::WaitPolicy;
use weir_policy::deployment::{self, Deployment, Wait};
use weir_policy::render;

/// Bridges two interfaces with a policy for each direction, until SIGINT or SIGTERM.
///
/// Exits 1 with findings and starts nothing if the deployment or a policy is wrong.
#[derive(clap::Args)]
pub struct Up {
    /// The deployment, in TOML.
    deployment: PathBuf,
}

impl Run for Up {
    fn run(self, output: &Output) -> Exit {
        let name = self.deployment.display().to_string();
        let bytes = match input::read(&self.deployment) {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        let read = |path: &Path| input::read_named(path);
        let outcome = deployment::parse(&bytes, &name, &read);
        if outcome.failed() {
            return kind::refuse(output, (&name, &bytes), Kind::Deployment, &outcome);
        }
        if !outcome.findings.is_empty() {
            output.text(&render::render(&outcome.findings, &outcome.sources, output.colour()));
            output.text(&format!("{name}: {}\n", render::summary(&outcome.findings)));
        }
        let deployment = outcome.plan.expect("without errors there is a plan");
        if let Err(missing) = Privilege::detect().check(Need::Live) {
            return output.refuse(&missing.to_string());
        }
        match forward(&deployment, output) {
            Ok(()) => Exit::Clean,
            Err(error) => output.refuse(&error),
        }
    }
}

/// Runs the bridge on this thread until a stop is requested.
fn forward(deployment: &Deployment, output: &Output) -> Result<(), String> {
    let stop = StopSignal::install().map_err(|error| error.to_string())?;
    let config = bridge_config(deployment)?;
    let mut bridge = Bridge::open(config).map_err(|error| error.to_string())?;
    let board = Arc::new(Board::new());
    let socket = deployment.control.clone().unwrap_or_else(|| default_socket(&deployment.name));
    let server = Server::start(&socket, Arc::clone(&board))?;
    let [first, second] = [0, 1].map(|index| deployment.ports[index].interface.as_str());
    output.text(&format!(
        "{}: {first} and {second} are bridged; status on {}; stop with SIGINT or SIGTERM\n",
        deployment.name,
        socket.display()
    ));
    let ran = bridge.run(stop.flag(), &[stop.descriptor()], &board);
    drop(server);
    output.text(&table(&bridge.status()));
    ran.map_err(|error| error.to_string())
}

fn bridge_config(deployment: &Deployment) -> Result<BridgeConfig, String> {
    let ([first, second], None) = (deployment.ports.as_slice(), deployment.host_interface()) else {
        return Err("this Weir forwards between two interfaces; name two in `ports`".to_owned());
    };
    Ok(BridgeConfig {
        ports: BridgePort::two([&first.interface, &second.interface]),
        lanes: vec![lane(deployment, 0)?, lane(deployment, 1)?],
        wait: match deployment.wait {
            Wait::Hybrid => WaitPolicy::Hybrid,
            Wait::Block => WaitPolicy::Block,
            Wait::Spin => WaitPolicy::Spin,
        },
        lag_max: deployment.lag_max,
        cpu: deployment.bridges[0].cpu.map(|cpu| cpu as usize),
    })
}

/// Returns the policy from this port to the other; without one, frames pass at once.
fn lane(deployment: &Deployment, from: usize) -> Result<LaneConfig, String> {
    let Some(direction) = deployment.direction(from, 1 - from) else {
        return Ok(LaneConfig {
            name: format!("from {}", deployment.ports[from].name),
            from: vec![from],
            to: 1 - from,
            leaf_names: vec!["unshaped".to_owned()],
            classifier: Classifier::new(Vec::new(), LeafId(0), Default::default()),
            link: unshaped()?,
            frames_max: deployment.pool,
            sojourn_max: None,
        });
    };
    let policy = &direction.policy;
    let leaves = (0..policy.link.tree.leaf_count() as u32).map(LeafId);
    Ok(LaneConfig {
        name: direction.name.clone(),
        from: vec![from],
        to: 1 - from,
        leaf_names: leaves.map(|leaf| policy.leaf_name(leaf).to_owned()).collect(),
        classifier: policy.classifier(),
        link: policy.link.build().map_err(|error| error.to_string())?,
        frames_max: direction.pool,
        sojourn_max: direction.sojourn_max,
    })
}

/// A link that is fast enough never to hold a frame back.
fn unshaped() -> Result<Box<dyn AnyLink>, String> {
    let class = ClassSpec { name: "unshaped".to_owned(), parent: None, params: Params::new() };
    let rate = Rate::new(UNSHAPED_RATE).ok_or("the rate of an unshaped link is zero")?;
    let tree = Tree::new(rate, Bytes::new(UNSHAPED_MTU), Params::new(), vec![class])
        .map_err(|error| error.to_string())?;
    let first = weir_core::sched::SCHEDULERS[0].descriptor.keyword;
    LinkPlan::new(first, tree).build().map_err(|error| error.to_string())
}

const UNSHAPED_RATE: u64 = 400_000_000_000;
const UNSHAPED_MTU: u64 = 65_535;
