//! The head of an HTTP request: what of it matters here, read without trust [rfc9112 §3].
//!
//! Invariant: a head that two readers might understand differently is refused: two lengths, a
//! length beside an encoding, a header twice, a line that ends with LF alone.

use super::Fault;
use axum::http::uri::PathAndQuery;
use std::str;

/// Bound: bytes of a head of HTTP; a longer one is refused.
pub const HEAD_MAX: usize = 16 << 10;
/// The longest body of which a head may tell; each request has a much lower limit.
const LENGTH_MAX: u64 = 1 << 40;
/// The end of a head.
const END: &[u8] = b"\r\n\r\n";
/// Bound: headers of a request of HTTP; one with more is refused.
const HEADERS_MAX: usize = 64;

/// The first line and the headers of a request, as far as a router needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The method, as it was sent.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The part behind the `?`, as it was sent.
    pub query: String,
    /// The minor version of HTTP/1.
    pub minor: u8,
    /// The header `Host`.
    pub host: Option<String>,
    /// The header `Origin`.
    pub origin: Option<String>,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// The header `Content-Type`.
    pub content_type: Option<String>,
    /// The header `Content-Length`.
    pub content_length: Option<u64>,
    /// The header `Accept`.
    pub accept: Option<String>,
    /// The header `Accept-Encoding`.
    pub accept_encoding: Option<String>,
    /// The header `Connection`.
    pub connection: Option<String>,
    /// The header `Expect`.
    pub expect: Option<String>,
    /// The header `If-None-Match`.
    pub if_none_match: Option<String>,
    /// The header `Last-Event-ID`.
    pub last_event_id: Option<String>,
}

impl Head {
    /// Returns how many bytes of `bytes` the head takes; `None` if its end is not among them.
    /// `searched` of them were searched before.
    ///
    /// # Errors
    /// When one of its lines ends with a bare LF: other readers may see its end elsewhere
    /// [rfc9112 §2.2].
    pub fn end(bytes: &[u8], searched: usize) -> Result<Option<usize>, Fault> {
        let from = searched.saturating_sub(END.len() - 1);
        let at = bytes[from..].windows(END.len()).position(|part| part == END);
        let end = at.map(|at| from + at + END.len());
        let head = &bytes[..end.unwrap_or(bytes.len())];
        let is_bare = |at: &usize| head[*at] == b'\n' && (*at == 0 || head[at - 1] != b'\r');
        match (searched..head.len()).find(is_bare) {
            Some(_) => Err(Fault::bad("end each line of the head with CR LF, not with LF alone")),
            None => Ok(end),
        }
    }

