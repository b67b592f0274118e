//! One source by the keys that scenarios have, for callers without a scenario file.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use weir_policy::render;
use weir_sim::read;
use weir_sim::scenario::Source;

/// Returns the source of this kind with these keys of a scenario, whose packets go to `to`.
///
/// # Errors
/// When a scenario's reader finds an error; the text has it.
pub fn source(name: &str, kind: &str, to: IpAddr, keys: &[(&str, &str)]) -> Result<Source, String> {
    let text = source_text(name, kind, to, keys);
    let none = |_: &Path| -> io::Result<Vec<u8>> { Err(io::ErrorKind::NotFound.into()) };
    let outcome = read::parse_sources(text.as_bytes(), "the source", &none);
    let failed = outcome.failed();
    let mut sources = outcome.plan.unwrap_or_default().into_iter();
    match sources.next() {
        Some(source) if !failed => Ok(source),
        _ => Err(render::render(&outcome.findings, &outcome.sources, false)),
    }
}

/// Returns the `[[source]]` of a scenario with these keys. A value that is no number, list, table
/// or quoted text is quoted.
pub fn source_text(name: &str, kind: &str, to: IpAddr, keys: &[(&str, &str)]) -> String {
    let mut text = format!("[[source]]\nname = \"{name}\"\nkind = \"{kind}\"\ndst = \"{to}\"\n");
    for (key, value) in keys {
        let is_number = value.parse::<f64>().is_ok_and(f64::is_finite);
        if is_number || value.starts_with(['[', '{', '"']) {
            text.push_str(&format!("{key} = {value}\n"));
        } else {
            text.push_str(&format!("{key} = \"{}\"\n", value.escape_default()));
        }
    }
    text
}
