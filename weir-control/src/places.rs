//! Where control sockets are: one place for each user, whatever started the link, and all places
//! where a link may be found.
//!
//! A link of root listens at `/run/weir/NAME.sock`. That of another user listens below
//! `$XDG_RUNTIME_DIR/weir`, else below `/run/user/UID/weir`, else in `/tmp/weir-UID`, which only
//! that user may enter. There UID is the user outside of a user namespace, in which many are root.
//! Looking for a link tries all of them.

use crate::client::{Contact, contact};
use crate::printable::printable;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use weir_policy::deployment::{NAME_RULE, is_name};

/// The most bytes of the path of a socket (unix(7)).
pub const PATH_MAX: usize = 107;
/// Bound: folders looked through for links, and links listed; further ones are not found.
pub const LINKS_MAX: usize = 256;

/// The places as one user sees them.
#[derive(Clone, Debug)]
pub struct Places {
    uid: u32,
    /// The number of the same user outside of the user namespace.
    outside: u32,
    /// The folder `$XDG_RUNTIME_DIR`.
    runtime: Option<PathBuf>,
    /// The folder that stands for `/`.
    top: PathBuf,
}

/// A socket that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name of the link.
    pub name: String,
    /// The path of its socket.
    pub path: PathBuf,
    /// The user whose socket it is.
    pub uid: u32,
    /// Whether a link listens, and whether this user may use it.
    pub state: State,
}

/// Whether a socket can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A link listens on it.
    Running,
    /// No process listens any more.
    Stale,
    /// This user may not use it.
    Denied,
    /// A process listens and accepts no one.
    Silent,
}

impl State {
    /// The state in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stale => "stale",
            Self::Denied => "denied",
            Self::Silent => "silent",
        }
    }
}

impl Places {
    /// The places of the user of this process.
    pub fn of_process() -> Self {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        Self {
            uid: own_uid(),
            outside: outside(own_uid(), &map),
            runtime: std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
            top: PathBuf::from("/"),
        }
    }

    /// Returns the socket for a link of this name, in the first folder that can be used or made.
    ///
    /// # Errors
    /// When the name is not one, the path would be too long, or there is no folder for it.
    pub fn prepare(&self, name: &str) -> Result<PathBuf, String> {
        check_name(name)?;
        let mut reasons = Vec::new();
        for folder in self.own() {
            match self.take(&folder) {
                Ok(()) => return socket_in(&folder, name),
                Err(error) => reasons.push(format!("{}: {error}", folder.display())),
            }
        }
        let reasons = reasons.join("; ");
        Err(format!("there is no folder for the control socket ({reasons}); set `control`"))
    }

    /// Returns the socket of the link of this name: its own user's if one listens, else that of
    /// another user.
    ///
    /// # Errors
    /// When none listens, this user may not use it, or several users have a link of this name.
    pub fn find(&self, name: &str) -> Result<PathBuf, String> {
        check_name(name)?;
        let folders = self.folders();
        let found: Vec<_> = folders.iter().filter_map(|folder| find_socket(folder, name)).collect();
        if let Some(path) = pick(self.uid, name, &found)? {
            return Ok(path);
        }
        // What hinders says more than that nothing was found.
        let worst = found.iter().max_by_key(|link| link.state != State::Stale);
        match worst {
            Some(link) => Ok(link.path.clone()),
            None => {
                let searched: Vec<_> = folders.iter().map(|folder| shown(folder)).collect();
                Err(format!(
                    "no link named `{name}` runs: there is no {name}.sock in {}; start one with \
                     `weir up`, or name its socket with --control (`weir status` lists the links \
                     that run)",
                    searched.join(", ")
                ))
            }
        }
    }

    /// Returns the sockets of all links, in the order of names, and how many more there are.
    pub fn list(&self) -> (Vec<Found>, usize) {
        let sockets = self.folders().into_iter().flat_map(|folder| {
            let names = entries(&folder).filter_map(|path| {
                let name = path.file_stem()?.to_str()?.to_owned();
                let is_socket = path.extension().is_some_and(|end| end == "sock");
                (is_socket && is_name(&name)).then_some(name)
            });
            names.map(|name| (folder.clone(), name)).collect::<Vec<_>>()
        });
        let sockets: Vec<_> = sockets.collect();
        let more = sockets.len().saturating_sub(LINKS_MAX);
        let searched = sockets.iter().take(LINKS_MAX);
        let mut found: Vec<_> =
            searched.filter_map(|(folder, name)| find_socket(folder, name)).collect();
        found.sort_by(|one, other| (&one.name, &one.path).cmp(&(&other.name, &other.path)));
        (found, more)
    }

