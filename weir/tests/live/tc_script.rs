//! `weir import tc --run`: random shell scripts run in the sandbox give the kernel the same state as
//! run by hand, and what a script must not do ends it. Needs root or user namespaces, `tc`, `bash`.

use crate::tc_state::{dumped, read};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_core::random::Random;
use weir_host::script::{Asked, Note, Script};
use weir_testbed::rows::{self, Need, Outcome, Row};
use weir_testbed::{RIGHT, Testbed, TestbedConfig};

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("a_script_in_the_sandbox_does_what_it_does_by_hand", scripts_agree),
    ("what_a_script_must_not_do_ends_it", misdeeds_end),
    ("a_question_is_answered_or_named", questions_are_answered),
];

/// Scripts without WEIR_TC_SCRIPTS.
const SCRIPTS: u64 = 40;

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    let needs = &[Need::PrivateNetworks, Need::Program("tc"), Need::Program("bash")];
    rows::table("tc_script", TESTS, needs)
}

fn script(path: &Path, seconds: u64) -> Script {
    let arguments = vec!["fast".into(), "7".into()];
    Script { path: path.to_owned(), arguments, time_max: Duration::from_secs(seconds) }
}

fn scripts_agree() -> Outcome {
    let scripts = std::env::var("WEIR_TC_SCRIPTS").ok().and_then(|text| text.parse().ok());
    let scripts = scripts.unwrap_or(SCRIPTS);
    let testbed = Testbed::new(TestbedConfig::default())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shape.sh");
    let mut objects = 0;
    for seed in 0..scripts {
        let text = random_script(&mut Random::new(seed, 3));
        fs::write(&path, &text)?;
        let run = || script_agrees(&path).map_err(|why| format!("seed {seed}: {why}\n{text}"));
        objects += testbed.weir.run(run)??;
    }
    println!("{scripts} shell scripts: {objects} classes and filters, 0 differences");
    if objects < scripts * 4 {
        return Err("too little was compared".into());
    }
    Ok(())
}

