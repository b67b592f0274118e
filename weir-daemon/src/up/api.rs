//! The API of a link on a TCP address: its files, which only the keeper reads.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_control::gateway::{Api, Secret};
use weir_policy::deployment::Deployment;
use weir_policy::file;

/// Checks tokens, certificate and key of an API: the program has what speaks TLS, the keeper has
/// not.
pub type Check = fn(&Api) -> Result<(), String>;

/// Reads the files of an API, if the deployment has one.
///
/// # Errors
/// When one cannot be read or used, or others may read a secret; the text says what to do.
pub fn read(deployment: &Deployment, check: Check) -> Result<Option<Api>, String> {
    let Some(config) = &deployment.api else { return Ok(None) };
    let optional = |path: &Option<PathBuf>| path.as_deref().map(secret).transpose();
    let api = Api {
        listen: config.listen,
        token: secret(&config.token_file)?,
        read_token: optional(&config.read_token_file)?,
        certificate: config.certificate.as_deref().map(text).transpose()?,
        key: optional(&config.key)?,
        hosts: config.hosts.clone(),
    };
    check(&api)?;
    Ok(Some(api))
}

/// Returns whether every file of the API of a deployment is on this machine.
pub fn is_here(deployment: &Deployment) -> bool {
    let named = deployment.api.iter().flat_map(|config| {
        let others = [&config.read_token_file, &config.certificate, &config.key];
        others.into_iter().flatten().chain([&config.token_file])
    });
    named.into_iter().all(|path| path.exists())
}

/// Reads a file that only its user and group may read.
///
/// # Errors
/// When others may read it, or it cannot be read; the text says what to do.
pub fn secret(path: &Path) -> Result<Secret, String> {
    let place = path.display();
    let mode = fs::metadata(path).map_or(0, |there| there.mode());
    if mode & OTHERS != 0 {
        return Err(format!("everybody may read `{place}`; `chmod o= {place}` and change it"));
    }
    text(path).map(|text| Secret(text.trim().to_owned()))
}

fn text(path: &Path) -> Result<String, String> {
    let place = path.display();
    let length = fs::metadata(path).map_or(0, |there| there.len());
    if length > BYTES_MAX {
        return Err(format!("`{place}` has {length} bytes, and may have {BYTES_MAX}"));
    }
    let cannot = |why: &dyn std::fmt::Display| format!("cannot read `{place}`: {why}");
    let bytes = file::read_named(path).map_err(|error| cannot(&error))?;
    String::from_utf8(bytes).map_err(|error| cannot(&error))
}

/// The rights of those who are neither user nor group.
const OTHERS: u32 = 0o007;
/// More than a chain of certificates has.
const BYTES_MAX: u64 = 1 << 20;
