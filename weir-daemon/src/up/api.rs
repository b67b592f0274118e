//! The API of a link on a TCP address: its files, which only the keeper reads, and its listener.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_control::web::{self, Web};
use weir_control::web::{Api, Secret};
use weir_policy::deployment::Deployment;
use weir_policy::file;

/// Reads the files of an API, if the deployment has one.
///
/// # Errors
/// When one cannot be read or used, or others may read a secret; the text says what to do.
pub fn read(deployment: &Deployment) -> Result<Option<Api>, String> {
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
    Web::check(&api)?;
    Ok(Some(api))
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

/// The listener of an API.
pub struct ApiSocket {
    address: SocketAddr,
    listener: TcpListener,
}

impl ApiSocket {
    /// Returns the listener of this API: the one that there is, if its address is the same.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn renew(old: Option<Self>, api: Option<&Api>) -> Result<Option<Self>, String> {
        let Some(api) = api else { return Ok(None) };
        if old.as_ref().is_some_and(|old| old.address == api.listen) {
            return Ok(old);
        }
        let listener = web::bind(api).map_err(|error| {
            format!(
                "cannot listen on {}: {error}; set another `listen` in [deployment.api]",
                api.listen
            )
        })?;
        Ok(Some(Self { address: api.listen, listener }))
    }

    /// Returns the listener of a link that was taken over.
    pub fn adopt(listener: OwnedFd) -> Option<Self> {
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().ok()?;
        Some(Self { address, listener })
    }
}

impl AsFd for ApiSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// The rights of those who are neither user nor group.
const OTHERS: u32 = 0o007;
/// More than a chain of certificates has.
const BYTES_MAX: u64 = 1 << 20;
