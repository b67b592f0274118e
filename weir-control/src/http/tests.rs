//! Tests of HTTP without sockets: bytes in, bytes out.

use super::*;
use crate::protocol::{CALLS, Method, Right};
use crate::service::{Act, Patience, Service};
use std::sync::{Arc, Mutex};
use weir_link::events::feed::{FEED_MAX, Feed};
use weir_link::events::{About, Event, Kind};

/// A link without loops that notes what it is asked for.
fn shared(asked: &Arc<Mutex<Vec<Request>>>, feed: &Arc<Feed>) -> Shared {
    let noted = Arc::clone(asked);
    let act = move |request: &Request, _: &Peer| -> Reply {
        noted.lock().expect("no panic").push(request.clone());
        match request {
            Request::Record { .. } => Reply { tail: Some(Box::new(record)), ..Answer::Done.into() },
            _ => Answer::Done.into(),
        }
    };
    let patience = Patience { counts: Duration::ZERO, ..Patience::default() };
    let feed = Arc::clone(feed);
    Shared::of(Service { act: Box::new(act), patience, feed, ..Service::of(Vec::new(), 1) })
}

/// Writes a record that fails at once if the client is gone.
fn record(out: &mut dyn io::Write, is_over: &dyn Fn() -> bool) -> Result<(), String> {
    let mut write = |part: &[u8]| out.write_all(part).and_then(|()| out.flush());
    write(b"first").map_err(|error| error.to_string())?;
    if is_over() {
        return Err("the client is gone".to_owned());
    }
    write(b"last").map_err(|error| error.to_string())
}

/// Returns what a link answers to these bytes, sent by this user on the control socket.
fn ask_as(uid: u32, bytes: &[u8], feed: &Arc<Feed>) -> (String, Vec<Request>) {
    let asked = Arc::default();
    let shared = shared(&asked, feed);
    let peer = Peer { uid: Some(uid), token: None };
    let text = String::from_utf8_lossy(&memory::ask(&shared, peer, bytes)).into_owned();
    let asked = std::mem::take(&mut *asked.lock().expect("no panic"));
    (text, asked)
}

fn ask(text: &str) -> String {
    ask_as(1, text.replace('|', "\r\n").as_bytes(), &Arc::default()).0
}

/// Asks; expects an answer of this status that has this in it.
fn check(request: &str, status: u16, part: &str) {
    let answer = ask(request);
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    assert!(answer.contains(part), "{request:?}: {answer}");
}

#[test]
fn a_request_is_met_or_refused_with_its_status_and_cure() {
    check("GET /openapi.json HTTP/1.1|Host: a||", 200, "\"openapi\":\"3.1.0\"");
    check("POST /mark HTTP/1.1|Host: a||", 200, "\"done\"");
    check("POST /mark HTTP/1.0||", 200, "\"done\"");
    check("GET /events HTTP/1.1|Host: a||", 200, "\"events\":[]");
    check("GET /events?after=1-1 HTTP/1.1|Host: a||", 200, "\"events\":[]");
    check("GET /events?after=x HTTP/1.1|Host: a||", 400, "no event with this id");
    check("GET /status HTTP/1.1|Host: a||", 500, "run loop does not answer");
    check("GET /status?limit=100001 HTTP/1.1|Host: a||", 400, "at most 100000");
    check("GET /status?limit=x HTTP/1.1|Host: a||", 400, "invalid type");
    check("GET /status?classes=1 HTTP/1.1|Host: a||", 400, "unknown field");
    check("GET /status?call=mark HTTP/1.1|Host: a||", 400, "leave `call` out");
    check("GET /status?class=a&class=b HTTP/1.1|Host: a||", 400, "comes twice");
    check("GET /status?class=%ff HTTP/1.1|Host: a||", 400, "wrong escape");
    check("POST /mark?x=1 HTTP/1.1|Host: a||", 400, "unknown field");
    check("GET /mark HTTP/1.1|Host: a||", 405, "Allow: POST");
    check("POST /status HTTP/1.1|Host: a||", 405, "Allow: GET, HEAD");
    check("PUT /status HTTP/1.1|Host: a||", 405, "Allow: GET, HEAD");
    check("GET /hand-over HTTP/1.1|Host: a||", 404, "openapi.json");
    check("GET /../status HTTP/1.1|Host: a||", 404, "openapi.json");
    check("GET /status HTTP/1.1|Host: a|Content-Length: 1||x", 413, "at most 0");
    let typed = "POST /mark HTTP/1.1|Host: a|Content-Type: application/json; charset=utf-8";
    check(&format!("{typed}|Content-Length: 2||{{}}"), 200, "\"done\"");
    check(&format!("{typed}|Content-Length: 2||[]"), 400, "invalid type");
    check(&format!("{typed}|Content-Length: 3||{{}}"), 400, "the body has no end");
    check(&format!("{typed}|Content-Length: 65537||"), 413, "at most 65536");
    check(&format!("{typed}|Content-Length: 17||{{\"call\":\"status\"}}"), 400, "leave `call` out");
    check("POST /mark HTTP/1.1|Host: a|Content-Length: 2||{}", 415, "application/json");
    check("POST /mark HTTP/1.1|Host: a|Expect: money||", 417, "100-continue");
    check("POST /mark HTTP/1.1|Host: a|Origin: http://b||", 403, "other sites");
    check("POST /mark HTTP/1.1|Host: a|Origin: http://a||", 200, "\"done\"");
    check("POST /mark HTTP/1.1|Host: a|Transfer-Encoding: chunked||", 411, "Content-Length");
}

