//! `weir top` in a real terminal: tmux runs it beside a link that forwards, and what it draws is
//! read from the screen. Also `weir status --watch`, there and in a pipe, and both of a link with
//! thousands of classes.

use super::{SLOW, Test, plan};
use libtest_mimic::Failed;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weir_host::netns::NetNs;
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{
    Host, Process, Scene, Stream, StreamConfig, children, signal, until_ok, until_some,
};

pub const TESTS: &[Test] = &[
    ("a_terminal_shows_the_link_and_follows_keys", a_terminal_shows_the_link),
    ("a_terminal_is_given_back_when_the_program_is_ended", a_terminal_is_given_back),
    ("a_pipe_gets_a_line_a_second_until_the_link_ends", a_pipe_gets_lines),
    ("a_terminal_is_watched_in_place_until_a_key", a_terminal_is_watched),
    ("of_5000_classes_each_way_the_largest_are_shown_with_the_sums_of_all", many_are_summed),
];

const TREE: &str = r#"
[link]
rate = "10 Mbit/s"
scheduler = "htb"

[class.home]
rate = "4 Mbit/s"

[class.voice]
parent = "home"
rate = "1 Mbit/s"
ceil = "8 Mbit/s"
match = [{ proto = "udp", dport = "5004" }]

[class.web]
parent = "home"
rate = "3 Mbit/s"
match = [{ proto = "udp", dport = "5005" }]

[class.rest]
rate = "6 Mbit/s"
default = true
"#;

/// Each subscriber of a list has a class, chosen by a port.
const MANY: &str = r#"
[link]
rate = "900 Mbit/s"
scheduler = "htb"

[class.north]
rate = "800 Mbit/s"

[class.rest]
rate = "100 Mbit/s"
default = true

[template.subscriber]
list = "subscribers.csv"
name = "s{id}"
class.parent = "north"
class.rate = "100 kbit/s"
class.ceil = "100 Mbit/s"
class.match = [{ proto = "udp", dport = "{port}" }]
"#;
const SUBSCRIBERS: u16 = 5000;
/// Those that send: the last ones of the list, the k-th of them k datagrams at a time.
const SENDERS: u16 = 12;

/// How many terminals were started.
static SCREENS: AtomicU32 = AtomicU32::new(0);

/// A terminal of 80 columns and 24 lines.
struct Screen {
    socket: PathBuf,
}

impl Screen {
    /// Runs `weir top` in a shell, which says how it ended.
    fn start(scene: &Scene) -> Result<Self, Failed> {
        Self::run(scene, "top")
    }

    fn run(scene: &Scene, words: &str) -> Result<Self, Failed> {
        // A server that was ended may still hold its socket.
        let number = SCREENS.fetch_add(1, Ordering::Relaxed);
        let screen = Self { socket: scene.path(&format!("tmux-{number}.sock")) };
        let weir = env!("CARGO_BIN_EXE_weir");
        let line =
            format!("'{weir}' {words} --control weir.sock; echo It ended with $?; sleep 600");
        let mut command = screen.tmux(&["-u", "-f", "/dev/null", "new-session", "-d"]);
        command.args(["-x", "80", "-y", "24", &line]).current_dir(scene.folder());
        command.env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR").env_remove("TMUX");
        let made = command.output()?;
        assert!(made.status.success(), "{made:?}");
        Ok(screen)
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(arguments).stdin(Stdio::null());
        command
    }

    fn press(&self, keys: &[&str]) -> Outcome {
        let pressed = self.tmux(&[&["send-keys"], keys].concat()).output()?;
        assert!(pressed.status.success(), "{pressed:?}");
        Ok(())
    }

    fn text(&self) -> Result<String, Failed> {
        let captured = self.tmux(&["capture-pane", "-p"]).output()?;
        Ok(String::from_utf8_lossy(&captured.stdout).into_owned())
    }

