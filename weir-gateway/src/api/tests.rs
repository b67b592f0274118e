//! Tests of the API beside a real control socket: bytes in, bytes out.

use super::*;
use crate::http::memory;
use crate::live::contact::ByPath;
use crate::site::Web;
use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;
use weir_control::access;
use weir_control::gateway::{Api as Address, Secret};
use weir_control::listen::{self, Bound};
use weir_control::places::own_uid;
use weir_control::protocol::{Cause, Method};
use weir_control::server::Server;
use weir_control::service::{Act, Patience, Peer, Refused, Reply as Answered, Service};
use weir_core::random::Random;
use weir_link::events::feed::{FEED_MAX, Feed};
use weir_link::events::{About, Event, Kind};
use weir_testbed::until;

/// A link without loops that notes what it is asked for, and its API.
struct Scene {
    asked: Arc<Mutex<Vec<Request>>>,
    refused: Arc<Mutex<Vec<Refused>>>,
    feed: Arc<Feed>,
    contact: Arc<dyn Contact>,
    // Dropped in this order.
    _server: Server,
    _bound: Bound,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
        let noted = Arc::clone(&asked);
        Self::with(
            asked,
            Box::new(move |request, _: &Peer| {
                noted.lock().expect("no panic").push(request.clone());
                match request {
                    Request::Record { .. } => {
                        Answered { tail: Some(Box::new(record)), ..Answer::Done.into() }
                    }
                    Request::Snapshot { .. } => Answered::error("this link has no ring: no record"),
                    _ => Answer::Done.into(),
                }
            }),
        )
    }

    fn with(asked: Arc<Mutex<Vec<Request>>>, act: Act) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("home.sock");
        let (bound, listener) = listen::bind(&path, None).expect("a fresh path");
        let (refused, feed) = (Arc::default(), Arc::<Feed>::default());
        let reported: Arc<Mutex<Vec<Refused>>> = Arc::clone(&refused);
        let patience = Patience { counts: Duration::ZERO, ..Patience::default() };
        let service = Service {
            act,
            patience,
            feed: Arc::clone(&feed),
            owner_request_max: OWNER_REQUEST_MAX,
            refused: Box::new(move |one| reported.lock().expect("no panic").push(one)),
            ..Service::of(Vec::new(), own_uid())
        };
        let server = Server::on(listener, service).expect("threads");
        let contact = Arc::new(ByPath::new(None, Some(path)));
        Self { asked, refused, feed, contact, _server: server, _bound: bound, _folder: folder }
    }

    fn router(&self, site: Site) -> Router {
        Api::new("home", Arc::clone(&self.contact), site).router()
    }

    /// Returns what a client receives that sends this, `|` being the end of a line.
    fn ask(&self, text: &str) -> String {
        self.ask_at(&self.router(Site::Local), text)
    }

    fn ask_at(&self, router: &Router, text: &str) -> String {
        let outcome = memory::answer(text.replace('|', "\r\n").as_bytes(), router);
        String::from_utf8_lossy(&outcome.answer).into_owned()
    }

    /// Sends a request; expects an answer of this status that contains this part.
    fn check(&self, request: &str, status: u16, part: &str) {
        let answer = self.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
        assert!(answer.contains(part), "{request:?}: {answer}");
    }

    fn taken(&self) -> Vec<Request> {
        std::mem::take(&mut *self.asked.lock().expect("no panic"))
    }
}

/// Writes a record that fails at once if the client is gone.
fn record(out: &mut dyn Write, is_over: &dyn Fn() -> bool) -> Result<(), String> {
    let mut write = |part: &[u8]| out.write_all(part).and_then(|()| out.flush());
    write(b"first").map_err(|error| error.to_string())?;
    if is_over() {
        return Err("the client is gone".to_owned());
    }
    write(b"last").map_err(|error: io::Error| error.to_string())
}

