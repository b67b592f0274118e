//! The policies that a record holds, read as the link that ran read them.

use super::File;
use std::io;
use std::path::Path;
use weir_policy::finding::Outcome;
use weir_policy::policy::{self, Policy};

/// Reads the policy `name`, whose text this is. The files that it names are among `files`; its
/// rules may name `ports`, or any without them.
pub(crate) fn parse(
    (name, text): (&str, &str),
    files: &[File],
    ports: Option<&[String]>,
) -> Outcome<Policy> {
    let named = |path: &Path| -> io::Result<Vec<u8>> {
        let file = files.iter().find(|file| Path::new(&file.name) == path);
        let file = file.or_else(|| files.iter().find(|file| path.ends_with(&file.name)));
        file.map(|file| file.text.clone().into_bytes()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "the record does not hold this file")
        })
    };
    policy::parse_bytes(text.as_bytes(), name, ports, &named)
}

/// Returns the text of the policy `name`.
///
/// # Errors
/// When it is not there.
pub(crate) fn text<'f>(name: &str, files: &'f [File]) -> Result<&'f str, String> {
    let file = files.iter().find(|file| file.name == name);
    file.map(|file| file.text.as_str())
        .ok_or_else(|| format!("the record does not hold policy `{name}`"))
}