    /// Returns the folders for links of this user, best first.
    fn own(&self) -> Vec<PathBuf> {
        let temporary = self.top.join(format!("tmp/weir-{}", self.outside));
        if self.uid == 0 {
            // In a user namespace root may not be allowed to write the first.
            return vec![self.top.join("run/weir"), temporary];
        }
        let runtime = self.runtime.iter().map(|runtime| runtime.join("weir"));
        let session = self.top.join(format!("run/user/{}", self.uid));
        let session = session.is_dir().then(|| session.join("weir"));
        runtime.chain(session).chain([temporary]).collect()
    }

    /// Returns all folders where links may be found that this user may use.
    fn folders(&self) -> Vec<PathBuf> {
        let mut folders = self.own();
        folders.push(self.top.join("run/weir"));
        if self.uid == 0 {
            folders.extend(self.runtime.iter().map(|runtime| runtime.join("weir")));
            let users = entries(&self.top.join("run/user"));
            folders.extend(users.map(|user| user.join("weir")));
            let private = entries(&self.top.join("tmp"));
            folders.extend(private.filter(|path| is_private_of_its_user(path)));
        }
        let mut seen = Vec::new();
        folders.retain(|folder| {
            let is_new = !seen.contains(folder);
            seen.push(folder.clone());
            is_new
        });
        folders.truncate(LINKS_MAX);
        folders
    }

    /// Makes a folder, unless it is there; it must be of this user.
    fn take(&self, folder: &Path) -> io::Result<()> {
        if fs::symlink_metadata(folder).is_err() {
            make_folder(folder)?;
        }
        let there = fs::symlink_metadata(folder)?;
        let is_temporary = folder.starts_with(self.top.join("tmp"));
        if !there.is_dir() || there.uid() != self.uid {
            return Err(io::Error::other("it is not a folder of this user"));
        }
        if is_temporary && there.permissions().mode() & 0o077 != 0 {
            return Err(io::Error::other("other users may enter it; remove it, or `chmod 700` it"));
        }
        Ok(())
    }
}

/// Returns the number that a user of this user namespace has outside of it, by the map of the
/// namespace [user_namespaces(7)].
fn outside(uid: u32, map: &str) -> u32 {
    let row = |line: &str| -> Option<u32> {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        let [first, outside, count] = [numbers.next()??, numbers.next()??, numbers.next()??];
        let at = uid.checked_sub(first).filter(|at| *at < count)?;
        outside.checked_add(at)
    };
    map.lines().find_map(row).unwrap_or(uid)
}

/// Removes the private folder of a socket below `/tmp` when it is dropped, unless something is left
/// in it.
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// The folder of this socket.
    pub fn of(socket: &Path) -> Self {
        Self(socket.parent().unwrap_or(socket).to_owned())
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        if self.0.file_name().is_some_and(|name| private_uid(name).is_some()) {
            // Another link may be in it.
            let _used = fs::remove_dir(&self.0);
        }
    }
}

/// Returns the socket of the link that a user means by a name: its own, else the only one; `None`
/// where none listens.
fn pick(uid: u32, name: &str, found: &[Found]) -> Result<Option<PathBuf>, String> {
    let running = found.iter().filter(|link| link.state == State::Running);
    let running: Vec<_> = running.collect();
    let own = running.iter().find(|link| link.uid == uid);
    match (own, running.as_slice()) {
        (Some(link), _) | (None, [link]) => Ok(Some(link.path.clone())),
        (None, []) => Ok(None),
        (None, several) => {
            let each = |link: &&Found| format!("{} ({})", shown(&link.path), user(link.uid));
            let list = several.iter().map(each).collect::<Vec<_>>().join(", ");
            Err(format!("several links are named `{name}`: {list}; name one with --control"))
        }
    }
}

/// Makes a folder for sockets. Below `/tmp` only its user may enter it; elsewhere others may see
/// which links there are, and not use them.
fn make_folder(folder: &Path) -> io::Result<()> {
    let is_private = folder.file_name().is_some_and(|name| private_uid(name).is_some());
    let mode = if is_private { 0o700 } else { 0o755 };
    DirBuilder::new().recursive(!is_private).mode(mode).create(folder)
}