#[test]
fn a_record_is_the_body_of_its_answer_and_has_a_length() {
    let head = "Content-Type: application/x-pcapng";
    check("POST /record?for_ms=5 HTTP/1.1|Host: a||", 200, head);
    check("POST /record?for_ms=5 HTTP/1.1|Host: a||", 200, "5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n");
    check("POST /record?for_ms=5 HTTP/1.0||", 200, "\r\n\r\nfirstlast");
    check("POST /record HTTP/1.1|Host: a||", 400, "/record?for_ms=10000");
    check("POST /record?for_ms=0 HTTP/1.1|Host: a||", 400, "1 to 3600000");
    check("POST /record?for_ms=3600001 HTTP/1.1|Host: a||", 400, "1 to 3600000");
    check("POST /record?for_ms=x HTTP/1.1|Host: a||", 400, "invalid type");
    check("GET /record?for_ms=5 HTTP/1.1|Host: a||", 405, "Allow: POST");
    // This link has no ring.
    check("GET /snapshot HTTP/1.1|Host: a||", 409, "no record");
    let (answer, asked) = ask_as(1, b"HEAD /snapshot HTTP/1.1\r\nHost: a\r\n\r\n", &Arc::default());
    assert!(answer.contains(head) && answer.ends_with("\r\n\r\n"), "{answer}");
    assert_eq!(asked, [], "only the head was asked for");
    let two = "POST /record?for_ms=5 HTTP/1.1|Host: a||GET /events HTTP/1.1|Host: a||";
    assert_eq!(ask(two).matches("HTTP/1.1 200").count(), 2);
}

