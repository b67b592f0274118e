//! The files of the page, which are in the binary: `assets/`, as the page's own build makes it.
//!
//! Each is compressed once. Nothing else is ever given, so a path cannot lead outside.

use flate2::Compression;
use flate2::write::GzEncoder;
use include_dir::{Dir, include_dir};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::OnceLock;
use weir_core::fnv::{BASIS, fnv1a};

/// A file of the page.
pub struct Asset {
    /// The content, not compressed.
    pub plain: &'static [u8],
    /// The contents compressed by gzip; `None` where that is not shorter.
    pub gzip: Option<Vec<u8>>,
    /// The header `ETag`: differs as soon as the contents differ.
    pub tag: String,
    /// The type of its content.
    pub kind: &'static str,
}

/// Returns the file at a path of the page; `/` is the page itself.
pub fn find(path: &str) -> Option<&'static Asset> {
    let name = if path == "/" { "index.html" } else { path.strip_prefix("/assets/")? };
    all().get(name)
}

/// Returns whether a path is one of the page's files.
pub fn is_path(path: &str) -> bool {
    path == "/" || path.starts_with("/assets/")
}

/// Returns all files, by their paths below `assets/`.
pub fn all() -> &'static BTreeMap<String, Asset> {
    static ALL: OnceLock<BTreeMap<String, Asset>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = BTreeMap::new();
        collect(&ASSETS, &mut all);
        all
    })
}

fn collect(folder: &'static Dir<'static>, all: &mut BTreeMap<String, Asset>) {
    for file in folder.files() {
        let path = file.path().to_string_lossy().into_owned();
        all.insert(path.clone(), Asset::of(&path, file.contents()));
    }
    folder.dirs().for_each(|folder| collect(folder, all));
}

impl Asset {
    fn of(path: &str, plain: &'static [u8]) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Memory takes every byte.
        let written = encoder.write_all(plain).and_then(|()| encoder.finish());
        let gzip = written.ok().filter(|gzip| gzip.len() < plain.len());
        Self { plain, gzip, tag: format!("\"{:016x}\"", fnv1a(BASIS, plain)), kind: kind(path) }
    }
}

fn kind(path: &str) -> &'static str {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let known = KINDS.iter().find(|(known, _)| *known == ending);
    known.map_or("application/octet-stream", |(_, kind)| kind)
}

static ASSETS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/assets");

const KINDS: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("json", "application/json"),
    ("txt", "text/plain; charset=utf-8"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_there_small_and_names_no_other_host() {
        let page = find("/").expect("the page");
        assert_eq!(page.kind, "text/html; charset=utf-8");
        let sent = |asset: &Asset| asset.gzip.as_ref().map_or(asset.plain.len(), Vec::len);
        let bytes: usize = all().values().map(sent).sum();
        assert!(bytes < BYTES_MAX, "{bytes} bytes");
        let text = String::from_utf8_lossy(page.plain);
        let elsewhere = ["src=\"http", "href=\"http", "src=\"//", "href=\"//"];
        assert!(!elsewhere.iter().any(|part| text.contains(part)), "nothing is loaded from there");
        assert!(find("/../Cargo.toml").is_none() && find("/nothing").is_none());
    }

    #[test]
    fn every_file_that_the_page_names_is_there_and_none_names_another_host() {
        let page = find("/").expect("the page");
        let text = String::from_utf8_lossy(page.plain);
        let named: Vec<_> = text.split('"').filter(|part| part.starts_with("/assets/")).collect();
        assert!(named.len() >= 3 && named.iter().all(|path| find(path).is_some()), "{named:?}");
        for (name, asset) in all() {
            let text = String::from_utf8_lossy(asset.plain).replace(SVG, "");
            assert!(!text.contains("://"), "{name} names another host");
        }
    }

    /// The name space of pictures, which nothing loads.
    const SVG: &str = "http://www.w3.org/2000/svg";
    /// The page is to be there at once over any line.
    const BYTES_MAX: usize = 300_000;
}
