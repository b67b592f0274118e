//! Tests of the routes without sockets: bytes in, bytes out.

use super::feed::Feed;
use super::*;
use crate::http::heading::Head;
use crate::http::memory;
use crate::http::serve::runtime;
use crate::http::talk::{Asked, Patience, Talk};
use crate::json::{Abilities, About, Heat, HeatQuery, History, HistoryQuery, Predict, Prediction};
use crate::site::Web;
use crate::source::Contact;
use std::os::unix::net::UnixStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tower_service::Service;
use weir_control::access;
use weir_control::gateway::{Api as Address, Secret};

/// A source with one direction.
#[derive(Default)]
struct Scene {
    feed: Feed,
}

/// A link that answers each request with what it got.
struct Echo;

impl Contact for Echo {
    fn connect(&self, _right: Right) -> Result<UnixStream, String> {
        let (own, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        std::thread::spawn(move || reply(own));
        Ok(theirs)
    }

    fn may_change(&self) -> bool {
        true
    }
}

/// Lets the connection act for whomever it is asked to, and gives the next line back as the reason
/// of a failure.
fn reply(mut own: UnixStream) {
    use std::io::{BufRead, BufReader, Write};
    let _gone = own.write_all(b"\"done\"\n");
    let mut line = String::new();
    if BufReader::new(&own).read_line(&mut line).is_ok() {
        let answer = serde_json::json!({ "error": line.trim() });
        let _gone = own.write_all(format!("{answer}\n").as_bytes());
    }
}

impl Source for Scene {
    fn about(&self, right: Right) -> Result<About, Fault> {
        let abilities = Abilities { change: right == Right::Change, ..Abilities::default() };
        Ok(About { name: "home".to_owned(), abilities, ..About::default() })
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, Fault> {
        assert!(query.from.is_none_or(f64::is_finite));
        Ok(History::default())
    }

    fn heat(&self, query: &HeatQuery) -> Result<Heat, Fault> {
        assert_ne!(query.class, "panic", "what the test of panics asks for");
        if query.class.is_empty() { Err(Fault::bad("name a class")) } else { Ok(Heat::default()) }
    }

    fn predict(&self, predict: &Predict) -> Result<Prediction, Fault> {
        Ok(Prediction { errors: predict.settings.len(), ..Prediction::default() })
    }

    fn feed(&self) -> Option<&Feed> {
        self.feed.put_event("event", "{}".to_owned());
        Some(&self.feed)
    }
}

const CHANGE: &str = "0123456789abcdef0123456789abcdef";
const READ: &str = "fedcba9876543210fedcba9876543210";

fn shared(site: Site) -> Arc<Page> {
    let api = Api::new("home", Arc::new(Echo), Site::Local);
    Page::new(Arc::new(Scene::default()), Some(api), site)
}

/// Returns what a client receives that sends this, `|` being the end of a line.
fn ask(text: &str) -> String {
    answer_of(&shared(Site::Local), &text.replace('|', "\r\n"))
}

fn answer_of(page: &Arc<Page>, text: &str) -> String {
    let answer = memory::answer(text.as_bytes(), &page.router()).answer;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends a request; expects an answer of this status that contains this part.
fn check(request: &str, status: u16, part: &str) {
    let answer = ask(request);
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    assert!(answer.contains(part), "{request:?}: {answer}");
}

#[test]
fn a_route_is_met_or_refused_with_its_status_and_cure() {
    check("GET /view/about HTTP/1.1|Host: a||", 200, "\"name\":\"home\"");
    check("HEAD /view/about HTTP/1.1|Host: a||", 200, "no-store");
    check("GET /view/history?from=1&to=2.5&step=2000 HTTP/1.1|Host: a||", 200, "\"t\":[]");
    check("GET /view/history?from=x HTTP/1.1|Host: a||", 400, "`from` is a number");
    check("GET /view/history?from=inf HTTP/1.1|Host: a||", 400, "is a number");
    check("GET /view/history?step=-1 HTTP/1.1|Host: a||", 400, "docs/view.md");
    check("GET /view/history?from=1&from=2 HTTP/1.1|Host: a||", 400, "comes twice");
    check("GET /view/history?since=1 HTTP/1.1|Host: a||", 400, "unknown field");
    check("GET /view/history?from=%ff HTTP/1.1|Host: a||", 400, "wrong escape");
    check("GET /view/heat?class=17 HTTP/1.1|Host: a||", 200, "edges_us");
    check("GET /view/heat HTTP/1.1|Host: a||", 400, "name a class");
    check("GET /view/events HTTP/1.1|Host: a||", 200, "[]");
    check("GET /view/packets HTTP/1.1|Host: a||", 404, "a record of one has them");
    check("GET /view/nothing HTTP/1.1|Host: a||", 404, "/view/stream, /view/about");
    check("GET /view HTTP/1.1|Host: a||", 404, "openapi.json");
    check("GET /nothing HTTP/1.1|Host: a||", 404, "openapi.json");
    check("POST /view/about HTTP/1.1|Host: a||", 405, "Allow: GET, HEAD");
    check("GET /view/predict HTTP/1.1|Host: a||", 405, "Allow: POST");
    check("GET /view/about HTTP/1.1|Host: a|Content-Length: 1||x", 413, "at most 0");
    let post = "POST /view/predict HTTP/1.1|Host: a|Content-Type: application/json";
    let body = "{\"settings\":[{\"key\":\"a\",\"value\":\"1\"}]}";
    check(&format!("{post}|Content-Length: {}||{body}", body.len()), 200, "\"errors\":1");
    check(&format!("{post}|Content-Length: 2||[]"), 400, "not what this route takes");
    check(&format!("{post}|Content-Length: 65537||"), 413, "at most 65536");
    check("GET /view/about HTTP/1.1|Host: a|Origin: http://b||", 403, "other sites");
    check("GET / HTTP/1.1|Host: a|Origin: http://b||", 403, "other sites");
}

#[test]
fn what_is_not_of_the_page_is_passed_on_as_it_came() {
    let get = "GET /status?class=a%20b HTTP/1.1|Host: a||";
    check(get, 409, r#"{\"call\":\"status\",\"class\":\"a b\"}"#);
    let post =
        "POST /confirm HTTP/1.1|Host: a|Content-Type: application/json|Content-Length: 2||{}";
    check(post, 409, r#"{\"call\":\"confirm\"}"#);
    check("GET /openapi.json HTTP/1.1|Host: a||", 200, "\"openapi\":\"3.1.0\"");
    check("GET /snapshot HTTP/1.1|Host: a||", 404, "use `weir record`");
    check("POST /status HTTP/1.1|Host: a||", 405, "Allow: GET, HEAD");
    let alone = Page::new(Arc::new(Scene::default()), None, Site::Local);
    let answer = answer_of(&alone, "GET /status HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 404 ") && answer.contains("no link is behind"),
        "{answer}"
    );
    check("GET /hand-over HTTP/1.1|Host: a||", 404, "openapi.json");
    check("GET /status?a=\u{1} HTTP/1.1|Host: a||", 400, "");
}

#[test]
fn the_page_is_compressed_known_again_and_loads_nothing_from_elsewhere() {
    let head = "GET / HTTP/1.1|Host: a";
    check(&format!("{head}||"), 200, "Content-Security-Policy: default-src 'self';");
    check(&format!("{head}||"), 200, "<!doctype html>");
    check(&format!("{head}|Accept-Encoding: gzip||"), 200, "Content-Encoding: gzip");
    let answer = ask(&format!("{head}||"));
    let tag = answer.split("Etag: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let tag = tag.expect("there is a tag");
    check(&format!("{head}|If-None-Match: {tag}||"), 304, "Etag: ");
    check(&format!("{head}|If-None-Match: \"other\"||"), 200, "<!doctype html>");
    check("POST / HTTP/1.1|Host: a||", 405, "Allow: GET, HEAD");
    check("GET /assets/../../Cargo.toml HTTP/1.1|Host: a||", 404, "no such file");
    check("GET /assets/%2e%2e/x HTTP/1.1|Host: a||", 404, "no such file");
}

#[test]
fn the_stream_says_what_happens_to_who_reads_it() {
    let answer = ask("GET /view/stream HTTP/1.1|Host: a||");
    assert!(answer.contains("text/event-stream") && answer.contains("chunked"), "{answer}");
    check("GET /view/stream?x=1 HTTP/1.1|Host: a||", 400, "unknown field");
    check("POST /view/stream HTTP/1.1|Host: a||", 405, "Allow: GET, HEAD");
    let full = shared(Site::Local);
    let taken = |places: &Arc<Semaphore>, max: usize| {
        Arc::clone(places).try_acquire_many_owned(max as u32).expect("all are free")
    };
    let slots = taken(&full.streams, STREAMS_MAX);
    let refused = answer_of(&full, "GET /view/stream HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    drop(slots);
    let busy = shared(Site::Local);
    let _works = taken(&busy.works, WORKS_MAX);
    for path in ["/view/knobs", "/status"] {
        let refused = answer_of(&busy, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(refused.starts_with("HTTP/1.1 503 "), "{path}: {refused}");
    }
}

#[test]
fn a_place_of_those_who_ask_the_link_is_held_until_the_answer_is_read() {
    let page = shared(Site::Local);
    let head = Head { path: "/status".to_owned(), ..Head::default() };
    runtime().expect("descriptors").block_on(async {
        let (_own, socket) = UnixStream::pair().expect("a pair");
        let (_ends, ending) = watch::channel(false);
        let talk = Arc::new(Talk::new(socket.into(), Patience::default(), ending));
        let asked = Asked { head, until: Instant::now() };
        let request =
            Request::builder().uri("/status").extension(Asking { asked, right: None, talk });
        let request = request.body(Body::empty()).expect("a request");
        let Ok(response) = page.router().call(request).await;
        assert_eq!(page.works.available_permits(), WORKS_MAX - 1);
        drop(response);
        assert_eq!(page.works.available_permits(), WORKS_MAX);
    });
}

#[test]
fn answers_that_go_through_all_that_is_kept_are_bounded() {
    let busy = shared(Site::Local);
    let _wide = Arc::clone(&busy.wide).try_acquire_many_owned(WIDE_MAX as u32).expect("free ones");
    for path in ["/view/history", "/view/heat?class=a"] {
        let refused = answer_of(&busy, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(refused.starts_with("HTTP/1.1 503 "), "{path}: {refused}");
    }
    let about = answer_of(&busy, "GET /view/about HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!about.starts_with("HTTP/1.1 503 16"), "{about}");
}

/// The page of a link whose API has two tokens.
fn web() -> Site {
    let listen = "127.0.0.1:0".parse().expect("an address");
    let api = access::of_token(listen, Secret(CHANGE.to_owned()));
    let api = Address { read_token: Some(Secret(READ.to_owned())), ..api };
    Site::Web(Arc::new(Web::new(&api).expect("the tokens are long enough")))
}

#[test]
fn each_token_has_its_rights_and_a_stranger_has_none() {
    let shared = shared(web());
    let check = |request: &str, (host, token): (&str, &str), status: u16| {
        let text =
            format!("{request} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
        let answer = answer_of(&shared, &text);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request} {host}: {answer}");
        assert!(!answer.contains(CHANGE) && !answer.contains(READ), "{answer}");
        answer
    };
    let about = check("GET /view/about", ("127.0.0.1:8480", CHANGE), 200);
    assert!(about.contains("\"change\":true"), "{about}");
    let about = check("GET /view/about", ("localhost", READ), 200);
    assert!(about.contains("\"change\":false"), "{about}");
    check("GET /view/about", ("localhost", &CHANGE[1..]), 401);
    check("GET /view/stream", ("localhost", ""), 401);
    check("GET /view/about", ("evil.example", CHANGE), 421);
    check("POST /view/predict", ("localhost", READ), 403);
    check("POST /view/fork", ("localhost", READ), 403);
    check("POST /view/reacting", ("localhost", READ), 403);
    check("GET /view/packets", ("localhost", READ), 403);
    check("POST /set", ("localhost", READ), 403);
    check("GET /texts", ("localhost", READ), 403);
    check("GET /", ("localhost", ""), 200);
    check("GET /", ("evil.example", ""), 421);
}

#[test]
fn a_panic_is_answered_and_counted_and_the_connection_ends() {
    let shared = shared(Site::Local);
    let text = "GET /view/heat?class=panic HTTP/1.1\r\nHost: a\r\n\r\n";
    // What follows on the connection is not met.
    let failed = answer_of(&shared, &text.repeat(2));
    assert!(
        failed.starts_with("HTTP/1.1 500 ") && failed.contains("Connection: close"),
        "{failed}"
    );
    assert_eq!(failed.matches("HTTP/1.1").count(), 1, "{failed}");
    let about = answer_of(&shared, "GET /view/about HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(about.starts_with("HTTP/1.1 200 ") && about.contains("\"panics\":1"), "{about}");
}

#[test]
fn any_bytes_get_an_answer() {
    let start = b"GET /view/history?from=1 HTTP/1.1\r\nHost: a\r\n\r\n";
    for at in 0..start.len() {
        for byte in [0, b' ', b'%', b'\n', 0xff] {
            let mut bytes = start.to_vec();
            bytes[at] = byte;
            exercise(&bytes, Arc::new(Scene::default()));
        }
        exercise(&start[..at], Arc::new(Scene::default()));
    }
}
