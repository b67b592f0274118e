//! Tokens: fresh ones, and the file in which one waits for those who may read it.

use crate::gateway::{Api, Secret};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Returns a token that nobody can guess.
///
/// # Errors
/// When the system gives no random bytes.
pub fn fresh() -> Result<Secret, String> {
    let mut bytes = [0; TOKEN_BYTES];
    // So few bytes come whole (getrandom(2)).
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| format!("cannot make a token: {error}"))?;
    Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Returns how a page is reached at an address with a token that allows everything.
pub fn of_token(listen: SocketAddr, token: Secret) -> Api {
    Api { listen, token, read_token: None, certificate: None, key: None, hosts: Vec::new() }
}

/// Returns the address of the page for a browser. The token stands behind `#`, so that no browser
/// sends it to a server, and no log has it.
pub fn url(address: SocketAddr, is_tls: bool, token: &Secret) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    format!("{scheme}://{address}/#token={}", token.0)
}

/// Returns the file of the token beside a control socket: `NAME.token`.
pub fn token_file(socket: &Path) -> PathBuf {
    socket.with_extension("token")
}

/// Writes the address with its token to a file that only this user may read.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, url: &str) -> io::Result<()> {
    // One of before may belong to another process, and its permissions may be others.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{url}")
}

/// 256 bits from the kernel.
const TOKEN_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tokens_differ_and_their_file_is_for_its_user() {
        let (one, other) = (fresh().expect("bytes"), fresh().expect("bytes"));
        assert!(one.0.len() == 64 && one != other);
        let folder = tempfile::tempdir().expect("a folder");
        let path = token_file(&folder.path().join("home.sock"));
        assert!(path.ends_with("home.token"));
        fs::write(&path, "of before").expect("it can be written");
        let address = "127.0.0.1:8480".parse().expect("an address");
        write(&path, &url(address, false, &one)).expect("it can be written");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(&path).expect("it can be read");
        assert_eq!(text, format!("http://127.0.0.1:8480/#token={}\n", one.0));
    }
}