#[test]
fn a_request_is_met_or_refused_with_its_status_and_cure() {
    let scene = Scene::new();
    let check = |request: &str, status, part| scene.check(request, status, part);
    check("GET /openapi.json HTTP/1.1|Host: a||", 200, "\"openapi\":\"3.1.0\"");
    check("POST /mark HTTP/1.1|Host: a||", 200, "\"done\"");
    let old = scene.ask("POST /mark HTTP/1.0||");
    assert!(old.starts_with("HTTP/1.0 200 ") && old.ends_with("\"done\""), "{old}");
    check("GET /events HTTP/1.1|Host: a||", 200, "\"events\":[]");
    check("GET /events?after=1-1 HTTP/1.1|Host: a||", 200, "\"events\":[]");
    check("GET /events?after=x HTTP/1.1|Host: a||", 400, "no event with this id");
    check("GET /status HTTP/1.1|Host: a||", 500, "run loop does not answer");
    check("GET /metrics HTTP/1.1|Host: a||", 500, "run loop does not answer");
    check("GET /metrics?limit=10001 HTTP/1.1|Host: a||", 400, "at most 10000 classes");
    check("GET /status?limit=100001 HTTP/1.1|Host: a||", 400, "at most 100000");
    check("GET /status?limit=x HTTP/1.1|Host: a||", 400, "`limit` is `x`; write a whole number");
    check("GET /status?classes=1 HTTP/1.1|Host: a||", 400, "unknown field");
    check("GET /status?call=mark HTTP/1.1|Host: a||", 400, "leave `call` out");
    check("GET /status?class=a&class=b HTTP/1.1|Host: a||", 400, "comes twice");
    check("GET /status?class=%ff HTTP/1.1|Host: a||", 400, "wrong escape");
    check("POST /mark?x=1 HTTP/1.1|Host: a||", 400, "unknown field");
    check("GET /mark HTTP/1.1|Host: a||", 405, "Allow: POST");
    check("POST /status HTTP/1.1|Host: a||", 405, "Allow: GET, HEAD");
    check("PUT /status HTTP/1.1|Host: a||", 405, "Allow: GET, HEAD");
    check("GET /hand-over HTTP/1.1|Host: a||", 404, "openapi.json");
    check("GET /on-behalf HTTP/1.1|Host: a||", 404, "openapi.json");
    check("GET /../status HTTP/1.1|Host: a||", 404, "openapi.json");
    check("GET /status HTTP/1.1|Host: a|Content-Length: 1||x", 413, "at most 0");
    let typed = "POST /mark HTTP/1.1|Host: a|Content-Type: application/json; charset=utf-8";
    check(&format!("{typed}|Content-Length: 2||{{}}"), 200, "\"done\"");
    check(&format!("{typed}|Content-Length: 2||[]"), 400, "invalid type");
    check(&format!("{typed}|Content-Length: 3||{{}}"), 400, "the body has no end");
    check(&format!("{typed}|Content-Length: 67108865||"), 413, "at most 67108864");
    check(&format!("{typed}|Content-Length: 17||{{\"call\":\"status\"}}"), 400, "leave `call` out");
    check("POST /mark HTTP/1.1|Host: a|Content-Length: 2||{}", 415, "application/json");
    check("POST /mark HTTP/1.1|Host: a|Expect: money||", 417, "100-continue");
    check("POST /mark HTTP/1.1|Host: a|Origin: http://b||", 403, "other sites");
    check("POST /mark HTTP/1.1|Host: a|Origin: http://a||", 200, "\"done\"");
    check("POST /mark HTTP/1.1|Host: a|Transfer-Encoding: chunked||", 411, "Content-Length");
    check("GET /events HTTP/1.1||", 400, "`Host`");
    check("GET /events HTTP/1.1|Host: a|Host: a||", 400, "send one header `host`");
    check("GET /events HTTP/1.1|Host: a", 400, "the request has no end");
    check(&format!("GET /{} HTTP/1.1|Host: a||", "x".repeat(17 << 10)), 431, "16384 bytes");
}