    /// Reads a whole head.
    ///
    /// # Errors
    /// When it is none, or one that may be understood in two ways.
    pub fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(Fault::bad("the head has no end")),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Fault::new(431, format!("send at most {HEADERS_MAX} headers")));
            }
            Err(error) => return Err(Fault::bad(format!("not a request of HTTP: {error}"))),
        }
        let target = request.path.unwrap_or_default();
        if !target.starts_with('/') {
            return Err(Fault::bad("send a path that begins with `/`, such as `GET /status`"));
        }
        // Routes are found by what the library reads.
        if PathAndQuery::try_from(target).is_err() || target.contains('#') {
            return Err(Fault::bad("the path has a character that is to be escaped by `%`"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut head = Self {
            method: request.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            minor: request.version.unwrap_or_default(),
            ..Self::default()
        };
        for header in request.headers {
            head.take(header)?;
        }
        if head.minor > 0 && head.host.is_none() {
            return Err(Fault::bad("send a header `Host`"));
        }
        Ok(head)
    }

    /// Notes a header, if it matters.
    fn take(&mut self, header: &httparse::Header<'_>) -> Result<(), Fault> {
        let name = header.name.to_ascii_lowercase();
        if name == "transfer-encoding" {
            let text = "send a body with `Content-Length`, without `Transfer-Encoding`";
            return Err(Fault::new(411, text));
        }
        let text = str::from_utf8(header.value).ok().filter(|text| text.is_ascii());
        let text = text.map(str::trim);
        if name == "content-length" {
            let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let length = digits.and_then(|digits| digits.parse().ok());
            let length = length.filter(|length| *length <= LENGTH_MAX);
            let wrong = "`Content-Length` is not a number, or is far too large";
            let length = length.ok_or_else(|| Fault::bad(wrong))?;
            return match self.content_length.replace(length) {
                None => Ok(()),
                Some(_) => Err(Fault::bad("send one header `Content-Length`")),
            };
        }
        let place = match name.as_str() {
            "host" => &mut self.host,
            "origin" => &mut self.origin,
            "authorization" => &mut self.authorization,
            "content-type" => &mut self.content_type,
            "expect" => &mut self.expect,
            "last-event-id" => &mut self.last_event_id,
            "if-none-match" if self.if_none_match.is_none() => &mut self.if_none_match,
            // These may come several times; the first one is enough to choose by.
            "accept" if self.accept.is_none() => &mut self.accept,
            "accept-encoding" if self.accept_encoding.is_none() => &mut self.accept_encoding,
            "connection" if self.connection.is_none() => &mut self.connection,
            _ => return Ok(()),
        };
        let text = text.ok_or_else(|| Fault::bad(format!("`{name}` is not of ASCII")))?;
        match place.replace(text.to_owned()) {
            None => Ok(()),
            Some(_) => Err(Fault::bad(format!("send one header `{name}`"))),
        }
    }

    /// Returns whether another request may follow on the same connection.
    pub fn stays(&self) -> bool {
        let says = |word: &str| {
            let words = self.connection.iter().flat_map(|text| text.split(','));
            words.into_iter().any(|one| one.trim().eq_ignore_ascii_case(word))
        };
        !says("close") && (self.minor > 0 || says("keep-alive"))
    }

    /// Returns whether the client takes an answer that is compressed by gzip.
    pub fn takes_gzip(&self) -> bool {
        let kinds = self.accept_encoding.iter().flat_map(|text| text.split(','));
        kinds.into_iter().any(|kind| {
            let (name, rest) = kind.split_once(';').unwrap_or((kind, ""));
            let quality = rest.trim().strip_prefix("q=").map(|text| text.parse::<f32>());
            let is_refused = quality.is_some_and(|quality| quality.is_ok_and(|one| one == 0.0));
            name.trim().eq_ignore_ascii_case("gzip") && !is_refused
        })
    }

    /// Returns whether the client would rather have this kind of content than JSON.
    pub fn accepts(&self, kind: &str) -> bool {
        self.accept.as_ref().is_some_and(|accept| accept.contains(kind))
    }
}

/// Returns the pairs of a query, decoded.
///
/// # Errors
/// When an escape is wrong, or what it gives is not UTF-8.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, Fault> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decoded(key)?, decoded(value)?))
        })
        .collect()
}