/// Returns why a socket cannot be used, and what would give access.
pub fn denied(path: &Path) -> String {
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let command = match name {
        Some(name) if is_name(&name) && path.parent().is_some_and(is_standard) => name,
        _ => format!("--control {}", shown(path)),
    };
    let owner = match user_and_group(path) {
        Some(owner) => format!("the socket is of {owner}"),
        None => "this user may not enter its folder".to_owned(),
    };
    let open = fs::metadata(path).ok().filter(|there| there.permissions().mode() & 0o020 != 0);
    let group = open.map(|there| {
        let name = name_of("/etc/group", there.gid());
        format!(", or join its group (`sudo usermod -aG {name} \"$USER\"`, then log in again)")
    });
    format!(
        "permission denied on `{}`: {owner}; use `sudo`, as in `sudo weir status {command}`{}",
        shown(path),
        group.unwrap_or_default()
    )
}

/// Returns user, group and permissions of a file in words.
pub(crate) fn user_and_group(path: &Path) -> Option<String> {
    let there = fs::metadata(path).ok()?;
    let (user, group) = (user(there.uid()), name_of("/etc/group", there.gid()));
    let mode = there.permissions().mode() & 0o777;
    Some(format!("user {user} and group {group}, mode {mode:o}"))
}

/// Returns the number of the user of this process. In the sandbox of a forwarder it cannot be asked
/// for.
pub fn own_uid() -> u32 {
    weir_host::process::user()
}

/// Returns the name of a user, or its number.
pub fn user(uid: u32) -> String {
    name_of("/etc/passwd", uid)
}

/// Returns the number of a group, by its name or its number.
pub fn group(name: &str) -> Option<u32> {
    let text = fs::read_to_string("/etc/group").unwrap_or_default();
    let mut lines = text.lines().map(|line| line.split(':'));
    let number = lines.find_map(|mut fields| {
        if fields.next() == Some(name) { fields.nth(1)?.parse().ok() } else { None }
    });
    number.or_else(|| name.parse().ok())
}

/// Returns the name with this number in `/etc/passwd` or `/etc/group`, or the number.
fn name_of(file: &str, number: u32) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let number = number.to_string();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| printable(name).into_owned())
    });
    name.unwrap_or(number)
}

fn check_name(name: &str) -> Result<(), String> {
    if is_name(name) {
        return Ok(());
    }
    Err(format!("{name:?} is not a name of a deployment, which has {NAME_RULE}"))
}

fn socket_in(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let path = folder.join(format!("{name}.sock"));
    let bytes = path.as_os_str().len();
    if bytes <= PATH_MAX {
        return Ok(path);
    }
    Err(format!(
        "`{}` has {bytes} bytes, and the path of a socket at most {PATH_MAX}; choose a shorter \
         `name`, or set `control` in the deployment",
        shown(&path)
    ))
}

/// Returns the socket of this name in a folder, if there is one.
fn find_socket(folder: &Path, name: &str) -> Option<Found> {
    let path = folder.join(format!("{name}.sock"));
    let there = fs::metadata(&path);
    if there.as_ref().is_ok_and(|there| !there.file_type().is_socket()) {
        return None;
    }
    let state = match contact(&path) {
        Contact::Live(_) => State::Running,
        Contact::Stale => State::Stale,
        Contact::Denied => State::Denied,
        Contact::Failed(_) => State::Silent,
        Contact::Absent => return None,
    };
    let uid = there.as_ref().map_or(u32::MAX, Metadata::uid);
    // In a folder that cannot be entered nothing is known to be there.
    there.ok().map(|_| Found { name: name.to_owned(), path, uid, state })
}

/// Returns the paths of what is in a folder, in their order.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<_> = all.map(|entry| entry.path()).collect();
    all.sort();
    all.into_iter()
}

/// Returns the user of whom `weir-UID` is the private folder.
fn private_uid(name: &std::ffi::OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix("weir-")?.parse().ok()
}

/// Returns whether a folder is the private one of the user whose number it bears: anyone may make
/// folders in `/tmp`.
fn is_private_of_its_user(path: &Path) -> bool {
    let owner = path.file_name().and_then(private_uid);
    fs::symlink_metadata(path).is_ok_and(|there| there.is_dir() && Some(there.uid()) == owner)
}