/// Runs a script by hand and in the sandbox; returns the number of classes and filters.
fn script_agrees(path: &Path) -> Result<u64, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut by_hand = Command::new("bash");
    by_hand.arg(path).args(["fast", "7"]).stdin(Stdio::null());
    let output = by_hand.output().map_err(failed)?;
    let hand = dumped(RIGHT)?;
    let outcome = script(path, 60).run().map_err(|error| error.to_string())?;
    if let Some(why) = outcome.ended {
        return Err(format!("it was ended: {why}"));
    }
    let text: String = outcome.notes.iter().map(written).collect();
    let mut loaded = Command::new("tc");
    loaded.args(["-force", "-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut loaded = loaded.spawn().map_err(failed)?;
    let mut input = loaded.stdin.take().ok_or("it is piped")?;
    std::io::Write::write_all(&mut input, text.as_bytes()).map_err(failed)?;
    drop(input);
    let loaded = loaded.wait_with_output().map_err(failed)?;
    let sandbox = dumped(RIGHT)?;
    if hand != sandbox {
        let said = String::from_utf8_lossy(&loaded.stderr).into_owned();
        let by_hand = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{hand}\nand\n{sandbox}\n{said}\n{by_hand}\n{}", outcome.printed));
    }
    // The import has a class for each of the kernel's.
    let policy = &read(&text)?.policies[0].policy;
    for line in hand.lines().filter(|line| line.starts_with("class ")) {
        let id = line.split_whitespace().skip_while(|word| *word != "classid").nth(1);
        let name = id.unwrap_or_default().replace(':', "-");
        if !policy.contains(&format!("[class.{name}]")) {
            return Err(format!("no class {name} in\n{policy}"));
        }
    }
    let counted = |line: &&str| line.starts_with("class ") || line.starts_with("filter ");
    Ok(hand.lines().filter(counted).count() as u64)
}

/// Returns the lines for `tc -batch` of a call.
fn written(note: &Note) -> String {
    match (&note.input, note.words.split_first()) {
        (Some(input), _) => input.clone() + "\n",
        (None, Some((first, rest))) if first == "tc" => rest.join(" ") + "\n",
        _ => String::new(),
    }
}

fn misdeeds_end() -> Outcome {
    let folder = tempfile::tempdir()?;
    let rows = [
        ("echo x > /tmp/weir-misdeed", "tried to write"),
        ("echo x > /tmp/weir-misdeed", "it may write below $TMPDIR, which is /"),
        ("cd /tmp; echo x >> weir-misdeed", "tried to write"),
        ("mkdir /tmp/weir-misdeed", "tried to write"),
        ("rm -f /etc/hosts", "tried to write"),
        ("exec 3<>/dev/tcp/127.0.0.1/80", "network"),
        ("bomb() { bomb | bomb; }; bomb", "forked without end"),
        ("while :; do :; done", "longer than 3s, which `--time-limit` sets"),
        ("unshare -n true", "no script for tc needs"),
        // These are allowed.
        ("cat <<E\nx\nE\nx=$(mktemp) && echo x > $x; echo y > /dev/null; exit 3", ""),
        ("tc qdisc show | grep -q htb || exit 4; exit 5", ""),
        ("/sbin/tc qdisc add dev nowhere root htb && ip link set lo up && exit 6", ""),
    ];
    for (text, wanted) in rows {
        let path = folder.path().join("misdeed.sh");
        fs::write(&path, format!("#!/bin/bash\n{text}\n"))?;
        let outcome = script(&path, 3).run()?;
        let ended = outcome.ended.clone().unwrap_or_default();
        if wanted.is_empty() != ended.is_empty() || !ended.contains(wanted) {
            return Err(format!("{text}: {outcome:?}").into());
        }
        if wanted.is_empty() && outcome.code.is_none_or(|code| !(3..=6).contains(&code)) {
            return Err(format!("{text}: {outcome:?}").into());
        }
        if Path::new("/tmp/weir-misdeed").exists() {
            return Err(format!("{text}: it wrote").into());
        }
    }
    Ok(())
}

/// Runs scripts that ask, and compares what they print and which of their calls lack an answer.
fn questions_are_answered() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ask.sh");
    let rows = [
        ("ip route get 127.0.0.1 | grep -o 'dev lo'", "dev lo", ""),
        ("x=$(ip -o link show lo) && echo ${x%%:*}", "1", ""),
        ("sudo ip -4 -br addr show dev lo | cut -d ' ' -f 1", "lo", ""),
        ("x=$(sysctl -n net.ipv4.ip_forward); [ -n \"$x\" ] && echo some", "some", ""),
        ("ip link show weir-none >/dev/null 2>&1 || echo none", "none", ""),
        // What the script itself made is not at this machine.
        (
            "ip link add weir-none type ifb; ip link show weir-none > /dev/null && echo made",
            "made",
            "",
        ),
        (
            "ip link add weir-none type ifb; x=$(ip -o link show weir-none); echo made",
            "made",
            "ip -o link show weir-none",
        ),
        ("modprobe ifb; ip link show ifb77 > /dev/null && echo made", "made", ""),
        // No answer.
        ("ping -c 1 192.0.2.1 && echo alive", "alive", "ping -c 1 192.0.2.1"),
        ("x=$(iptables -S); echo x$x", "x", "iptables -S"),
        ("x=$(ip -r route show); echo x$x", "x", "ip -r route show"),
        ("x=$(tc qdisc show); tc qdisc add dev a root fq; echo x$x", "x", ""),
        ("tc qdisc add dev a root fq; x=$(tc qdisc show); echo x$x", "x", "tc qdisc show"),
        ("tc qdisc add dev a root fq; tc qdisc show; echo x", "x", ""),
        // What needs no question.
        (
            "sleep 3600; echo $(id -u) $(nproc | grep -c .) $(cat /sys/class/net/lo/mtu)",
            "0 1 65536",
            "",
        ),
    ];
    for (text, printed, unanswered) in rows {
        fs::write(&path, format!("#!/bin/bash\n{text}\n"))?;
        let outcome = script(&path, 20).run()?;
        let open = outcome.notes.iter().filter(|note| note.asked == Some(Asked::Unanswered));
        let open: Vec<String> = open.map(|note| note.words.join(" ")).collect();
        if outcome.printed.trim() != printed || open.join("; ") != unanswered {
            return Err(format!("{text}: {outcome:?}").into());
        }
    }
    Ok(())
}

/// A script while it is drawn.
struct Draw<'r> {
    random: &'r mut Random,
    text: String,
    /// The next minor number.
    minor: u32,
    /// Minor numbers of classes that are there in any case.
    made: Vec<u32>,
    prio: u32,
}