fn decoded(text: &str) -> Result<String, Fault> {
    let wrong = || Fault::bad("the query has a wrong escape; write `%` as `%25`");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = rest.next().zip(rest.next()).ok_or_else(wrong)?;
                let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
                (digit(digits.0)? * 16 + digit(digits.1)?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a head; expects this status, or what `right` says of it.
    fn check(text: &str, status: u16, right: fn(&Head) -> bool) {
        let text = text.replace('|', "\r\n") + "\r\n\r\n";
        match Head::read(text.as_bytes()) {
            Ok(head) => assert!(status == 200 && right(&head), "{text:?} {head:?}"),
            Err(fault) => assert_eq!(fault.status, status, "{text:?} {fault:?}"),
        }
    }

    #[test]
    fn a_head_is_read_or_refused_with_its_status() {
        check("GET /status HTTP/1.1|Host: a", 200, |head| head.path == "/status" && head.stays());
        check("GET /a?b=1?c HTTP/1.1|HOST:a", 200, |head| head.query == "b=1?c");
        check("GET / HTTP/1.0", 200, |head| !head.stays() && head.host.is_none());
        check("GET / HTTP/1.0|Connection: Keep-Alive", 200, Head::stays);
        check("GET / HTTP/1.1|Host: a|Connection: te, close", 200, |head| !head.stays());
        check("POST / HTTP/1.1|Host: a|Content-Length: 7", 200, |head| {
            head.content_length == Some(7)
        });
        check("GET / HTTP/1.1|Host: a|Accept: a/b|Accept: c/d", 200, |head| head.accepts("a/b"));
        check("GET / HTTP/1.1|Host: a|Accept-Encoding: br, gzip", 200, Head::takes_gzip);
        check("GET / HTTP/1.1|Host: a|Accept-Encoding: gzip;q=0", 200, |head| !head.takes_gzip());
        check("GET / HTTP/1.1|Host: a|X-Odd: \u{e4}", 200, |head| head.method == "GET");
        check("GET / HTTP/1.1", 400, |_| false);
        check("GET / HTTP/2.0|Host: a", 400, |_| false);
        check("GET status HTTP/1.1|Host: a", 400, |_| false);
        check("GET http://b/ HTTP/1.1|Host: a", 400, |_| false);
        check("G ET / HTTP/1.1|Host: a", 400, |_| false);
        check("GET / HTTP/1.1|Host: a|Host: b", 400, |_| false);
        check("GET / HTTP/1.1|Host: \u{e4}", 400, |_| false);
        check("GET / HTTP/1.1|Host: a|Authorization: x|Authorization: y", 400, |_| false);
        check("POST / HTTP/1.1|Host: a|Content-Length: +7", 400, |_| false);
        check("POST / HTTP/1.1|Host: a|Content-Length: ", 400, |_| false);
        check("POST / HTTP/1.1|Host: a|Content-Length: 1|Content-Length: 1", 400, |_| false);
        check("POST / HTTP/1.1|Host: a|Content-Length: 99999999999999999999", 400, |_| false);
        check("POST / HTTP/1.1|Host: a|Content-Length: 18446744073709551615", 400, |_| false);
        check("GET /a<b HTTP/1.1|Host: a", 400, |_| false);
        check("GET /#/status HTTP/1.1|Host: a", 400, |_| false);
        check("POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked", 411, |_| false);
        check("GET / HTTP/1.1|Host: a| folded", 400, |_| false);
        let many = "|X: y".repeat(HEADERS_MAX);
        check(&format!("GET / HTTP/1.1|Host: a{many}"), 431, |_| false);
    }

    #[test]
    fn the_end_of_a_head_is_found_wherever_its_bytes_are_cut() {
        for (text, end) in [("GET\r\n\r\nrest\n", Some(7)), ("a\r\nb\r\n", None)] {
            for searched in 0..=end.map_or(text.len(), |end| end - 1) {
                let found = Head::end(text.as_bytes(), searched);
                assert_eq!(found, Ok(end), "{text:?} {searched}");
            }
        }
    }

    #[test]
    fn a_line_that_ends_with_a_bare_lf_is_refused_as_soon_as_it_is_there() {
        let line = "GET / HTTP/1.1\n";
        for text in [line, "\n", &format!("{line}Host: a\n\n"), "GET / HTTP/1.1\r\nHost: a\n\r\n"] {
            for searched in 0..=text.find('\n').expect("it has one") {
                let refused = Head::end(text.as_bytes(), searched);
                assert!(refused.is_err_and(|fault| fault.status == 400), "{text:?} {searched}");
            }
        }
    }

    #[test]
    fn a_query_is_decoded() {
        let read = |query: &str| pairs(query).map_err(|fault| fault.status);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!(read("a=1&&b"), Ok(vec![pair("a", "1"), pair("b", "")]));
        assert_eq!(read("cl%61ss=a%2fb+c=d"), Ok(vec![pair("class", "a/b c=d")]));
        assert_eq!(read("a=%c3%a4"), Ok(vec![pair("a", "\u{e4}")]));
        for wrong in ["%", "a=%1", "a=%zz", "a=%+1", "a=%c3"] {
            assert_eq!(read(wrong), Err(400), "{wrong}");
        }
    }
}