/// Other readers, such as a proxy before the link, may see the end of such a head elsewhere.
#[test]
fn a_head_with_a_bare_lf_is_refused_and_nothing_behind_it_is_met() {
    let scene = Scene::new();
    for head in [
        "POST /mark HTTP/1.1\nHost: a\n\n",
        "POST /mark HTTP/1.1|Host: a\n|",
        "POST /mark HTTP/1.1\n|Host: a||",
        "POST /mark HTTP/1.1|Host: a|X: y\nContent-Length: 0||",
    ] {
        let answer = scene.ask(&format!("{head}POST /restart HTTP/1.1|Host: a||"));
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("LF alone"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
    assert_eq!(scene.taken(), []);
    let answer = scene.ask("POST /confirm HTTP/1.1|Host: a||POST /mark HTTP/1.1\nHost: a\n\n");
    assert!(answer.contains("HTTP/1.1 200 ") && answer.contains("HTTP/1.1 400 "), "{answer}");
    assert_eq!(scene.taken(), [Request::Confirm {}], "the one before it was met");
}

#[test]
fn a_record_is_the_body_of_its_answer_and_has_a_length() {
    let scene = Scene::new();
    let check = |request: &str, status, part| scene.check(request, status, part);
    let head = "Content-Type: application/x-pcapng";
    check("POST /record HTTP/1.1|Host: a||", 400, "/record?for_ms=10000");
    check("POST /record?for_ms=0 HTTP/1.1|Host: a||", 400, "1 to 3600000");
    check("POST /record?for_ms=3600001 HTTP/1.1|Host: a||", 400, "1 to 3600000");
    check("POST /record?for_ms=x HTTP/1.1|Host: a||", 400, "`for_ms` is `x`");
    check("GET /record?for_ms=5 HTTP/1.1|Host: a||", 405, "Allow: POST");
    check("GET /snapshot HTTP/1.1|Host: a||", 409, "no record");
    scene.taken();
    let answer = scene.ask("HEAD /snapshot HTTP/1.1|Host: a||");
    assert!(answer.contains(head) && answer.ends_with("\r\n\r\n"), "{answer}");
    assert_eq!(scene.taken(), [], "only the head was asked for");
    let whole = talk(&scene, "POST /record?for_ms=5 HTTP/1.1|Host: a||", "0\r\n\r\n");
    assert!(whole.contains(head) && whole.contains("first") && whole.contains("last"), "{whole}");
    let whole = talk(&scene, "POST /record?for_ms=5 HTTP/1.0||", "last");
    assert!(whole.ends_with("\r\n\r\nfirstlast"), "{whole}");
}

/// Sends this, `|` being the end of a line, as a client that stays; returns what it receives until
/// that ends so.
fn talk(scene: &Scene, text: &str, end: &str) -> String {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").expect("it can be bound");
    let address = listener.local_addr().expect("it has one");
    let _server = serve(scene, listener, crate::http::talk::Patience::default());
    let mut client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(weir_testbed::PATIENCE)).expect("it is a socket");
    let headers = format!("|Authorization: Bearer {CHANGE}||");
    let text = text.replacen("||", &headers, 1).replace("Host: a", "Host: localhost");
    let text = text.replace("HTTP/1.0|", "HTTP/1.0|Host: localhost|").replace('|', "\r\n");
    client.write_all(text.as_bytes()).expect("it reads");
    let mut answer = String::new();
    while !answer.ends_with(end) {
        let mut bytes = [0; 4096];
        match client.read(&mut bytes) {
            Ok(count @ 1..) => answer.push_str(&String::from_utf8_lossy(&bytes[..count])),
            ended => panic!("{ended:?} after {answer}"),
        }
    }
    answer
}

const CHANGE: &str = "0123456789abcdef0123456789abcdef";
const READ: &str = "fedcba9876543210fedcba9876543210";

/// The tokens of an API.
fn web() -> Arc<Web> {
    let listen = "127.0.0.1:0".parse().expect("an address");
    let api = access::of_token(listen, Secret(CHANGE.to_owned()));
    let api = Address { read_token: Some(Secret(READ.to_owned())), ..api };
    Arc::new(Web::new(&api).expect("the tokens are long enough"))
}

/// Serves the API at an address, with two clients at once.
fn serve(
    scene: &Scene,
    listener: std::net::TcpListener,
    patience: crate::http::talk::Patience,
) -> crate::http::serve::Server {
    use crate::http::serve::{Endpoint, Server, listener as ready, runtime};
    let (web, contact) = (web(), Arc::clone(&scene.contact));
    let router = Api::new("home", contact, Site::Web(Arc::clone(&web))).router();
    let listener = ready(listener.into()).expect("it is a socket");
    let endpoint = Endpoint { listener, web, router, clients_max: 2, patience, refused: None };
    Server::start(runtime().expect("descriptors"), vec![endpoint]).expect("a thread")
}

#[test]
fn a_record_that_ends_early_has_no_last_part() {
    let scene = Scene::with(
        Arc::default(),
        Box::new(|_, _| {
            let tail = |out: &mut dyn Write, _: &dyn Fn() -> bool| -> Result<(), String> {
                let written = out.write_all(&[b'x'; 100_000]).and_then(|()| out.flush());
                written.map_err(|error| error.to_string())?;
                Err("the disk is gone".to_owned())
            };
            Answered { tail: Some(Box::new(tail)), ..Answer::Done.into() }
        }),
    );
    let text = scene.ask("GET /snapshot HTTP/1.1|Host: a||");
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("chunked"), "{text}");
    assert!(!text.ends_with("0\r\n\r\n"), "{text}");
    until("the link tells of it", || !scene.refused.lock().expect("no panic").is_empty())
        .expect("it does");
}

