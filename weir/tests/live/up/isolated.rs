//! The policy that `weir init` writes, on a running link: flows of one host in one class keep apart,
//! the status names hosts, and a line that changed is one value.

use super::{SLOW, Test, plan};
use std::fs;
use std::process::Command;
use weir_testbed::rows::Outcome;
use weir_testbed::{Host, Stream, StreamConfig, has_drops, until};

pub const TESTS: &[Test] = &[(
    "beside_a_host_s_own_upload_its_other_flow_loses_nothing_while_the_rate_changes",
    flows_of_one_host_keep_apart,
)];

/// Three times the line, all of the host that also sends slowly.
const UPLOAD: StreamConfig = StreamConfig { port: 6000, per_second: 3000, length: 1200 };

fn flows_of_one_host_keep_apart() -> Outcome {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("home").display().to_string();
    let words = ["init", "--down", "50Mbit/s", "--up", "10Mbit/s", "--link", "fibre", "-o", &out];
    let written = Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output()?;
    assert!(written.status.success(), "{written:?}");
    let policy = fs::read_to_string(folder.path().join("home/upload.toml"))?;
    let mut scene = plan(&policy).start()?;
    let upload = Stream::numbered(&scene.testbed, UPLOAD)?;
    let hosts = |status: &weir_link::status::Status| {
        let classes = &status.lanes[0].classes;
        classes.iter().position(|class| class.name == "hosts")
    };
    let is_full = |status: &weir_link::status::Status| {
        hosts(status).is_some_and(|at| has_drops(&status.lanes[0].classes[at]))
    };
    scene.await_status("the upload fills its queue", is_full)?;
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    until("many are sent", || stream.sent() >= 100)?;
    let set = scene.weir(&["set", "link.rate=5Mbit/s", "--control", "weir.sock"])?;
    assert!(set.status.success(), "{} {}", set.stdout, set.stderr);
    until("many more are sent", || stream.sent() >= 200)?;
    let shown = scene.weir(&["status", "--hosts", "5", "--control", "weir.sock"])?.stdout;
    let client = Host::Client.ip4().to_string();
    for part in ["hosts of hosts, ", &client] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // One host sends, so no line tells hosts apart.
    let shown = scene.weir(&["status", "--control", "weir.sock"])?.stdout;
    assert!(!shown.contains("hosts of hosts, "), "{shown}");
    let found = stream.finish()?;
    assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
    assert!(upload.cut_off()?.lost() > 0, "the line is slower than the upload");
    let status = scene.status()?;
    let (_, share) = status.lanes[0].inner[0]
        .parameters
        .iter()
        .find(|row| row.0 == "rate")
        .ok_or("a rate")?
        .clone();
    assert_eq!(share, "5 Mbit/s", "classes follow the link");
    scene.stop()?;
    Ok(())
}
