//! `weir init` as a user runs it: what it writes has no findings and keeps calls short, and it
//! overwrites nothing.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn weir(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

/// Returns the path of a folder that does not exist.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).expect("it was left by an earlier run");
    }
    path
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is text")
}

/// Runs `weir init` into a folder and returns the folder.
fn init(name: &str, line: (&str, &str, &str)) -> PathBuf {
    init_with(name, line, &[])
}

/// As [`init`], with more options.
fn init_with(name: &str, (down, up, link): (&str, &str, &str), more: &[&str]) -> PathBuf {
    let path = folder(name);
    let out = path.display().to_string();
    let base = ["init", "--down", down, "--up", up, "--link", link, "-o", &out];
    let output = weir(&[&base, more].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    path
}

#[test]
fn what_it_writes_has_no_findings() {
    let rows = [
        ("256kbit/s", "256 kbit/s", "atm"),
        ("20Mbit/s", "5Mbit/s", "pppoe"),
        ("100 Mbit/s", "40 Mbit/s", "ptm"),
        ("1 Gbit/s", "50 Mbit/s", "docsis"),
        ("10 Gbit/s", "10 Gbit/s", "ethernet"),
        ("1 Gbit/s", "500 Mbit/s", "fibre"),
    ];
    let queues: [&[&str]; 2] = [&[], &["--queue", "cake"]];
    for (row, more) in rows.into_iter().flat_map(|row| queues.map(|more| (row, more))) {
        let folder = init_with("init-checked", row, more);
        let deployment = folder.join("deployment.toml").display().to_string();
        let output = weir(&["check", "--format", "json", &deployment]);
        let checked: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert_eq!(checked["kind"], "deployment", "{row:?}");
        assert_eq!(checked["findings"].as_array().map(Vec::len), Some(0), "{row:?}: {checked}");
        for policy in ["download.toml", "upload.toml"] {
            let policy = fs::read_to_string(folder.join(policy)).expect("it is written");
            assert!(!policy.contains('@'), "every value is filled in: {policy}");
        }
    }
}

#[test]
fn a_line_that_varies_has_a_policy_for_its_least_rate_and_no_findings() {
    let path = folder("init-varies");
    let out = path.display().to_string();
    let given = ["--down", "20Mbit/s", "--up", "4 Mbit/s", "--link", "lte", "--varies", "-o", &out];
    let output = weir(&[&["init"], &given[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("then weir restart home") && !said.contains("weir set"), "{said}");
    let deployment = path.join("deployment.toml");
    let checked = weir(&["check", &deployment.display().to_string()]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let text = fs::read_to_string(deployment).expect("it is written");
    let rates = "min = \"5000 kbit/s\"\nbase = \"20000 kbit/s\"\nmax = \"80000 kbit/s\"\n";
    assert!(text.contains(&format!("[direction.download.autorate]\n{rates}")), "{text}");
    let policy = fs::read_to_string(path.join("upload.toml")).expect("it is written");
    assert!(policy.contains("rate = \"1000 kbit/s\""), "{policy}");
}

/// An evening: a call, three hosts with pages and transfers, a backup, and a flood by one of them.
fn evening(policy: &str, address: &str) -> String {
    let source = |text: String| format!("[[source]]\nreturn_delay = '10 ms'\nkind = 'tcp'\n{text}");
    let host = |host: u32| {
        let address = format!("{address} = '192.168.1.{host}'");
        let pages = format!(
            "name = 'pages{host}'\n{address}\ndport = 443\nbytes = '300 KB'\nthink = '500 ms'\n"
        );
        source(pages) + &source(format!("name = 'bulk{host}'\n{address}\ndport = 80\n"))
    };
    let hosts: String = (2..5).map(host).collect();
    format!(
        "policy = '{policy}'\nduration = '10 s'\ndelay = '10 ms'\n\
         [[source]]\nname = 'call'\nkind = 'cbr'\ndscp = 'ef'\ndport = 5004\npayload = '160 B'\n\
         interval = '20 ms'\n[[source]]\nname = 'flood'\nkind = 'cbr'\nsize = '1200 B'\n\
         rate = '50 Mbit/s'\n{address} = '192.168.1.4'\n{}{hosts}",
        source("name = 'backup'\ndscp = 'cs1'\ndport = 22\n".to_owned())
    )
}

#[test]
fn a_call_hardly_waits_longer_than_for_one_packet_on_a_busy_evening() {
    let folder = init("init-evening", ("20Mbit/s", "5Mbit/s", "pppoe"));
    // A full packet takes 0.7 ms of the one direction and 2.6 ms of the other.
    for (policy, address, delay_max) in
        [("download.toml", "dst", 1_000.0), ("upload.toml", "src", 4_000.0)]
    {
        let scenario = folder.join(format!("{address}.toml"));
        fs::write(&scenario, evening(policy, address)).expect("the folder is there");
        let output = weir(&["sim", "--format", "json", &scenario.display().to_string()]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let call = &report["sources"][0];
        // The path behind the link takes 10 ms.
        let waited = call["delay_us"]["p99"].as_f64().expect("it has a delay") - 10_000.0;
        assert_eq!((&call["name"], &call["lost"]["packets"]), (&"call".into(), &0.into()));
        assert!(waited < delay_max, "{policy}: {waited} us");
        let used = report["link"]["utilisation"].as_f64();
        assert!(used > Some(0.99), "{policy}: {used:?}");
    }
}

/// A host with one flow, one with five, and one with one over IPv6; what each is called in reports.
/// Windows of a few packets wait for timers now and then, so that a share needs minutes to settle.
fn hosts(policy: &str, address: &str) -> String {
    let flow = |name: &str, host: &str| {
        format!(
            "[[source]]\nkind = 'tcp'\nreturn_delay = '10 ms'\ndport = 443\nname = '{name}'\n\
             {address} = '{host}'\n"
        )
    };
    let many: String = (0..5).map(|n| flow(&format!("many{n}"), "192.168.1.3")).collect();
    format!(
        "policy = '{policy}'\nduration = '240 s'\nwarmup = '5 s'\ndelay = '10 ms'\n{}{many}{}",
        flow("one", "192.168.1.2"),
        flow("six", "2001:db8::4")
    )
}

#[test]
fn hosts_share_the_line_evenly_however_many_flows_they_have() {
    let line = ("20Mbit/s", "5Mbit/s", "pppoe");
    check_hosts(&init("init-hosts", line));
    check_hosts(&init_with("init-hosts-cake", line, &["--queue", "cake"]));
}

fn check_hosts(folder: &Path) {
    for (policy, address) in [("download.toml", "dst"), ("upload.toml", "src")] {
        let scenario = folder.join(format!("hosts-{address}.toml"));
        fs::write(&scenario, hosts(policy, address)).expect("the folder is there");
        let output = weir(&["sim", "--format", "json", &scenario.display().to_string()]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let sources = report["sources"].as_array().expect("there are sources");
        let goodput = |name: &str| -> f64 {
            let named =
                |source: &&Value| source["name"].as_str().is_some_and(|it| it.starts_with(name));
            sources.iter().filter(named).filter_map(|it| it["goodput_bps"].as_f64()).sum()
        };
        let all = ["one", "many", "six"].map(goodput);
        // CoDel drops more where five windows share a queue.
        let mean = all.iter().sum::<f64>() / 3.0;
        assert!(
            all.iter().all(|got| (got / mean - 1.0).abs() < 0.15),
            "{policy}: {all:?} {report}"
        );
    }
}

/// Four hosts on a full line: one connection, sixteen and a ping, a flood, and one that marks all that
/// it sends as a call; and the call of a fifth. `address` is the key by which hosts are told apart.
fn crowd(policy: &str, address: &str, line_mbits: u32) -> String {
    let tcp = |name: &str, host: u32| {
        format!(
            "[[source]]\nkind = 'tcp'\nprofile = 'linux'\nreturn_delay = '10 ms'\ndport = 443\n\
             name = '{name}'\n{address} = '192.168.1.{host}'\n"
        )
    };
    let many: String = (0..16).map(|n| tcp(&format!("many{n}"), 3)).collect();
    format!(
        "policy = '{policy}'\nduration = '60 s'\nwarmup = '5 s'\ndelay = '10 ms'\n{}{many}\
         [[source]]\nkind = 'cbr'\nname = 'flood'\nsize = '1200 B'\nrate = '{} Mbit/s'\n\
         {address} = '192.168.1.4'\n\
         [[source]]\nkind = 'cbr'\nname = 'marks'\nsize = '1200 B'\nrate = '20 Mbit/s'\n\
         dscp = 'ef'\n{address} = '192.168.1.5'\n\
         [[source]]\nkind = 'cbr'\nname = 'ping'\nsize = '98 B'\ninterval = '100 ms'\n\
         jitter = '50 %'\nproto = 'icmp'\n{address} = '192.168.1.3'\n\
         [[source]]\nkind = 'cbr'\nname = 'call'\npayload = '160 B'\ninterval = '20 ms'\n\
         jitter = '10 %'\ndscp = 'ef'\ndport = 5004\n{address} = '192.168.1.6'\n",
        tcp("one", 2),
        2 * line_mbits
    )
}

/// Checks both directions of a line of 50 and 10 Mbit/s that `weir init` writes with these options
/// more; `addresses` tell hosts apart, of download and upload.
fn check_crowd(name: &str, more: &[&str], addresses: [&str; 2]) {
    let folder = folder(name);
    let out = folder.display().to_string();
    let base = ["init", "--down", "50Mbit/s", "--up", "10Mbit/s", "--link", "fibre", "-o", &out];
    let output = weir(&[base.as_slice(), more].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for (policy, address, mbits) in
        [("download.toml", addresses[0], 50), ("upload.toml", addresses[1], 10)]
    {
        let scenario = folder.join(format!("crowd-{policy}"));
        fs::write(&scenario, crowd(policy, address, mbits)).expect("the folder is there");
        let output = weir(&["sim", "--format", "json", &scenario.display().to_string()]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let sources = report["sources"].as_array().expect("there are sources");
        let of = |name: &str| {
            let named = move |source: &&Value| {
                source["name"].as_str().is_some_and(|own| own.starts_with(name))
            };
            sources.iter().filter(named).collect::<Vec<_>>()
        };
        // On the wire a frame takes 24 bytes more.
        let number = |value: &Value| value.as_f64().expect("a number");
        let wire = |source: &&Value| {
            number(&source["received"]["bytes"]) + 24.0 * number(&source["received"]["packets"])
        };
        let got = ["one", "many", "flood"].map(|name| of(name).iter().map(wire).sum::<f64>());
        let mean = got.iter().sum::<f64>() / 3.0;
        assert!(got.iter().all(|own| (own / mean - 1.0).abs() < 0.03), "{policy}: {got:?}");
        // The path behind the link takes 10 ms.
        let waited = |name: &str| number(&of(name)[0]["delay_us"]["p99"]) - 10_000.0;
        assert!(waited("ping") < 5_000.0, "{policy}: {} us", waited("ping"));
        assert!(waited("call") < 5_000.0, "{policy}: {} us", waited("call"));
        for name in ["ping", "call"] {
            assert_eq!(of(name)[0]["lost"]["packets"], 0, "{policy}: {name}");
        }
    }
}

#[test]
fn beside_uploads_a_flood_and_a_host_that_marks_all_calls_and_pings_stay_short() {
    check_crowd("init-crowd", &[], ["dst", "src"]);
}

#[test]
fn one_machine_shares_its_line_among_the_hosts_at_the_other_end() {
    check_crowd("init-crowd-host", &["--host", "eth0"], ["src", "dst"]);
}

#[test]
fn a_line_that_changes_is_one_value() {
    let folder = init("init-slower", ("50Mbit/s", "10Mbit/s", "fibre"));
    let path = folder.join("upload.toml");
    let text = fs::read_to_string(&path).expect("it is written");
    let slower = text.replace("rate = \"9500 kbit/s\"", "rate = \"5 Mbit/s\"");
    assert_ne!(text, slower);
    fs::write(&path, slower).expect("it may be written");
    let output = weir(&["check", &path.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn for_one_interface_it_writes_a_host_port_and_says_how_to_see_that_it_works() {
    let folder = folder("init-one");
    let out = folder.display().to_string();
    let base = ["init", "--down", "50Mbit/s", "--up", "10Mbit/s", "--link", "fibre", "-o", &out];
    let both = weir(&[base.as_slice(), &["--host", "eth0", "--inside", "lan1"]].concat());
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    let long = weir(&[base.as_slice(), &["--host", "sixteen-letters-"]].concat());
    assert!(text(&long.stderr).contains("--host \"sixteen-letters-\""), "{long:?}");
    let output = weir(&[base.as_slice(), &["--host", "eth0"]].concat());
    let said = text(&output.stdout);
    let parts =
        ["at eth0, which keeps", "weir status home --hosts 5", "upload:link.rate=", "weir try"];
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
    let main = fs::read_to_string(folder.join("deployment.toml")).expect("it is written");
    let value: toml::Value = toml::from_str(&main).expect("it is TOML");
    assert_eq!(value["deployment"]["ports"]["host"].as_str(), Some("eth0"));
    let other = self::folder("init-one-cake").display().to_string();
    let base = [&base[..8], &[other.as_str(), "--host", "eth0", "--queue", "cake"]].concat();
    let output = weir(&base);
    let said = text(&output.stdout);
    assert!(said.contains("weir status home ") && !said.contains("--hosts"), "{said}");
}

#[test]
fn a_missing_or_wrong_value_names_its_option() {
    let right = ["--down", "20Mbit/s", "--up", "5Mbit/s", "--link", "pppoe"];
    let without = |option: &str| {
        let at = right.iter().position(|word| *word == option).expect("it is an option");
        [&right[..at], &right[at + 2..]].concat()
    };
    let with = |option: &str, value: &'static str| {
        let at = right.iter().position(|word| *word == option).expect("it is an option");
        let mut all = right.to_vec();
        all[at + 1] = value;
        all
    };
    let rows = [
        (without("--down"), "--down is missing, and there is no terminal"),
        (without("--up"), "--up is missing"),
        (without("--link"), "--link is missing"),
        (vec![], "--down and --up and --link are missing"),
        (vec![], "docsis (cable)"),
        (with("--link", "dsl"), "--link"),
        (with("--down", "20"), "--down"),
        (with("--up", "5 mbps"), "5 Mbit/s"),
        (with("--up", "100 kbit/s"), "below 256 kbit/s"),
    ];
    for (options, part) in rows {
        let folder = folder("init-wrong");
        let out = folder.display().to_string();
        let output = weir(&[&["init", "-o", &out], options.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(text(&output.stderr).contains(part), "{options:?}: {}", text(&output.stderr));
        assert!(!folder.exists(), "{options:?}");
    }
}

#[test]
fn what_the_interfaces_are_called_is_checked_before_and_written_as_toml() {
    let right = ["init", "--down", "20Mbit/s", "--up", "5Mbit/s", "--link", "pppoe"];
    let check = |inside: &str, outside: &str, said: &str| {
        let folder = folder("init-interfaces");
        let out = folder.display().to_string();
        let names = ["--inside", inside, "--outside", outside, "-o", &out];
        let output = weir(&[right.as_slice(), &names].concat());
        let code = if said.is_empty() { 0 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{inside} {outside}: {output:?}");
        assert!(text(&output.stderr).contains(said), "{inside} {outside}: {output:?}");
        assert_eq!(folder.exists(), said.is_empty());
        folder
    };
    check("eth0", "eth0", "--inside and --outside are both eth0");
    check("lan0", "\u{e9}", "--outside \"\u{e9}\": Linux has no interface of this name");
    check("", "wan0", "--inside \"\"");
    check("lan0", "sixteen-letters-", "at most 15 characters");
    let written = check("a\"b\\c", "wan0", "");
    let main = fs::read_to_string(written.join("deployment.toml")).expect("it is written");
    let value: toml::Value = toml::from_str(&main).expect("it is TOML");
    assert_eq!(value["deployment"]["ports"]["inside"].as_str(), Some("a\"b\\c"));
}

#[test]
fn folders_that_it_made_are_removed_if_it_cannot_write() {
    let folder = folder("init-full");
    fs::create_dir(&folder).expect("the parent is there");
    for out in ["new/deep", "new", "."] {
        // A file of no bytes at most, as on a full disk.
        let script = format!(
            "ulimit -f 0; trap '' XFSZ; exec {} init --down 20Mbit/s --up 5Mbit/s --link ptm -o {out}",
            env!("CARGO_BIN_EXE_weir")
        );
        let mut command = Command::new("sh");
        let output = command.args(["-c", &script]).current_dir(&folder).output().expect("sh runs");
        assert_eq!(output.status.code(), Some(2), "{out}: {output:?}");
        assert!(text(&output.stderr).contains("cannot write"), "{out}: {output:?}");
        assert_eq!(fs::read_dir(&folder).expect("it stays").count(), 0, "{out}");
    }
}

#[test]
fn its_help_says_of_which_kind_each_line_is() {
    let help = weir(&["init", "--help"]);
    let help = text(&help.stdout);
    for line in ["ptm:", "VDSL", "docsis:", "cable", "atm:", "ADSL", "fibre or Ethernet with PPPoE"]
    {
        assert!(help.contains(line), "{line}: {help}");
    }
}

#[test]
fn nothing_is_overwritten() {
    let folder = init("init-again", ("20Mbit/s", "5Mbit/s", "pppoe"));
    fs::remove_file(folder.join("download.toml")).expect("it was written");
    fs::write(folder.join("upload.toml"), "mine").expect("the folder is there");
    let out = folder.display().to_string();
    let right = ["init", "--down", "9Mbit/s", "--up", "5Mbit/s", "--link", "pppoe", "-o", &out];
    let output = weir(&right);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("upload.toml exists"), "{output:?}");
    assert_eq!(fs::read_to_string(folder.join("upload.toml")).expect("it is there"), "mine");
    assert!(!folder.join("download.toml").exists(), "all are written, or none");
}
