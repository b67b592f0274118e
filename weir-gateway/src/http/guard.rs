//! Who may speak to the API: the host that was meant, the page that a browser shows, the token.
//!
//! A page of another site can let a browser send requests here: under that site's own name once
//! the name leads to this address (DNS rebinding), which `Host` tells, or under this one's
//! (CSRF), which `Origin` tells. There are no cookies, so neither has a token either.

use super::Fault;
use super::heading::Head;
use crate::site::Web;
use std::net::IpAddr;
use std::sync::Arc;
use weir_control::protocol::Right;

/// Where a client came in.
#[derive(Clone)]
pub enum Site {
    /// From this program itself, without a socket.
    Local,
    /// By an address, with tokens.
    Web(Arc<Web>),
}

impl Site {
    /// Returns what the token of a request allows; `None` where tokens are not asked for.
    ///
    /// # Errors
    /// When the request is not for this server, comes from a page of another site, or has no token.
    pub fn admit(&self, head: &Head) -> Result<Option<Right>, Fault> {
        self.expect_here(head)?;
        let Self::Web(web) = self else { return Ok(None) };
        let words = head.authorization.as_deref().and_then(|text| text.split_once(' '));
        let token = words.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let right = token.and_then(|(_, token)| web.tokens.right(token.trim_start()));
        let text = "send `Authorization: Bearer TOKEN` with a token of this link";
        right.map(Some).ok_or_else(|| Fault::new(401, text))
    }

    /// Refuses a request that is not for this server, or that a page of another site sends.
    ///
    /// # Errors
    /// With what is wrong, and the cure.
    pub fn expect_here(&self, head: &Head) -> Result<(), Fault> {
        let host = head.host.as_deref();
        if let Some(origin) = &head.origin {
            let is_own = |host: &str| {
                let schemes = ["http://", "https://"];
                let at = schemes.iter().find_map(|scheme| origin.strip_prefix(scheme));
                at.is_some_and(|at| at.eq_ignore_ascii_case(host))
            };
            if !host.is_some_and(is_own) {
                return Err(Fault::new(403, "pages of other sites may not ask this link"));
            }
        }
        let Self::Web(web) = self else { return Ok(()) };
        if host.is_some_and(|host| is_here(host, &web.hosts)) {
            return Ok(());
        }
        let text = "the link is not known by this `Host`; name it in `hosts` of \
                    [deployment.api], or use its address";
        Err(Fault::new(421, text))
    }
}

/// Returns whether this server may be called so. An address cannot be made to lead elsewhere, as
/// the names of strangers can.
fn is_here(host: &str, hosts: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_named = hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    is_named || name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_the_names_of_the_deployment_are_here() {
        let hosts = ["weir.example".to_owned()];
        let here = [
            "127.0.0.1",
            "127.0.0.1:8480",
            "[::1]:1",
            "[::1]",
            "localhost",
            "LOCALHOST:80",
            "weir.example",
            "Weir.Example:443",
        ];
        let elsewhere = [
            "",
            ":80",
            "::1",
            "evil.example",
            "evil.example:8480",
            "weir.example.evil.example",
            "weir.example:x",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[weir.example]",
            "weir.example:80:80",
        ];
        here.iter().for_each(|host| assert!(is_here(host, &hosts), "{host}"));
        elsewhere.iter().for_each(|host| assert!(!is_here(host, &hosts), "{host}"));
    }

    #[test]
    fn a_page_may_ask_only_the_host_that_it_came_from() {
        let rows = [
            (None, None, true),
            (None, Some("a"), true),
            (Some("http://a:1"), Some("a:1"), true),
            (Some("https://A"), Some("a"), true),
            (Some("http://b"), Some("a"), false),
            (Some("http://a:2"), Some("a:1"), false),
            (Some("null"), Some("null"), false),
            (Some("a"), Some("a"), false),
            (Some("http://a"), None, false),
            (Some(""), Some(""), false),
        ];
        for (origin, host, is_admitted) in rows {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let head = Head { origin: text(origin), host: text(host), ..Head::default() };
            assert_eq!(Site::Local.admit(&head).is_ok(), is_admitted, "{origin:?} {host:?}");
        }
    }
}
