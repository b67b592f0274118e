//! Tests of the server beside real run loops, with good clients and hostile ones.

use super::*;
use crate::client;
use crate::protocol::{CLASSES_MAX, DESCRIPTORS_MAX, Query, REQUEST_MAX, Sort};
use crate::service::{Patience, Reply};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32};
use weir_core::classify::InterfaceId;
use weir_host::wait::WaitPolicy;
use weir_link::bridge::{Bridge, BridgeConfig, BridgePort, LaneConfig, PortSource};
use weir_link::events::feed::Feed;
use weir_link::events::{About, Event, Kind as EventKind};
use weir_link::port::mem::Mem;
use weir_link::status::Status;
use weir_testbed::{PATIENCE, until, until_ok};

/// A bridge of so many classes between two ports in memory.
fn bridge(classes: usize) -> Bridge {
    let mut text = "[link]\nrate = '1 Gbit/s'\nscheduler = 'drr'\n".to_owned();
    for class in 1..classes {
        text += &format!("[class.class-{class}]\nmatch = [{{ dport = {} }}]\n", class % 60_000);
    }
    text += "[class.rest]\ndefault = true\n";
    let policy = weir_policy::parse(&text, "policy.toml").plan.expect("the policy is sound");
    let port = |number: u16| BridgePort {
        number: InterfaceId(number),
        source: PortSource::Open(Box::new(Mem::new(&format!("mem{number}"), 1).0)),
    };
    let lane = LaneConfig::new("forth", (vec![0], 1), &policy).expect("a lane");
    let bridge = Bridge::open(BridgeConfig {
        ports: vec![port(0), port(1)],
        lanes: vec![lane],
        wait: WaitPolicy::Block,
        lag_max: weir_core::units::Duration::from_millis(100),
        cpu: None,
        workers: 1,
        passes_carrier: false,
        intake: true,
    });
    bridge.expect("ports in memory open")
}

/// A server beside a run loop, in a folder of its own.
struct Scene {
    folder: tempfile::TempDir,
    refused: Arc<Mutex<Vec<Refused>>>,
    stop: Arc<AtomicBool>,
    run_loop: Option<JoinHandle<()>>,
    server: Option<(Server, Bound)>,
}

impl Scene {
    fn new(classes: usize) -> Self {
        Self::with(classes, |service| service)
    }

    fn with(classes: usize, change: impl FnOnce(Service) -> Service) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (stop, board) = (Arc::new(AtomicBool::new(false)), Arc::new(Board::new()));
        let (stopped, own) = (Arc::clone(&stop), Arc::clone(&board));
        let run_loop = std::thread::spawn(move || {
            bridge(classes).run(&stopped, &[], &own).expect("it can wait");
        });
        let refused = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&refused);
        let service = Service {
            refused: Box::new(move |one| reported.lock().expect("no panic").push(one)),
            patience: PATIENT,
            ..Service::of(vec![board], own_uid())
        };
        let (bound, listener) =
            listen::bind(&folder.path().join("a.sock"), None).expect("a fresh path");
        let server = Server::on(listener, change(service)).expect("threads");
        let server = Some((server, bound));
        Self { folder, refused, stop, run_loop: Some(run_loop), server }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("a.sock")
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.path()).expect("the server listens")
    }

    /// Sends bytes, and returns what comes back until the server disconnects.
    fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may disconnect before it has read all.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn status(&self) -> Result<Status, String> {
        client::status(&self.path(), &Query::default())
    }

    /// Waits until so many refusals were told, and returns them.
    fn refusals(&self, count: usize) -> Vec<Refused> {
        let has_all = || self.refused.lock().expect("no panic").len() >= count;
        until(&format!("{count} refusals"), has_all).expect("they are told");
        std::mem::take(&mut *self.refused.lock().expect("no panic"))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.server.take());
        self.stop.store(true, Ordering::Relaxed);
        if let Some(run_loop) = self.run_loop.take() {
            drop(run_loop.join());
        }
    }
}

/// Less than a hostile client takes.
const SHORT: Duration = Duration::from_millis(500);
/// More than any pause of the machine.
const LONG: Duration = Duration::from_secs(3600);
/// For a server to which no client is too slow, whatever the machine makes it do.
const PATIENT: Patience = Patience { request: LONG, counts: LONG, answer: LONG };