impl Draw<'_> {
    fn rate(&mut self) -> u32 {
        1 + self.random.below(90)
    }

    fn minors(&mut self, count: u32) -> u32 {
        self.minor += count;
        self.minor - count
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds classes in one of many ways.
    fn classes(&mut self) {
        let rate = self.rate();
        let add = |minor: &str, rate: &str| {
            format!(
                "tc class add dev $DEV parent 1:1 classid 1:{minor} htb rate {rate} ceil 90mbit"
            )
        };
        let kind = self.random.below(18);
        let first = self.minors(4);
        let (second, last) = (first + 1, first + 3);
        let text = match kind {
            0 => add(&format!("{first}"), &format!("{rate}mbit")),
            1 => format!(
                "for i in {first} {second}; do\n  {}\ndone",
                add("$i", &format!("$((i % 5 + {rate}))mbit"))
            ),
            2 => {
                format!("for ((i = {first}; i <= {last}; i++)); do {}; done", add("$i", "${R}mbit"))
            }
            3 => format!("add {first} $((R * 2 + {rate}))mbit && add {second} \"${{R}}mbit\""),
            4 => format!(
                "while read -r minor rate; do add \"$minor\" \"$rate\"; done <<EOF\n\
                 {first} {rate}mbit\n{second} ${{R}}mbit\nEOF"
            ),
            5 => format!("(R=99; add {first} ${{R}}kbit); add {second} ${{R}}mbit"),
            6 => format!(
                "[ \"$1\" = fast ] && RATE={rate}mbit || RATE=1mbit\nadd {first} $RATE\n\
                 [[ $2 == 8 ]] && add {second} 1mbit"
            ),
            7 => format!(
                "case \"$1\" in\n  slow) add {first} 1mbit ;;\n  fast|quick) add {first} \
                 {rate}mbit ;;\n  *) exit 1 ;;\nesac"
            ),
            8 => format!(
                "eval \"add {first} {rate}mbit\"; R+=1; add {second} ${{R}}kbit; R=${{R%1}}"
            ),
            9 => format!(
                "declare -i n={rate}; n+=2; n=n*3; add {first} ${{n}}mbit\n\
                 printf -v two '%dmbit' $((n / 2)); add {second} $two"
            ),
            10 => format!("for i in {{{first}..{last}}}; do add $i $((0x10 + i))mbit; done"),
            11 => format!(
                "tc -batch - <<EOF\nclass add dev $DEV parent 1:1 classid 1:{first} htb rate \
                 {rate}mbit\nclass add dev $DEV parent 1:1 classid 1:{second} htb rate ${{R}}mbit\nEOF"
            ),
            12 => format!(
                "list=({first}:{rate} {second}:7)\nfor one in \"${{list[@]}}\"; do add \
                 ${{one%%:*}} ${{one##*:}}mbit; done"
            ),
            13 => format!(
                "i={first}; until [ $i -gt {second} ]; do add $i ${{UNSET:-{rate}}}mbit; \
                 i=$((i + 1)); done"
            ),
            14 => format!(
                "echo '{first} {second}' | while read a b; do add $a {rate}mbit; add $b 2mbit; done"
            ),
            15 => format!(
                "if test -z \"$3\" -a $(( {first} % 2 )) -eq {}; then add {first} {rate}mbit; else \
                 add {second} $(echo {rate}kbit); fi",
                self.random.below(2)
            ),
            16 => format!("let R*=2; add {first} ${{R}}kbit; ((R/=2)); add {second} \"$R\"mbit"),
            _ => format!("add '{first}' \"{rate}\"'mbit'; false || add {second} `echo 3`mbit"),
        };
        self.line(&text);
        if [0, 1, 3, 4, 5, 10, 11, 12, 13].contains(&kind) {
            self.made.push(first);
        }
    }

    fn filters(&mut self) {
        let Some(&class) = self.made.first() else { return };
        self.prio += 4;
        let (prio, port) = (self.prio, 1000 + self.random.below(9000));
        let text = match self.random.below(5) {
            0 => format!("match {prio} \"ip dport {port} 0xffff\" {class}"),
            1 => format!(
                "for p in {port} $(({port} + 1)); do match {prio} \"ip sport $p 0xffff\" {class}; done"
            ),
            2 => format!(
                "for net in 10.1.0.0/16 192.168.{}.0/24; do\n  match {prio} \"ip dst $net\" \
                 {class}\ndone",
                port % 250
            ),
            3 => format!(
                "tc filter add dev \"$DEV\" parent 1: protocol ip prio {prio} u32 \\\n    match ip \
                 protocol 17 0xff flowid 1:{class}"
            ),
            _ => format!(
                "n={prio}; match $((n++)) 'ip tos 0x10 0xff' {class}; match $n 'u32 0 0' {class}"
            ),
        };
        self.line(&text);
    }
}

/// Draws a script of bash that shapes a device.
fn random_script(random: &mut Random) -> String {
    let mut draw = Draw { random, text: String::new(), minor: 10, made: Vec::new(), prio: 0 };
    let rate = draw.rate();
    let _ = write!(
        draw.text,
        "#!/bin/bash\n# Drawn at random.\nDEV={RIGHT}; R={rate}\n\
         tc qdisc del dev $DEV root 2>/dev/null\n\
         add() {{\n  local minor=$1 rate=$2\n  tc class add dev \"$DEV\" parent 1:1 classid \
         1:$minor htb rate $rate\n}}\n\
         match() {{ tc filter add dev $DEV parent 1: protocol ip prio $1 u32 match $2 flowid 1:$3; }}\n\
         tc qdisc add dev $DEV root handle 1: htb default 10\n\
         tc class add dev $DEV parent 1: classid 1:1 htb rate 900mbit\n"
    );
    for _ in 0..2 + draw.random.below(5) {
        draw.classes();
    }
    draw.line("modprobe sch_htb 2>/dev/null; sleep 0");
    for _ in 0..draw.random.below(5) {
        draw.filters();
    }
    draw.line("exit 0");
    draw.text
}
