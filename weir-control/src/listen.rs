//! Making the control socket of a link.

use crate::client::{Contact, contact};
use crate::places::{PATH_MAX, user_and_group};
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind as bind_to};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The file of a socket; it is removed when this is dropped, unless another has taken its place.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    /// The device and inode by which the file is recognised.
    file: (u64, u64),
}

/// Listens at `path`, for the user of this process, and for the members of `group` if there is one.
/// A socket that a link left behind that was killed is replaced.
///
/// # Errors
/// When another link listens there, or the path cannot be bound; the text says what to do.
pub fn bind(path: &Path, group: Option<u32>) -> Result<(Bound, UnixListener), String> {
    let place = path.display();
    let bytes = path.as_os_str().len();
    if bytes > PATH_MAX {
        return Err(format!(
            "`{place}` has {bytes} bytes, and the path of a socket at most {PATH_MAX}; set a \
             shorter `control` in the deployment"
        ));
    }
    let refused = |error: io::Error| {
        format!(
            "cannot listen on `{place}`: {error}; set a `control` path in the deployment that \
             this user may write"
        )
    };
    make_room(path).map_err(|error| match error {
        Hindrance::Link => format!(
            "another link already answers on `{place}`; stop it, or set another `control` path in \
             the deployment"
        ),
        Hindrance::System(error) => refused(error),
    })?;
    let listener = listen(path, group).map_err(refused)?;
    let there = fs::symlink_metadata(path).map_err(refused)?;
    Ok((Bound { path: path.to_owned(), file: (there.dev(), there.ino()) }, listener))
}

impl Bound {
    /// The file of a socket that another process bound and that is this one's now. The kernel names
    /// this process from now on to clients that ask who listens (SO_PEERCRED, unix(7)).
    ///
    /// # Errors
    /// When there is none.
    pub fn adopt(path: &Path, listener: &UnixListener) -> io::Result<Self> {
        rustix::net::listen(listener, BACKLOG)?;
        let there = fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), file: (there.dev(), there.ino()) })
    }

    /// From now on lets the user of this process connect, and the members of `group` if there is
    /// one.
    ///
    /// # Errors
    /// When the file is gone, or the group may not be set; the text says so.
    pub fn allow(&self, group: Option<u32>) -> Result<(), String> {
        allow(&self.path, group)
            .map_err(|error| format!("cannot set who may use `{}`: {error}", self.path.display()))
    }
}

/// Why a path cannot be bound.
enum Hindrance {
    /// A link listens there.
    Link,
    /// The system says why.
    System(io::Error),
}

/// Removes a stale socket. A folder is not made: one of the user's words may be mistyped.
fn make_room(path: &Path) -> Result<(), Hindrance> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        let text = format!("there is no folder `{}`; make it first", folder.display());
        return Err(Hindrance::System(io::Error::new(io::ErrorKind::NotFound, text)));
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Hindrance::System(error)),
        Ok(there) if there.file_type().is_socket() => {}
        Ok(_) => return Err(Hindrance::System(io::Error::other("it is not a socket"))),
    }
    match contact(path) {
        Contact::Live(_) => Err(Hindrance::Link),
        Contact::Stale => fs::remove_file(path).map_err(Hindrance::System),
        Contact::Absent => Ok(()),
        Contact::Denied => {
            let owner = user_and_group(path).unwrap_or_default();
            let text = format!("a socket of {owner} is there, which this user may not use");
            Err(Hindrance::System(io::Error::new(io::ErrorKind::PermissionDenied, text)))
        }
        Contact::Failed(error) => Err(Hindrance::System(error)),
    }
}

/// Listens with the right permissions from the first moment on: the file gets those of the socket.
fn listen(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind_to(&socket, &SocketAddrUnix::new(path)?)?;
    if group.is_some() {
        allow(path, group)?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

fn allow(path: &Path, group: Option<u32>) -> io::Result<()> {
    let Some(group) = group else {
        return fs::set_permissions(path, fs::Permissions::from_mode(0o600));
    };
    std::os::unix::fs::chown(path, None, Some(group))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))
}

impl Drop for Bound {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path);
        if ours.is_ok_and(|there| (there.dev(), there.ino()) == self.file) {
            // Where it cannot be removed it is stale, which the next start sees.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 64;