/// Returns whether sockets in this folder are found by their names.
fn is_standard(folder: &Path) -> bool {
    let run = folder.starts_with("/run") && folder.ends_with("weir");
    run || folder.file_name().is_some_and(|name| private_uid(name).is_some())
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Folders below a top of their own, as the user of this process sees them, or as root.
    struct Scene {
        top: tempfile::TempDir,
        places: Places,
        listeners: Vec<UnixListener>,
    }

    impl Scene {
        fn new(uid: Option<u32>, runtime: Option<&str>) -> Self {
            let top = tempfile::tempdir().expect("a folder");
            for folder in ["run/user", "tmp"] {
                fs::create_dir_all(top.path().join(folder)).expect("a folder");
            }
            let places = Places {
                uid: uid.unwrap_or_else(own_uid),
                outside: uid.unwrap_or_else(own_uid),
                runtime: runtime.map(|runtime| top.path().join(runtime)),
                top: top.path().to_owned(),
            };
            Self { top, places, listeners: Vec::new() }
        }

        /// Makes a socket; it is live unless `is_stale`.
        fn socket(&mut self, path: &str, is_stale: bool) {
            let path = self.top.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let listener = UnixListener::bind(path).expect("a socket");
            if !is_stale {
                self.listeners.push(listener);
            }
        }

        /// Takes the top out of a path or a text.
        fn short(&self, text: &str) -> String {
            text.replace(&format!("{}/", self.top.path().display()), "")
        }
    }

    #[test]
    fn a_link_has_one_place_for_its_user_whatever_started_it() {
        let own = own_uid();
        let check = |uid: u32, runtime: Option<&str>, session: bool, wanted: &[String]| {
            let scene = Scene::new(Some(uid), runtime);
            if session {
                let session = scene.top.path().join(format!("run/user/{uid}"));
                fs::create_dir(session).expect("a folder");
            }
            let own: Vec<_> = scene.places.own();
            let own: Vec<_> =
                own.iter().map(|path| scene.short(&path.display().to_string())).collect();
            assert_eq!(own, wanted, "{uid} {runtime:?}");
        };
        let texts = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        check(0, None, false, &texts(&["run/weir", "tmp/weir-0"]));
        check(0, Some("run/user/0"), true, &texts(&["run/weir", "tmp/weir-0"]));
        check(7, None, false, &texts(&["tmp/weir-7"]));
        check(7, None, true, &texts(&["run/user/7/weir", "tmp/weir-7"]));
        let all = ["run/user/7/weir", "run/user/7/weir", "tmp/weir-7"];
        check(7, Some("run/user/7"), true, &texts(&all));
        check(7, Some("mine"), true, &texts(&["mine/weir", "run/user/7/weir", "tmp/weir-7"]));
        // The first that can be made is taken.
        let scene = Scene::new(Some(own), None);
        fs::write(scene.top.path().join("run/weir"), "no folder").expect("a file");
        let path = scene.places.prepare("home").expect("a place");
        let wanted = format!("tmp/weir-{own}/home.sock");
        assert_eq!(scene.short(&path.display().to_string()), wanted);
        let folder = fs::metadata(path.parent().expect("a folder")).expect("it was made");
        assert_eq!(folder.permissions().mode() & 0o777, 0o700, "only for its user");
        // A folder that others may enter is not private.
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path.parent().expect("a folder"), open).expect("its own folder");
        let error = scene.places.prepare("home").expect_err("it is open");
        assert!(error.contains("other users may enter it"), "{error}");
        // It goes with the last link.
        fs::write(&path, "").expect("its own folder");
        drop(PrivateFolder::of(&path));
        fs::remove_file(&path).expect("a folder that is not empty stays");
        drop(PrivateFolder::of(&path));
        assert!(!path.parent().is_some_and(Path::exists), "an empty one goes");
    }

    #[test]
    fn root_of_a_user_namespace_has_the_folder_of_its_user_outside() {
        let rows = [
            (0, "         0          0 4294967295\n", 0),
            (0, "0 1000 1\n", 1000),
            (1001, "0 1000 1\n1000 100000 65536\n", 100_001),
            (7, "0 1000 1\n", 7),
            (7, "", 7),
            (7, "6 4294967295 5\nx\n", 7),
        ];
        for (uid, map, wanted) in rows {
            assert_eq!(outside(uid, map), wanted, "{uid} by {map:?}");
        }
    }

    #[test]
    fn a_name_that_is_no_name_or_too_long_for_a_socket_is_refused() {
        let long = "x".repeat(65);
        let scene = Scene::new(None, None);
        for name in ["", "../x", "a/b", "a\nb", "a\u{1b}[0m", ".hidden", "-x", "a b", &long] {
            for error in [scene.places.prepare(name).err(), scene.places.find(name).err()] {
                let error = error.unwrap_or_default();
                assert!(error.contains("at most 64 bytes"), "{name:?}: {error}");
                assert!(!error.contains(char::is_control), "{name:?}: {error:?}");
            }
        }
        let deep = Scene::new(Some(own_uid().max(1)), Some(&"y".repeat(100)));
        let error = deep.places.prepare("home").expect_err("too long");
        let is_told = error.contains("at most 107") || error.contains("not a folder of this user");
        assert!(is_told, "{error}");
    }

    /// Sockets that are there, as (path, is stale); the name; the path that is found, or a part of
    /// the error.
    type Row<'a> = (&'a [(&'a str, bool)], Result<&'a str, &'a str>);

    #[test]
    fn a_link_is_found_in_every_place_and_several_are_listed() {
        let own = own_uid();
        let own_tmp = format!("tmp/weir-{own}/home.sock");
        let session = format!("run/user/{own}/weir/home.sock");
        let rows: &[Row<'_>] = &[
            (&[], Err("no link named `home` runs: there is no home.sock in ")),
            (&[("run/weir/home.sock", false)], Ok("run/weir/home.sock")),
            (&[(&session, false)], Ok(&session)),
            (&[(&own_tmp, false)], Ok(&own_tmp)),
            (&[("run/weir/other.sock", false)], Err("no link named `home`")),
            // A stale one is told of where there is no other.
            (&[("run/weir/home.sock", true)], Ok("run/weir/home.sock")),
            (&[("run/weir/home.sock", true), (&own_tmp, false)], Ok(&own_tmp)),
        ];
        for (sockets, wanted) in rows {
            let mut scene = Scene::new(None, None);
            sockets.iter().for_each(|(path, is_stale)| scene.socket(path, *is_stale));
            let found = scene.places.find("home");
            let found = found.map(|path| scene.short(&path.display().to_string()));
            match (&found, wanted) {
                (Ok(path), Ok(wanted)) => assert_eq!(path, wanted),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                _ => panic!("{sockets:?}: {found:?}"),
            }
        }
    }

    /// Root sees the links of others. Where no user of the test is another, links of the same user
    /// in foreign places stand for them.
    #[test]
    fn links_of_other_users_are_listed_and_one_name_of_several_is_not_guessed() {
        let own = own_uid();
        let private = format!("tmp/weir-{own}/home.sock");
        let mut scene = Scene::new(Some(0), Some("run/user/0"));
        for (path, is_stale) in [
            ("run/user/4242/weir/home.sock", false),
            (private.as_str(), false),
            ("run/user/4242/weir/old.sock", true),
            ("run/user/0/weir/session.sock", false),
            // Not its user's, so anyone may have put it there.
            ("tmp/weir-4242/trap.sock", false),
            ("run/weir/a b.sock", false),
        ] {
            scene.socket(path, is_stale);
        }
        fs::write(scene.top.path().join("run/weir/file.sock"), "").expect("a file");
        let (found, more) = scene.places.list();
        let list: Vec<_> = found.iter().map(|link| (link.name.as_str(), link.state)).collect();
        let running = State::Running;
        let wanted =
            [("home", running), ("home", running), ("old", State::Stale), ("session", running)];
        assert_eq!((list.as_slice(), more), (wanted.as_slice(), 0));
    }

    /// Sockets as (path, user, state); the user who asks; what is picked, or a part of the error.
    type Choice<'a> = (&'a [(&'a str, u32, State)], Result<Option<&'a str>, &'a str>);

    #[test]
    fn ones_own_link_comes_first_and_one_of_several_others_is_not_guessed() {
        use State::{Denied, Running, Stale};
        let rows: &[Choice<'_>] = &[
            (&[], Ok(None)),
            (&[("/a", 0, Running)], Ok(Some("/a"))),
            (&[("/a", 7, Running)], Ok(Some("/a"))),
            (&[("/a", 7, Running), ("/b", 0, Running), ("/c", 8, Running)], Ok(Some("/b"))),
            (&[("/a", 0, Stale), ("/b", 8, Running), ("/c", 9, Denied)], Ok(Some("/b"))),
            (&[("/a", 0, Stale), ("/c", 9, Denied)], Ok(None)),
            (
                &[("/a", 4_000_007, Running), ("/b", 4_000_008, Running)],
                Err("`home`: /a (4000007), /b (4000008); name one with --control"),
            ),
        ];
        for (links, wanted) in rows {
            let found = |&(path, uid, state): &(&str, u32, State)| Found {
                name: "home".to_owned(),
                path: PathBuf::from(path),
                uid,
                state,
            };
            let picked = pick(0, "home", &links.iter().map(found).collect::<Vec<_>>());
            match (&picked, wanted) {
                (Ok(path), Ok(wanted)) => assert_eq!(path.as_deref(), wanted.map(Path::new)),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                _ => panic!("{links:?}: {picked:?}"),
            }
        }
    }
}