    /// Waits until the screen is so.
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> Outcome {
        Ok(until_ok(what, || match self.text() {
            Ok(text) if is_so(&text) => Ok(()),
            Ok(text) => Err(format!("\n{text}")),
            Err(why) => Err(format!("{why:?}")),
        })?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(self.tmux(&["kill-server"]).output());
    }
}

/// Returns the row of a class, as words.
fn row(text: &str, class: &str) -> Vec<String> {
    let names = |line: &&str| {
        let first = line.split_whitespace().next().unwrap_or_default();
        first.trim_start_matches(['-', '+']) == class
    };
    let line = text.lines().skip(3).take(13).find(names).unwrap_or_default();
    line.split_whitespace().map(str::to_owned).collect()
}

fn shows(text: &str, class: &str) -> bool {
    !row(text, class).is_empty()
}

/// Sends about 2 Mbit/s for `voice`.
fn talk(scene: &Scene) -> Result<Stream, Failed> {
    let config = StreamConfig { per_second: 250, length: 1000, ..SLOW };
    Ok(Stream::numbered(&scene.testbed, config)?)
}

fn a_terminal_shows_the_link() -> Outcome {
    let mut scene = plan(TREE).start()?;
    let screen = Screen::start(&scene)?;
    let names = ["upload:", "home", "voice", "web", "rest"];
    screen.until("the tree", |text| names.iter().all(|name| shows(text, name)))?;
    let talking = talk(&scene)?;
    let is_busy = |text: &str| {
        let row = row(text, "voice");
        let (rate, has_bar) = (row.get(1), row.iter().any(|word| word.contains('█')));
        rate.is_some_and(|rate| rate.ends_with('M')) && has_bar && row.contains(&"<home".to_owned())
    };
    screen.until("a rate, a bar, and a loan", is_busy)?;
    drop(talking);
    let rate = |text: &str| row(text, "voice").get(1).cloned();
    screen.until("the rate falls", |text| rate(text).is_some_and(|rate| rate == "0"))?;
    screen.press(&["/", "vo", "Enter"])?;
    screen.until("filtered", |text| shows(text, "voice") && !shows(text, "rest"))?;
    screen.press(&["Escape"])?;
    screen.until("no filter", |text| shows(text, "rest"))?;
    screen.press(&["F"])?;
    screen.until("folded", |text| shows(text, "home") && !shows(text, "voice"))?;
    screen.press(&["F", "s"])?;
    screen.until("sorted", |text| text.contains("sort: rate") && shows(text, "voice"))?;
    screen.press(&["s", "s", "s", "s", "?"])?;
    screen.until("help", |text| text.contains("keys and signs"))?;
    screen.press(&["x", "Home", "j", "j", "e"])?;
    screen.until("the rate to change", |text| text.contains("set: rate=1 Mbit/s"))?;
    screen.press(&["-N", "8", "BSpace"])?;
    screen.press(&["-l", "900 kbit/s"])?;
    screen.press(&["Enter"])?;
    screen.until("a dry run", |text| text.contains("dry run") && text.contains("y: put it"))?;
    screen.press(&["y"])?;
    screen.until("the change", |text| text.contains("is in force"))?;
    screen.until("the new rate", |text| text.contains("rate 900 kbit/s"))?;
    screen.press(&["r"])?;
    screen.until("a record", |text| text.contains("recording to weir-1.pcapng"))?;
    screen.press(&["r"])?;
    let is_over = |text: &str| text.contains("weir-1.pcapng:") && text.contains("bytes");
    screen.until("its end", is_over)?;
    let replayed = scene.weir(&["replay", "--record", "weir-1.pcapng"])?;
    assert!(replayed.status.success(), "{replayed:?}");
    let resized = screen.tmux(&["resize-window", "-x", "120", "-y", "40"]).output()?;
    assert!(resized.status.success(), "{resized:?}");
    screen.until("more columns", |text| text.contains("p50 ms"))?;
    scene.stop()?;
    screen.until("the end", |text| text.contains("DOES NOT ANSWER") && shows(text, "voice"))?;
    scene.start()?;
    let is_back = |text: &str| text.contains("restarted") || text.contains("answers again");
    screen.until("it is back", |text| !text.contains("DOES NOT ANSWER") && is_back(text))?;
    screen.press(&["q"])?;
    screen.until("left", |text| text.contains("It ended with 0") && !shows(text, "voice"))?;
    scene.stop()?;
    Ok(())
}

fn a_terminal_is_given_back() -> Outcome {
    let mut scene = plan(TREE).start()?;
    for ends in ["TERM", "INT", "C-c"] {
        let screen = Screen::start(&scene)?;
        screen.until("the tree", |text| shows(text, "voice"))?;
        if ends == "C-c" {
            screen.press(&["C-c"])?;
        } else {
            let shell = screen.tmux(&["list-panes", "-F", "#{pane_pid}"]).output()?;
            let shell = String::from_utf8_lossy(&shell.stdout).trim().parse()?;
            let top = children(shell).first().copied().ok_or("the program does not run")?;
            signal(top, ends)?;
        }
        screen.until(ends, |text| text.contains("It ended with 0") && !shows(text, "voice"))?;
        // What is typed is echoed again, and a line is a line.
        screen.press(&["typed"])?;
        screen.until("echoed", |text| text.contains("typed"))?;
    }
    scene.stop()?;
    Ok(())
}

fn a_pipe_gets_lines() -> Outcome {
    let mut scene = plan(TREE).start()?;
    let talking = talk(&scene)?;
    let arguments = ["status", "--control", "weir.sock", "--watch", "--interval", "200ms"];
    let mut command = scene.command(&[&["--format", "json"], arguments.as_slice()].concat());
    let mut watch = Process::start(&mut command)?;
    // Each has the rate of the last second.
    let is_busy = |line: &str| {
        let status: Option<Status> = serde_json::from_str(line).ok();
        let classes = status.into_iter().flat_map(|status| status.lanes).flat_map(|it| it.classes);
        let voice = classes.filter(|class| class.name == "voice").find_map(|voice| voice.recent);
        voice.is_some_and(|it| it.second.sent_bps > 1e6 && it.second.borrowed_bps > 0.0)
    };
    until_ok("three lines of a class that borrows", || {
        let text = watch.stdout();
        let busy = text.lines().filter(|line| is_busy(line)).count();
        if busy >= 3 { Ok(()) } else { Err(text.lines().last().unwrap_or_default().to_owned()) }
    })?;
    drop(talking);
    scene.stop()?;
    let ended = watch.wait_for_output()?;
    let are_whole = ended.stdout.lines().all(|line| serde_json::from_str::<Status>(line).is_ok());
    assert!(ended.status.success() && are_whole, "it ends with the link: {ended:?}");
    Ok(())
}

fn a_terminal_is_watched() -> Outcome {
    let mut scene = plan(TREE).start()?;
    let screen = Screen::run(&scene, "status --watch --interval 200ms")?;
    let seconds = |text: &str| -> Option<f64> {
        text.lines().next()?.strip_prefix("up ")?.split_once(" s,")?.0.parse().ok()
    };
    screen.until("a look", |text| seconds(text).is_some() && text.contains("voice"))?;
    let first = seconds(&screen.text()?).ok_or("a look begins with its time")?;
    screen.until("another one", |text| seconds(text).is_some_and(|now| now > first + 1.0))?;
    let text = screen.text()?;
    assert_eq!(text.matches("up ").count(), 1, "in place of the first: {text}");
    screen.press(&["C-c"])?;
    let ended = |text: &str| text.contains("stopped watching; the link goes on");
    screen.until("its end", |text| ended(text) && text.contains("It ended with 0"))?;
    let watch = ["status", "--control", "weir.sock", "--watch", "--interval", "100ms"];
    let mut watch = Process::start(&mut scene.command(&watch))?;
    let looks = |text: &str| text.lines().filter(|line| line.starts_with("up ")).count();
    until_some("one after the other", || (looks(&watch.stdout()) >= 3).then_some(()))?;
    scene.stop()?;
    let ended = watch.wait_for_output()?;
    let says = ended.stderr.contains("the link has ended");
    assert!(ended.status.success() && says, "it ends with the link: {ended:?}");
    Ok(())
}

/// Sends to the ports of the last subscribers until it is dropped.
struct Subscribers {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Subscribers {
    fn start(from: &NetNs, to: &Host) -> Result<Self, Failed> {
        let socket = from.run(|| UdpSocket::bind("0.0.0.0:0"))??;
        let (ends, address) = (Arc::new(AtomicBool::new(false)), to.ip4());
        let ended = Arc::clone(&ends);
        let send = move || {
            while !ended.load(Ordering::Relaxed) {
                for sender in 1..=SENDERS {
                    for _ in 0..sender {
                        // Where nobody listens an error may come back; the datagram went out.
                        let _refused = socket.send_to(&[0; 1000], (address, port(sender)));
                    }
                }
                thread::sleep(Duration::from_millis(50));
            }
        };
        Ok(Self { ends, thread: Some(thread::spawn(send)) })
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it does not panic");
        }
    }
}

/// Returns the port of the k-th subscriber that sends, and its name.
fn port(sender: u16) -> u16 {
    10_000 + SUBSCRIBERS - SENDERS + sender
}

fn name(sender: u16) -> String {
    format!("s{}", SUBSCRIBERS - SENDERS + sender)
}

fn many_are_summed() -> Outcome {
    let mut scene = plan(MANY).both_ways().prepare()?;
    let rows = (1..=SUBSCRIBERS).map(|id| format!("{id},{}\n", 10_000 + id));
    scene.write("subscribers.csv", &rows.fold("id,port\n".to_owned(), |all, row| all + &row))?;
    scene.start()?;
    let up = Subscribers::start(&scene.testbed.client, &Host::Server)?;
    let down = Subscribers::start(&scene.testbed.server, &Host::Client)?;
    let status = |words: &[&str]| -> Result<Status, Failed> {
        let fixed = ["status", "--control", "weir.sock", "--format", "json"];
        Ok(serde_json::from_str(&scene.weir(&[&fixed, words].concat())?.stdout)?)
    };
    let is_told = |status: &Status| {
        status
            .lanes
            .iter()
            .all(|lane| lane.sums.sent_bps > 1e6 && lane.inner[0].sums.leaves == 5000)
    };
    let shown = until_some("both sums are of more than nothing", || {
        status(&[]).ok().filter(|status| status.lanes.len() == 2 && is_told(status))
    })?;
    for lane in &shown.lanes {
        let shows = |name: &str| lane.classes.iter().any(|class| class.name == name);
        assert!(
            shows(&name(1)) && shows(&name(SENDERS)),
            "those that send are among the first 1000"
        );
    }

    let screen = Screen::start(&scene)?;
    let is_busy = |text: &str| row(text, "north").get(1).is_some_and(|rate| rate.ends_with('M'));
    screen.until("the largest of the first direction", |text| {
        let first = text.lines().skip(3).take(3).last().unwrap_or_default();
        is_busy(text) && text.contains("classes not shown") && first.contains(&name(SENDERS))
    })?;
    assert!(!screen.text()?.contains("-0"), "{}", screen.text()?);
    screen.press(&["/", "s77", "Enter"])?;
    screen
        .until("any class is found, and sums stay", |text| is_busy(text) && shows(text, "s770"))?;
    screen.press(&["q"])?;

    let largest: Vec<_> = (1..=SENDERS).rev().map(name).collect();
    for lane in &status(&["--top", "15"])?.lanes {
        let names: Vec<_> = lane.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names[..largest.len()], largest, "those that sent most, the largest first");
        let north = lane.inner[0].sums;
        assert_eq!((lane.left_out, lane.sums.leaves, north.leaves), (4986, 5001, 5000));
        let of_north = lane.classes.iter().filter(|class| class.parent == Some(0));
        let sent: u64 = of_north.map(|class| class.sent.packets).sum();
        assert_eq!(sent, north.sent.packets, "nobody else sent, and the sums are of all");
    }
    drop((up, down));
    scene.stop()?;
    Ok(())
}