#[test]
fn a_record_that_ends_early_has_no_last_part() {
    let ended = |request: &str| {
        let fails: Act = Box::new(|_, _| {
            let tail = |out: &mut dyn io::Write, _: &dyn Fn() -> bool| -> Result<(), String> {
                out.write_all(b"some").map_err(|error| error.to_string())?;
                Err("the disk is gone".to_owned())
            };
            Reply { tail: Some(Box::new(tail)), ..Answer::Done.into() }
        });
        let shared = Shared::of(Service { act: fails, ..Service::of(Vec::new(), 1) });
        let peer = Peer { uid: Some(1), token: None };
        String::from_utf8_lossy(&memory::ask(&shared, peer, request.as_bytes())).into_owned()
    };
    let text = ended("GET /snapshot HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(text.contains("chunked") && !text.contains("0\r\n\r\n"), "{text}");
}

#[test]
fn a_body_is_waited_for_before_it_is_sent_if_the_client_wants_that() {
    let head = "POST /mark HTTP/1.1|Host: a|Content-Type: application/json|Expect: 100-continue|";
    // Nothing follows the head here, so that the wait is in vain.
    let answer = ask(&format!("{head}Content-Length: 2||"));
    assert!(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 "), "{answer}");
    let answer = ask(&format!("{head}Content-Length: 99999||"));
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn requests_follow_each_other_on_a_connection_until_one_is_refused() {
    let get = "GET /events HTTP/1.1|Host: a||";
    let count = |text: &str| ask(text).matches("HTTP/1.1 ").count();
    assert_eq!(count(&get.repeat(3)), 3);
    assert_eq!(count(&format!("{get}GET /no HTTP/1.1|Host: a||{get}")), 2);
    assert_eq!(count(&format!("GET /events HTTP/1.1|Host: a|Connection: close||{get}")), 1);
    assert_eq!(count(&format!("GET /events HTTP/1.0||{get}")), 1);
    let head = ask("HEAD /events HTTP/1.1|Host: a||");
    assert!(head.ends_with("\r\n\r\n") && head.contains("chunked"), "{head}");
    assert_eq!(count("HEAD /events HTTP/1.1|Host: a||HEAD /openapi.json HTTP/1.1|Host: a||"), 2);
}

#[test]
fn each_request_of_the_table_is_met_at_its_path_for_those_who_may() {
    for call in CALLS {
        let Some(route) = call.route else { continue };
        let text = format!("{} {} HTTP/1.1\r\nHost: a\r\n\r\n", route.method.name(), route.path);
        for uid in [0, 1, 2] {
            let (answer, asked) = ask_as(uid, text.as_bytes(), &Arc::default());
            let may = uid < 2 || call.right == Right::Read;
            assert_eq!(!answer.starts_with("HTTP/1.1 403 "), may, "{text} {uid}: {answer}");
            assert!(asked.iter().all(|request| may && request.call().keyword == call.keyword));
        }
    }
}

#[test]
fn a_stream_tells_events_and_how_many_were_missed() {
    let feed: Arc<Feed> = Arc::default();
    let stream = |more: &str| {
        let text =
            format!("GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n{more}\r\n");
        ask_as(1, text.as_bytes(), &feed).0
    };
    feed.push(Event::at(Kind::PortDown, 7, About { subject: "eth0", ..About::default() }));
    let id = feed.end().to_string();
    assert!(!stream("").contains("event: "), "it begins now");
    let before = id.replace("-1", "-0");
    let told = stream(&format!("Last-Event-ID: {before}\r\n"));
    assert!(told.contains(&format!("id: {id}\nevent: port-down\ndata: {{\"event\":")), "{told}");
    for at_ns in 0..FEED_MAX as u64 + 5 {
        feed.push(Event::at(Kind::PortUp, at_ns, About::default()));
    }
    let told = stream(&format!("Last-Event-ID: {id}\r\n"));
    assert!(told.contains("event: lost\ndata: {\"count\":5}\n\n"), "{told}");
    // The events of a process before are not known to be lost.
    let told = stream("Last-Event-ID: 1-9\r\n");
    assert!(told.contains("event: lost\ndata: {\"count\":6}\n\n"), "{told}");
    assert!(stream("Last-Event-ID: x\r\n").starts_with("HTTP/1.1 400 "));
}

#[test]
fn the_document_describes_each_path_and_refers_to_nothing_that_is_not_there() {
    let document = document::openapi();
    for call in CALLS {
        let Some(route) = call.route else { continue };
        let operation = &document["paths"][route.path][route.method.name().to_ascii_lowercase()];
        assert_eq!(operation["operationId"], call.keyword);
        let kind = route.follows.unwrap_or(JSON);
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
fn any_bytes_close_to_a_request_of_any_route_get_an_answer() {
    let mut random = weir_core::random::Random::new(0x0a91, 0);
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
        for _ in 0..200 {
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