#[test]
fn a_body_is_waited_for_before_it_is_sent_if_the_client_wants_that() {
    let scene = Scene::new();
    let head = "POST /mark HTTP/1.1|Host: a|Content-Type: application/json|Expect: 100-continue|";
    // Nothing follows the head here, so that the wait is in vain.
    let answer = scene.ask(&format!("{head}Content-Length: 2||"));
    assert!(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 "), "{answer}");
    let answer = scene.ask(&format!("{head}Content-Length: 99999999||"));
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn requests_follow_each_other_on_a_connection_until_one_is_refused() {
    let scene = Scene::new();
    let get = "GET /events HTTP/1.1|Host: a||";
    let count = |text: &str| scene.ask(text).matches("HTTP/1.1 ").count();
    assert_eq!(count(&get.repeat(3)), 3);
    assert_eq!(count(&format!("{get}GET /no HTTP/1.1|Host: a||{get}")), 2);
    assert_eq!(count(&format!("GET /events HTTP/1.1|Host: a|Connection: close||{get}")), 1);
    assert_eq!(count(&format!("GET /events HTTP/1.0||{get}")), 0, "one of HTTP/1.0 is met");
    let head = scene.ask("HEAD /events HTTP/1.1|Host: a||");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(count("HEAD /events HTTP/1.1|Host: a||HEAD /openapi.json HTTP/1.1|Host: a||"), 2);
    let body = "Content-Type: application/json|Content-Length: 2||{}";
    assert_eq!(count(&format!("POST /mark HTTP/1.1|Host: a|{body}{get}")), 2);
}

#[test]
fn each_request_of_the_table_is_met_at_its_path_for_those_who_may() {
    let scene = Scene::new();
    let router = scene.router(Site::Web(web()));
    let check = |text: &str, token: &str, status: &str| {
        let headers = format!("Host: localhost|Authorization: Bearer {token}||");
        let answer = scene.ask_at(&router, &format!("{text} HTTP/1.1|{headers}"));
        assert_eq!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            !status.is_empty(),
            "{text}: {answer}"
        );
        assert!(!answer.contains(CHANGE) && !answer.contains(READ), "{answer}");
        answer
    };
    for call in CALLS {
        let Some(route) = call.route else { continue };
        let text = format!("{} {}", route.method.name(), route.path);
        check(&text, "", "401");
        check(&text, &CHANGE[1..], "401");
        assert_eq!(scene.taken(), [], "{text}");
        let answer = scene.ask_at(
            &router,
            &format!("{text} HTTP/1.1|Host: localhost|Authorization: Bearer {READ}||"),
        );
        assert_eq!(answer.starts_with("HTTP/1.1 403 "), call.right == Right::Change, "{answer}");
        let asked = scene.taken();
        assert!(asked.iter().all(|request| request.call().right == Right::Read), "{asked:?}");
        let answer = scene.ask_at(
            &router,
            &format!("{text} HTTP/1.1|Host: localhost|Authorization: Bearer {CHANGE}||"),
        );
        assert!(!answer.starts_with("HTTP/1.1 403 ") && !answer.starts_with("HTTP/1.1 401 "));
        let asked = scene.taken();
        assert!(asked.iter().all(|request| request.call().keyword == call.keyword), "{asked:?}");
    }
}

#[test]
fn a_refused_client_has_a_cause() {
    let scene = Scene::new();
    let check = |router: &Router, text: &str, cause: Option<Cause>| {
        let outcome = memory::answer(text.replace('|', "\r\n").as_bytes(), router);
        assert_eq!(outcome.refusal.map(|(cause, _)| cause), cause, "{text}");
    };
    let (local, web) = (scene.router(Site::Local), scene.router(Site::Web(web())));
    check(&local, "GET /events HTTP/1.1|Host: a||", None);
    check(&local, "GET / HTTP/1.1||", Some(Cause::Malformed));
    check(&local, "GET /etc/passwd HTTP/1.1|Host: a||", Some(Cause::Unknown));
    check(&local, "DELETE /status HTTP/1.1|Host: a||", Some(Cause::Unknown));
    check(&local, "POST /mark HTTP/1.1|Host: a|Origin: http://b||", Some(Cause::NotAllowed));
    check(&local, &"X".repeat(20 << 10), Some(Cause::TooLong));
    check(&web, "GET /events HTTP/1.1|Host: localhost||", Some(Cause::Foreign));
    check(&web, "GET /events HTTP/1.1|Host: evil.example||", Some(Cause::Foreign));
    // The link refuses this one, and tells of it.
    check(&local, "GET /status?limit=100001 HTTP/1.1|Host: a||", None);
    let refused = || scene.refused.lock().expect("no panic");
    until("the link tells of the refusal", || !refused().is_empty()).expect("it tells");
    assert_eq!(refused().len(), 1);
}

#[test]
fn a_stream_has_events_and_how_many_were_missed() {
    let scene = Scene::new();
    let stream = |more: &str, end: &str| {
        let text = format!("GET /events HTTP/1.1|Host: a|Accept: text/event-stream{more}||");
        talk(&scene, &text, end)
    };
    let feed = &scene.feed;
    feed.push(Event::at(Kind::PortDown, 7, About { subject: "eth0", ..About::default() }));
    let id = feed.end().to_string();
    let before = id.replace("-1", "-0");
    let reported = stream(&format!("|Last-Event-ID: {before}"), "\n\n\r\n");
    assert!(
        reported.contains(&format!("id: {id}\nevent: port-down\ndata: {{\"event\":")),
        "{reported}"
    );
    for at_ns in 0..FEED_MAX as u64 + 5 {
        feed.push(Event::at(Kind::PortUp, at_ns, About::default()));
    }
    let last = format!("id: {}\n", feed.end());
    let mut reported = stream(&format!("|Last-Event-ID: {id}"), "\n\n\r\n");
    assert!(reported.contains("event: lost\ndata: {\"count\":5}\n\n"), "{reported}");
    reported.truncate(reported.find(&last).unwrap_or(reported.len()));
    // The events of a process before are not known to be lost.
    let reported = stream("|Last-Event-ID: 1-9", "\n\n\r\n");
    assert!(reported.contains("event: lost\ndata: {\"count\":6}\n\n"), "{reported}");
    let refused = talk(
        &scene,
        "GET /events HTTP/1.1|Host: a|Accept: text/event-stream|Last-Event-ID: x||",
        "}",
    );
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
}

/// How long a client is waited for is not measured here: a short time passes on any machine.
#[test]
fn a_client_that_is_silent_or_does_not_read_is_given_up_and_too_many_are_turned_away() {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    let scene = Scene::with(
        Arc::default(),
        Box::new(|_, _| {
            let tail = |out: &mut dyn Write, is_over: &dyn Fn() -> bool| -> Result<(), String> {
                while !is_over() {
                    out.write_all(&[b'x'; 64 << 10]).map_err(|error| error.to_string())?;
                }
                Ok(())
            };
            Answered { tail: Some(Box::new(tail)), ..Answer::Done.into() }
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("it can be bound");
    let address = listener.local_addr().expect("it has one");
    let short = Duration::from_millis(300);
    let patience = crate::http::talk::Patience { request: short, answer: short };
    let _server = serve(&scene, listener, patience);
    let connect = || {
        let client = TcpStream::connect(address).expect("it listens");
        client.set_read_timeout(Some(weir_testbed::PATIENCE)).expect("it is a socket");
        client
    };
    let rest = |mut client: TcpStream| {
        let mut answer = Vec::new();
        // One that is given up may be reset.
        let _ended = client.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert!(rest(connect()).starts_with("HTTP/1.1 408 "), "it sent nothing");
    let mut half = connect();
    half.write_all(b"GET / HT").expect("it reads");
    assert!(rest(half).starts_with("HTTP/1.1 408 "), "it sent half a head");
    let mut unread = connect();
    let head = format!("Host: localhost\r\nAuthorization: Bearer {CHANGE}\r\n\r\n");
    unread.write_all(format!("GET /snapshot HTTP/1.1\r\n{head}").as_bytes()).expect("it reads");
    let is_given_up = || unread.write_all(b"x").is_err();
    until("one that does not read is given up", is_given_up).expect("it is");
    let (first, second) = (connect(), connect());
    // They have their places once they are accepted, and before the third is.
    let mut third = connect();
    let _sent = third.write_all(b"GET /events HTTP/1.1\r\n\r\n");
    let answer = rest(third);
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("2 clients"), "{answer}");
    drop((first, second));
}

#[test]
fn the_document_describes_each_path_and_refers_to_nothing_that_is_not_there() {
    let document = document::openapi();
    for call in CALLS {
        let Some(route) = call.route else { continue };
        let operation = &document["paths"][route.path][route.method.name().to_ascii_lowercase()];
        assert_eq!(operation["operationId"], call.keyword);
        let kind = route.follows.unwrap_or(respond::JSON);
        let answer = &operation["responses"]["200"]["content"][kind]["schema"];
        assert!(answer.is_object(), "{}: {answer}", call.keyword);
        let takes = match route.method {
            Method::Get => operation["parameters"].as_array().is_some_and(|keys| !keys.is_empty()),
            Method::Post => operation["requestBody"].is_object(),
        };
        let empty = format!("{{\"call\":\"{}\"}}", call.keyword);
        let written = serde_json::from_str::<Request>(&empty).map(|request| format!("{request:?}"));
        let has_keys = !written.is_ok_and(|text| text.chars().all(char::is_alphanumeric));
        assert_eq!(takes, has_keys, "{}", call.keyword);
    }
    let text = document.to_string();
    let mut references = 0;
    for part in text.split("\"$ref\":\"#").skip(1) {
        let pointer = part.split('"').next().unwrap_or_default();
        assert!(document.pointer(pointer).is_some(), "{pointer} is defined");
        references += 1;
    }
    assert!(references > 5, "{text}");
}

#[test]
fn lines_of_a_feed_come_as_they_are() {
    let scene = Scene::new();
    let lines = r#"{"leave":"a"}"#;
    let kind = "Content-Type: application/x-ndjson";
    let rest = format!("HTTP/1.1|Host: a|{kind}|Content-Length: {}||{lines}", lines.len());
    scene.ask(&format!("POST /feed {rest}"));
    scene.ask(&format!("POST /feed?whole=true {rest}"));
    let wanted = |whole| Request::Feed { lines: lines.to_owned(), whole };
    assert_eq!(scene.taken(), [wanted(false), wanted(true)]);
    let odd = format!("POST /feed?whole=yes {rest}");
    scene.check(&odd, 400, "`whole` is `yes`; write `true` or `false`");
    scene.check(&format!("POST /mark {rest}"), 415, "application/json");
}

#[test]
fn any_bytes_close_to_a_request_of_any_route_get_an_answer() {
    let mut random = Random::new(0x0a91, 0);
    let routes = CALLS.iter().filter_map(|call| call.route);
    let documents = ["/metrics", "/openapi.json", "/none"];
    let documents = documents.map(|path| (Method::Get, path));
    for (method, path) in routes.map(|route| (route.method, route.path)).chain(documents) {
        let body = "{\"terms\":{\"dry_run\":true},\"settings\":[],\"after\":\"1-1\"}";
        let request = format!(
            "{} {path}?limit=1 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            method.name(),
            body.len()
        );
        for _ in 0..40 {
            let mut bytes = request.clone().into_bytes();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u32) as usize;
                match random.below(3) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"\r\n %{}:&=\"0"[random.below(11) as usize]),
                }
            }
            if random.below(4) == 0 {
                bytes.truncate(random.below(bytes.len() as u32) as usize);
            }
            exercise(&bytes);
        }
    }
}