/// A hostile use, and what the server makes of it.
type Use = (&'static str, fn(&Scene), Cause);

/// More than any buffer of a socket holds.
const MUCH: usize = 8 << 20;

const USES: &[Use] = &[
    ("it sends nothing", |scene| await_end(&scene.connect()), Cause::Silent),
    ("half a line", |scene| await_end(&begun(scene, b"{\"call\":\"sta")), Cause::Silent),
    ("half a line, and it disconnects", |scene| drop(scene.say(b"{\"call\":")), Cause::Malformed),
    ("one byte at a time", one_byte_at_a_time, Cause::Silent),
    ("a line without an end", |scene| drop(scene.say(&vec![b'x'; MUCH])), Cause::TooLong),
    ("spaces without an end", |scene| drop(scene.say(&vec![b' '; MUCH])), Cause::TooLong),
    ("an empty line", |scene| drop(scene.say(b"\n")), Cause::Malformed),
    ("binary", |scene| drop(scene.say(&[0xff, 0xfe, 0, 0x80, b'\n'])), Cause::Malformed),
    ("zeros", |scene| drop(scene.say(&[0; 1000])), Cause::Malformed),
    ("deep JSON", |scene| drop(scene.say(&vec![b'['; REQUEST_MAX - 1])), Cause::Malformed),
    ("deep JSON in a request", deep_request, Cause::Malformed),
    ("another type", |scene| drop(scene.say(b"[1,2]\n")), Cause::Malformed),
    ("an unknown call", |scene| drop(scene.say(b"{\"call\":\"reboot\"}\n")), Cause::Malformed),
    ("an unknown key", |scene| said(scene, "\"classes\":1"), Cause::Malformed),
    ("a key that its call has not", other_key, Cause::Malformed),
    ("a long unknown call", long_call, Cause::Malformed),
    ("a wrong type", |scene| said(scene, "\"limit\":\"all\""), Cause::Malformed),
    ("a number beyond 32 bits", |scene| said(scene, "\"limit\":4294967296"), Cause::Malformed),
    ("a negative number", |scene| said(scene, "\"limit\":-1"), Cause::Malformed),
    ("too many classes", |scene| said(scene, "\"limit\":100001"), Cause::Malformed),
    ("a long pattern", long_pattern, Cause::Malformed),
    ("HTTP", |scene| drop(scene.say(b"GET / HTTP/1.1\r\n\r\n")), Cause::Malformed),
    ("a right that it has not", other_right, Cause::NotAllowed),
    ("a hand-over by the API", hand_over_by_the_api, Cause::NotAllowed),
    ("it reads none of a large answer", |scene| unread(scene, 0), Cause::NotRead),
    ("it reads a large answer slowly", |scene| unread(scene, 3), Cause::NotRead),
    ("it disconnects in an answer", disconnect_in_an_answer, Cause::NotRead),
];

fn begun(scene: &Scene, bytes: &[u8]) -> UnixStream {
    let mut stream = scene.connect();
    stream.write_all(bytes).expect("a small line fits");
    stream
}

fn await_end(mut stream: &UnixStream) {
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    let _ = stream.read_to_end(&mut Vec::new());
}

/// A client of the API that may only read asks to act for one that may change the link.
fn other_right(scene: &Scene) {
    let lines = "{\"call\":\"on-behalf\",\"right\":\"read\"}\n\
                 {\"call\":\"on-behalf\",\"right\":\"change\"}\n";
    let answer = scene.say(lines.as_bytes());
    assert!(answer.starts_with("\"done\"\n{\"refused\":{\"cause\":\"not-allowed\""), "{answer}");
}

/// Whoever has the descriptors of a link is its keeper.
fn hand_over_by_the_api(scene: &Scene) {
    let lines = "{\"call\":\"on-behalf\",\"right\":\"change\"}\n{\"call\":\"hand-over\"}\n";
    let answer = scene.say(lines.as_bytes());
    assert!(answer.contains("no such request by the API"), "{answer}");
}

/// A request for the status with this in it.
fn said(scene: &Scene, field: &str) {
    drop(scene.say(format!("{{\"call\":\"status\",{field}}}\n").as_bytes()));
}

fn long_pattern(scene: &Scene) {
    said(scene, &format!("\"class\":\"{}\"", "*a".repeat(500)));
}

fn other_key(scene: &Scene) {
    scene.say(b"{\"call\":\"restart\",\"path\":\"/etc/passwd\"}\n");
}

fn long_call(scene: &Scene) {
    drop(scene.say(format!("{{\"call\":\"{}\"}}\n", "\u{9b}\u{1f}x".repeat(9000)).as_bytes()));
}

fn deep_request(scene: &Scene) {
    said(scene, &format!("\"class\":{}", "[".repeat(10_000)));
}

fn one_byte_at_a_time(scene: &Scene) {
    let mut stream = scene.connect();
    until("a slow client is given up", || stream.write_all(b"x").is_err()).expect("it is");
}

/// Requests the whole status, and reads only so many parts of it.
fn unread(scene: &Scene, parts: usize) {
    let request = format!("{{\"call\":\"status\",\"limit\":{CLASSES_MAX}}}\n");
    let mut stream = begun(scene, request.as_bytes());
    for _ in 0..parts {
        let _ = stream.read(&mut [0; 4096]);
        std::thread::sleep(SHORT / 8);
    }
    scene.wait_for_refusal();
}

fn disconnect_in_an_answer(scene: &Scene) {
    let request = format!("{{\"call\":\"status\",\"limit\":{CLASSES_MAX}}}\n");
    let mut stream = begun(scene, request.as_bytes());
    stream.read_exact(&mut [0; 100]).expect("it begins");
}

impl Scene {
    fn wait_for_refusal(&self) {
        let is_reported = || !self.refused.lock().expect("no panic").is_empty();
        until("a refusal", is_reported).expect("it is told");
    }
}

/// A use of a link of 8 000 classes gives a refusal, and the next client its answer; nothing of it
/// stays in memory.
#[test]
fn a_hostile_use_gives_a_refusal_and_harms_no_other_client() {
    check_uses(PATIENT, |cause| !matches!(cause, Cause::Silent | Cause::NotRead));
    check_uses(Patience { request: SHORT, ..PATIENT }, |cause| cause == Cause::Silent);
    // Long enough for the request, also where the machine makes the client pause before it.
    let (request, answer) = (4 * SHORT, 4 * SHORT);
    let slow = Patience { request, answer, ..PATIENT };
    check_uses(slow, |cause| cause == Cause::NotRead);
}

/// Checks the uses of these causes on a server with this patience.
fn check_uses(patience: Patience, is_one: fn(Cause) -> bool) {
    let scene = Scene::with(8_000, |service| Service { patience, ..service });
    // The server may give up a good client, too, if the machine makes that pause.
    let status = || until_ok("an answer", || scene.status()).expect("it comes");
    status();
    let before = resident();
    for (name, hostile, cause) in USES.iter().filter(|(_, _, cause)| is_one(*cause)) {
        scene.refusals(0);
        hostile(&scene);
        let refused = scene.refusals(1);
        let causes: Vec<_> = refused.iter().map(|refused| refused.cause).collect();
        assert_eq!(causes, [*cause], "{name}: {refused:?}");
        // Whoever acts for another client is no user.
        assert_ne!(refused[0].uid.is_some(), refused[0].is_tcp, "{name}: {refused:?}");
        assert!(refused[0].text.len() < 500, "{name}: {refused:?}");
        assert!(!refused[0].text.contains(char::is_control), "{name}: {refused:?}");
        let lane = &status().lanes[0];
        assert_eq!((lane.classes.len(), lane.left_out), (1000, 7_000), "{name}");
    }
    scene.refusals(0);
    if patience == PATIENT {
        one_very_large_answer_at_a_time(&scene);
    }
    // What each class did in the last seconds takes 2.25 KiB, in an answer of 8 000 classes 18
    // MiB, which the allocator may keep once; twice would be a leak. The rest is for the other
    // tests.
    let grown = resident().saturating_sub(before);
    let answer = 8_000 * (9 << 8);
    assert!(grown < answer * 7 / 4, "{} MiB more after all uses", grown >> 20);
}

fn one_very_large_answer_at_a_time(scene: &Scene) {
    let request = format!("{{\"call\":\"status\",\"limit\":{CLASSES_MAX}}}\n");
    let mut first = begun(scene, request.as_bytes());
    first.read_exact(&mut [0; 100]).expect("it begins");
    let query = Query { limit: Some(CLASSES_MAX), ..Query::default() };
    let error = client::status(&scene.path(), &query).expect_err("it is refused");
    assert!(error.contains("try again, or ask for fewer"), "{error}");
    scene.status().expect("others are served");
    assert_eq!(scene.refusals(1)[0].cause, Cause::Busy);
    let mut next = begun(scene, request.as_bytes());
    drop(first);
    let mut begins = [0; 20];
    next.read_exact(&mut begins).expect("it is answered");
    let text = String::from_utf8_lossy(&begins);
    assert!(!text.contains("error"), "it has its turn when the first is gone: {text}");
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has it");
    let kib = line.trim().trim_end_matches(" kB").parse::<u64>().expect("it is a number");
    kib << 10
}

#[test]
fn a_thousand_connections_are_refused_but_for_a_few() {
    let scene = Scene::new(10);
    let clients: Vec<_> = (0..1000).map(|_| scene.connect()).collect();
    let refused = scene.refusals(1000 - CLIENTS_MAX);
    assert!(refused.iter().all(|refused| refused.cause == Cause::Busy));
    assert_eq!(refused.len(), 1000 - CLIENTS_MAX);
    let error = scene.status().expect_err("the others are connected");
    assert!(error.contains("try again"), "{error}");
    drop(clients);
    until_ok("disconnected clients make room", || scene.status()).expect("they do");
}

#[test]
fn the_keeper_has_places_of_its_own_for_the_gateway() {
    let keeper = Some(Arc::new(AtomicU32::new(std::process::id())));
    let scene = Scene::with(10, |service| Service { keeper, ..service });
    let clients: Vec<_> = (1..BEHALF_MAX).map(|_| scene.connect()).collect();
    const { assert!(BEHALF_MAX > CLIENTS_MAX + 1) };
    scene.status().expect("all but one of its places are taken");
    let last: Vec<_> = (0..2).map(|_| scene.connect()).collect();
    assert_eq!(scene.refusals(1)[0].cause, Cause::Busy);
    drop((clients, last));
}

#[test]
fn silent_clients_delay_no_other_and_not_the_end() {
    let mut scene = Scene::new(10);
    let silent: Vec<_> = (1..CLIENTS_MAX).map(|_| scene.connect()).collect();
    // The server's patience with them is longer than the test's.
    scene.status().expect("an answer");
    let server = scene.server.take();
    let end = std::thread::spawn(move || drop(server));
    until("the end does not wait for them", || end.is_finished()).expect("it comes");
    assert!(!scene.path().exists(), "the socket is removed");
    drop(silent);
}

#[test]
fn a_client_may_send_several_requests_and_lines_in_parts() {
    let scene = Scene::new(10);
    let mut stream = scene.connect();
    let mut answers = BufReader::new(stream.try_clone().expect("a copy")).lines();
    let mut answer = || answers.next().expect("an answer").expect("text");
    stream.write_all(b"{\"call\":").expect("it reads");
    stream.write_all(b"\"status\"}\n{\"call\"").expect("it reads");
    assert!(answer().starts_with("{\"status\":{\"uptime_ns\":"));
    // The first half of this line was read with the one before.
    stream.write_all(b":\"mark\"}\n{\"call\":\"status\"}").expect("it reads");
    assert_eq!(answer(), "\"done\"");
    stream.shutdown(Shutdown::Write).expect("it is connected");
    assert!(answer().starts_with("{\"status\":{\"uptime_ns\":"));
    assert_eq!(scene.refusals(0), []);
}

#[test]
fn an_answer_holds_the_classes_that_were_asked_for() {
    let scene = Scene::new(3000);
    let check = |class: Option<&str>, sort, limit, held: usize| {
        let query = Query { class: class.map(str::to_owned), sort, limit, ..Query::default() };
        let status = client::status(&scene.path(), &query).expect("an answer");
        let lane = &status.lanes[0];
        assert_eq!((lane.classes.len(), lane.left_out), (held, 3000 - held as u64), "{query:?}");
    };
    check(None, None, None, 1000);
    check(None, None, Some(CLASSES_MAX), 3000);
    check(Some("class-7"), None, None, 1);
    check(Some("class-2???"), None, None, 1000);
    check(Some("rest"), None, None, 1);
    check(None, Some(Sort::Backlog), Some(5), 5);
    check(Some("none*"), None, None, 0);
}

#[test]
fn only_root_and_the_owner_change_the_link() {
    let own = own_uid();
    for (owner, is_allowed) in [(own, true), (own + 1, own == 0)] {
        let scene = Scene::with(10, |service| Service { owner, ..service });
        scene.status().expect("anyone who may connect may read");
        let answer = client::call(&scene.path(), &Request::Mark {}).expect("an answer");
        assert_eq!(answer == Answer::Done, is_allowed, "{answer:?}");
        let refused = scene.refusals(usize::from(!is_allowed));
        assert!(refused.iter().all(|refused| refused.cause == Cause::NotAllowed));
    }
}

#[test]
fn the_link_acts_on_other_requests_and_its_answer_brings_descriptors() {
    let scene = Scene::new(10);
    let answer = client::call(&scene.path(), &Request::HandOver {}).expect("an answer");
    assert!(matches!(answer, Answer::Error(_)), "nothing acts on it yet: {answer:?}");
    for count in [1, 3, DESCRIPTORS_MAX] {
        let file = tempfile::tempfile().expect("a file");
        let own = file.try_clone().expect("a copy");
        let act = move |request: &Request, peer: &Peer| {
            assert!(*request == Request::HandOver {} && peer.uid.is_some());
            let copy = |_| own.try_clone().expect("a copy").into();
            let descriptors = (0..count).map(copy).collect();
            Reply { descriptors, ..Answer::Done.into() }
        };
        let scene = Scene::with(10, |service| Service { act: Box::new(act), ..service });
        let (answer, received) =
            client::call_for_descriptors(&scene.path(), &Request::HandOver {}).expect("an answer");
        assert_eq!((answer, received.len()), (Answer::Done, count));
        let inode = file.metadata().expect("a file").ino();
        let is_same = |fd: OwnedFd| std::fs::File::from(fd).metadata().expect("it").ino() == inode;
        assert!(received.into_iter().all(is_same));
    }
}

#[test]
fn a_socket_is_for_its_user_and_a_stale_one_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let astray = folder.path().join("below/a.sock");
    let error = listen::bind(&astray, None).expect_err("folders are not made");
    assert!(
        error.contains("there is no folder") && !folder.path().join("below").exists(),
        "{error}"
    );
    let path = folder.path().join("a.sock");
    let boards = || vec![Arc::new(Board::new())];
    let first = Server::start(&path, boards()).expect("a fresh path");
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let error = Server::start(&path, boards()).err().expect("it is taken");
    assert!(error.contains("another link already answers"), "{error}");
    drop(first);
    assert!(!path.exists(), "the socket is removed with its server");
    drop(UnixListener::bind(&path).expect("a socket that nobody will listen on"));
    let error = client::call(&path, &Request::Mark {}).expect_err("nobody answers");
    assert!(error.contains("is stale: no process listens"), "{error}");
    let second = Server::start(&path, boards()).expect("a stale one is replaced");
    // Another one that takes its place is not removed.
    std::fs::remove_file(&path).expect("it is there");
    std::fs::write(&path, "precious").expect("a file");
    drop(second);
    let error = Server::start(&path, boards()).err().expect("it is no socket");
    assert!(error.contains("not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "precious");
    let (long, group) = (folder.path().join("x".repeat(100)), rustix::process::getegid().as_raw());
    let error = listen::bind(&long, None).expect_err("too long");
    assert!(error.contains("at most 107"), "{error}");
    let shared = folder.path().join("b.sock");
    let (_bound, _listener) = listen::bind(&shared, Some(group)).expect("its own group");
    let mode = std::fs::metadata(&shared).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

/// Sends lines of a client of the API with this right; returns what comes back, and the refusals,
/// which may be told a moment after the connection has ended.
fn on_behalf(right: &str, more: &str, refusals: usize) -> (String, Vec<Refused>) {
    let feed: Arc<Feed> = Arc::default();
    feed.push(Event::at(EventKind::PortDown, 7, About { subject: "eth0", ..About::default() }));
    let first = feed.start();
    let scene = Scene::with(10, |service| Service {
        feed,
        act: Box::new(|request, peer| {
            assert_eq!((peer.uid, peer.user), (None, None), "it acts for another client");
            match request {
                Request::Snapshot { .. } => Reply {
                    tail: Some(Box::new(|out, _| {
                        out.write_all(b"first").map_err(|error| error.to_string())?;
                        Err("the disk is gone".to_owned())
                    })),
                    ..Answer::Done.into()
                },
                _ => Reply::error("no"),
            }
        }),
        ..service
    });
    let more = more.replace("FIRST", &first.to_string());
    let lines = format!("{{\"call\":\"on-behalf\",\"right\":\"{right}\"}}\n{more}\n");
    let answer = scene.say(lines.as_bytes());
    let answer = answer.strip_prefix("\"done\"\n").expect("it may").to_owned();
    (answer, scene.refusals(refusals))
}

#[test]
fn a_client_of_the_api_has_the_right_of_its_token_and_is_no_user() {
    let (answer, refused) = on_behalf("read", "{\"call\":\"mark\"}", 1);
    assert!(
        answer.contains("\"cause\":\"not-allowed\"") && answer.contains("only reads"),
        "{answer}"
    );
    assert_eq!(refused.len(), 1);
    assert!(refused[0].is_tcp && refused[0].uid.is_none(), "{refused:?}");
    let (answer, refused) = on_behalf("change", "{\"call\":\"mark\"}", 0);
    assert_eq!((answer.as_str(), refused), ("\"done\"\n", Vec::new()));
    let (answer, _) = on_behalf("change", "{\"call\":\"confirm\"}", 0);
    assert_eq!(answer, "{\"error\":\"no\"}\n");
    let reported = "{\"call\":\"refused\",\"cause\":\"foreign\",\"text\":\"no token\"}";
    let (answer, refused) = on_behalf("change", reported, 1);
    assert_eq!(answer, "\"done\"\n");
    assert_eq!((refused[0].cause, refused[0].text.as_str()), (Cause::Foreign, "no token"));
    // A gateway that was taken over may tell anything.
    let (_, refused) =
        on_behalf("change", &reported.replace("no token", &"\u{e4}".repeat(9000)), 1);
    assert_eq!(refused[0].text.chars().count(), REFUSAL_MAX);
}

#[test]
fn a_viewer_of_the_page_has_the_name_of_who_connected_and_no_right_of_it() {
    let act = |_: &Request, peer: &Peer| {
        assert_eq!((peer.uid, peer.user), (None, Some(own_uid())));
        Answer::Done.into()
    };
    let scene = Scene::with(10, |service| Service { act: Box::new(act), ..service });
    let say = |right: &str, call: &str| {
        let first = format!("{{\"call\":\"on-behalf\",\"right\":\"{right}\",\"keeps_user\":true}}");
        scene.say(format!("{first}\n{{\"call\":\"{call}\"}}\n").as_bytes())
    };
    assert_eq!(say("change", "confirm"), "\"done\"\n\"done\"\n");
    assert!(say("read", "confirm").contains("\"cause\":\"not-allowed\""));
    let refused = scene.refusals(1);
    assert!(!refused[0].is_tcp && refused[0].uid == Some(own_uid()), "{refused:?}");
}

#[test]
fn what_follows_an_answer_to_the_api_comes_in_parts_and_has_an_end_if_it_is_whole() {
    let (answer, refused) = on_behalf("change", "{\"call\":\"snapshot\"}", 1);
    assert_eq!(answer, "\"done\"\n", "what was not written yet goes with the error");
    assert_eq!(refused[0].text, "the disk is gone");
    // The client has half-closed by then: the stream ends, whole.
    let follow = "{\"call\":\"events\",\"follow\":true,\"after\":\"FIRST\"}";
    let (answer, _) = on_behalf("read", follow, 0);
    assert!(answer.starts_with("\"done\"\n") && answer.ends_with("0\n"), "{answer}");
}

#[test]
fn events_are_reported_as_they_happen() {
    let feed: Arc<Feed> = Arc::default();
    let own = Arc::clone(&feed);
    let scene = Scene::with(10, |service| Service { feed: own, ..service });
    let mut stream = begun(&scene, b"{\"call\":\"events\",\"follow\":true}\n");
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), "\"done\"");
    feed.push(Event::at(EventKind::PortDown, 7, About { subject: "eth0", ..About::default() }));
    let reported = line();
    assert!(
        reported.starts_with("{\"id\":\"")
            && reported.contains("\"event\":{\"event\":\"port-down\""),
        "{reported}"
    );
    stream.write_all(b"\n").expect("it is open");
    assert!(lines.next().is_none(), "it ends when the client says anything");
}
