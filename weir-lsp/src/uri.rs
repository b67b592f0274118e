//! Paths as URIs, and back.

use lsp_types::Uri;
use std::fmt::Write;

/// Returns the URI of a file with this path, or of a name that is a URI already.
pub fn of(name: &str) -> Option<Uri> {
    if name.contains("://") || name.starts_with("untitled:") {
        return name.parse().ok();
    }
    let mut text = SCHEME.to_owned();
    for byte in name.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => text.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => text.push(byte.into()),
            // A text can always grow.
            byte => drop(write!(text, "%{byte:02X}")),
        }
    }
    text.parse().ok()
}

/// Returns the path of a file, or the URI itself if it is none.
pub fn name(uri: &Uri) -> String {
    let text = uri.as_str();
    let path = text.strip_prefix(SCHEME).filter(|path| path.starts_with('/'));
    path.and_then(decoded).unwrap_or_else(|| text.to_owned())
}

fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = tail;
            }
            (b'%', _) => return None,
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

const SCHEME: &str = "file://";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_uri_and_back() {
        for path in ["/a/b.toml", "/a b/ü%/[x].toml", "untitled:Untitled-1", "http://x/y"] {
            let uri = of(path).unwrap_or_else(|| panic!("{path} is a URI"));
            assert_eq!(name(&uri), path, "{}", uri.as_str());
        }
        let plain: Uri = "file:///a%3Ab%2fc.toml".parse().expect("a URI");
        assert_eq!(name(&plain), "/a:b/c.toml");
    }
}
