//! Builds the sandbox of a script around this process, and runs the script in it.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};

use super::answers::Answers;
use super::watch::{Filter, Watch};
use super::{Note, Outcome, PROCESSES_MAX, STAND_INS, interpreter};
use crate::error::{Result, SystemError};
use crate::printable::printable_lines;

/// Runs `TIME PROGRAM SCRIPT [ARGUMENTS]`.
pub(super) fn run(arguments: &[OsString]) -> Result<Outcome> {
    let [time, own, script, rest @ ..] = arguments else {
        return Err(SystemError::refused("run a script", "an argument is missing", ""));
    };
    let time = time.to_str().and_then(|time| time.parse().ok()).unwrap_or(0);
    let time = Duration::from_millis(time);
    let script = Path::new(script);
    let failed = |cause| SystemError::new(format!("read {}", script.display()), cause);
    let command = interpreter(script).map_err(failed)?;
    let text = fs::read(script).map_err(failed)?;
    let whole = std::path::absolute(script).map_err(failed)?;
    let base = base(&whole)?;
    let answers = Answers::start(own)?;
    let place = Place { base, own: Path::new(own).to_owned(), text };
    build(&place)?;
    // As another user the script may not be readable where it is: then its copy runs.
    let readable = fs::File::open(script).is_ok();
    let shown = if readable { script.to_owned() } else { place.base.join(COPY) };
    limits(time)?;
    restrict(&place.base)?;
    let (mut own_end, other_end) = UnixDatagram::pair().map_err(failed)?;
    let filter = Filter::new()?;
    let output = fs::OpenOptions::new().append(true).open(place.base.join(PRINTED));
    let output = output.map_err(failed)?;
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).arg(&shown).args(rest).stdin(Stdio::null());
    child.stdout(output.try_clone().map_err(failed)?).stderr(output);
    child.env("PATH", format!("{}/bin:{PATH}", place.base.display()));
    child.env("TMPDIR", place.base.join("tmp")).env_remove("BASH_ENV").env_remove("ENV");
    // SAFETY: the closure runs between fork and exec and makes system calls only; the filter was
    // made before the fork.
    unsafe { child.pre_exec(move || enter(&filter, &other_end)) };
    let failed = |cause| SystemError::new("start the script's interpreter", cause);
    let child = child.spawn().map_err(failed)?;
    let listener: OwnedFd = super::watch::receive(&mut own_end).map_err(failed)?;
    let mut watch = Watch { listener, child, base: place.base.clone(), forks: 0, answers };
    let (code, ended) = watch.run(Instant::now(), time);
    let (notes, printed) = (notes(&place.base), printed(&place.base));
    Ok(Outcome { code, ended, notes, printed, refused: None })
}

/// The steps of the script's process itself.
fn enter(filter: &Filter, other_end: &UnixDatagram) -> io::Result<()> {
    // SAFETY: both calls take numbers only.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
    }
    filter.install(other_end)
}

/// The parts of which the sandbox is built.
struct Place {
    /// A folder that the sandbox covers with one in memory.
    base: PathBuf,
    /// This program.
    own: PathBuf,
    /// The script.
    text: Vec<u8>,
}

/// Returns a folder that can be covered: neither the script nor this folder is below it.
fn base(script: &Path) -> Result<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let free = |base: &&&str| {
        Path::new(base).is_dir() && !script.starts_with(base) && !here.starts_with(base)
    };
    let found = BASES.iter().find(free);
    found.map(|base| PathBuf::from(*base)).ok_or_else(|| {
        let why = format!("there is none of {}", BASES.join(", "));
        SystemError::refused("find a folder for the sandbox", why, "make /mnt")
    })
}

/// Enters the namespaces, and makes all that is mounted read-only.
fn build(place: &Place) -> Result<()> {
    let others = libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    // SAFETY: these calls only return numbers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if user != 0 || !is_mapped(NOBODY) {
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | others)?;
        map(user, group)?;
        return mounts(place, None);
    }
    // Root mounts first and then becomes `nobody`: the limit on processes does not hold for root.
    unshare(libc::CLONE_NEWNS)?;
    mounts(place, Some(NOBODY))?;
    become_nobody()?;
    unshare(libc::CLONE_NEWUSER | others)?;
    map(NOBODY, NOBODY)
}

fn unshare(flags: libc::c_int) -> Result<()> {
    // SAFETY: unshare takes flags only.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(SystemError::last("make namespaces for the script")),
    }
}

/// Returns whether this process could be that user: root of a user namespace has few.
fn is_mapped(user: u32) -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let numbers: Vec<u64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [first, _, count] = numbers.as_slice() else { return false };
        (*first..first + count).contains(&user.into())
    })
}

/// Returns as whom the script reads files.
pub(super) fn reader() -> &'static str {
    // SAFETY: this call only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root && is_mapped(NOBODY) { "the user `nobody`" } else { "you" }
}

/// Becomes `nobody` where this is root.
pub(super) fn leave_root() -> Result<()> {
    // SAFETY: this call only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root && is_mapped(NOBODY) { become_nobody() } else { Ok(()) }
}

fn become_nobody() -> Result<()> {
    // SAFETY: an empty list, and numbers.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
            && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
            // Its own files below /proc are its own again.
            && libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) == 0
    };
    if done { Ok(()) } else { Err(SystemError::last("become the user nobody")) }
}

/// Lets the script see itself as root, as scripts for `tc` ask to be.
fn map(user: u32, group: u32) -> Result<()> {
    let failed = |cause| SystemError::new("map the user of the sandbox", cause);
    fs::write("/proc/self/setgroups", "deny").map_err(failed)?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1")).map_err(failed)?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1")).map_err(failed)
}

fn mounts(place: &Place, owner: Option<u32>) -> Result<()> {
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE)?;
    let base = &place.base;
    let tmpfs = Some(("tmpfs", "size=64m,mode=0755"));
    mount(Some(Path::new("weir")), base, tmpfs, libc::MS_NOSUID | libc::MS_NODEV)?;
    let failed = |cause| SystemError::new("fill the sandbox", cause);
    fill(place, owner).map_err(failed)?;
    let program = base.join("weir");
    mount(Some(&place.own), &program, None, libc::MS_BIND)?;
    let mut covered: Vec<PathBuf> = Vec::new();
    for path in STAND_INS.iter().flat_map(|name| FOLDERS.iter().map(move |at| (at, name))) {
        let Ok(found) = fs::canonicalize(Path::new(path.0).join(path.1)) else { continue };
        let file = found.file_name().and_then(OsStr::to_str).unwrap_or("");
        // A program of many names is covered only if it has none but such ones.
        let own = file == *path.1 || SHARED.contains(&file) || file.starts_with(path.1);
        if own && !covered.contains(&found) {
            mount(Some(&program), &found, None, libc::MS_BIND)?;
            covered.push(found);
        }
    }
    set_read_only(Path::new("/"), true)?;
    set_read_only(base, false)?;
    // Root maps its new user later.
    if owner.is_some() { set_read_only(Path::new("/proc"), false) } else { Ok(()) }
}

/// Makes the files of the sandbox.
fn fill(place: &Place, owner: Option<u32>) -> io::Result<()> {
    let base = &place.base;
    for folder in ["bin", "tmp"] {
        fs::create_dir(base.join(folder))?;
    }
    for (file, text) in [(NOTES, &[][..]), (PRINTED, &[]), (COPY, &place.text), ("weir", &[])] {
        fs::write(base.join(file), text)?;
    }
    fs::set_permissions(base.join(COPY), fs::Permissions::from_mode(0o755))?;
    for name in STAND_INS {
        symlink("../weir", base.join("bin").join(name))?;
    }
    for file in [NOTES, PRINTED, "tmp"] {
        std::os::unix::fs::chown(base.join(file), owner, owner)?;
    }
    Ok(())
}

fn mount(
    source: Option<&Path>,
    target: &Path,
    kind: Option<(&str, &str)>,
    flags: libc::c_ulong,
) -> Result<()> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    let (source, at) = (source.map(text), text(target));
    let kind = kind.map(|(kind, options)| {
        (CString::new(kind).unwrap_or_default(), CString::new(options).unwrap_or_default())
    });
    let pointer = |text: Option<&CString>| text.map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: each pointer is null or to a text that ends in a zero and outlives the call.
    let done = unsafe {
        libc::mount(
            pointer(source.as_ref()),
            at.as_ptr(),
            pointer(kind.as_ref().map(|row| &row.0)),
            flags,
            pointer(kind.as_ref().map(|row| &row.1)).cast(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(SystemError::last(format!("mount {} for the script", target.display()))),
    }
}

/// Makes a mount and those below it read-only, or a single one writable.
fn set_read_only(path: &Path, read_only: bool) -> Result<()> {
    /// `struct mount_attr` of <linux/mount.h>.
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user: u64,
    }
    let (set, clear) = if read_only { (READ_ONLY | NO_SUID, 0) } else { (0, READ_ONLY) };
    let attributes = Attributes { set, clear, propagation: 0, user: 0 };
    let at = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    let recursive = if read_only { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path ends in a zero, and the structure has the length that is given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            at.as_ptr(),
            recursive,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(SystemError::last(format!("mount {} read-only", path.display()))),
    }
}

/// Sets the limits that the kernel keeps.
fn limits(time: Duration) -> Result<()> {
    let seconds = time.as_secs() + 2;
    let rows = [
        (libc::RLIMIT_NPROC, PROCESSES_MAX as u64 * 2),
        (libc::RLIMIT_FSIZE, FILE_MAX),
        (libc::RLIMIT_AS, MEMORY_MAX),
        (libc::RLIMIT_CPU, seconds),
        (libc::RLIMIT_CORE, 0),
    ];
    for (limit, most) in rows {
        let value = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the structure outlives the call.
        if unsafe { libc::setrlimit(limit, &raw const value) } != 0 {
            return Err(SystemError::last("limit the script"));
        }
    }
    Ok(())
}

/// Refuses this process and those that it starts all writing but to the sandbox's own files.
fn restrict(base: &Path) -> Result<()> {
    let below = |path: &Path, access| {
        PathFd::new(path).map(|at| PathBeneath::new(at, access)).map_err(|error| error.to_string())
    };
    let restrict = || -> std::result::Result<(), String> {
        let text = |error: landlock::RulesetError| error.to_string();
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(WANTED))
            .and_then(|rules| rules.handle_access(AccessNet::from_all(WANTED)))
            .and_then(|rules| rules.scope(Scope::from_all(WANTED)))
            .and_then(Ruleset::create)
            .map_err(text)?;
        rules =
            rules.add_rule(below(Path::new("/"), AccessFs::from_read(WANTED))?).map_err(text)?;
        let file = AccessFs::WriteFile | AccessFs::ReadFile | AccessFs::Truncate;
        for (path, access) in [
            (base.join("tmp"), AccessFs::from_all(WANTED)),
            (base.join(NOTES), file),
            (base.join(PRINTED), file),
            (PathBuf::from("/dev/null"), file),
        ] {
            rules = rules.add_rule(below(&path, access)?).map_err(text)?;
        }
        rules.restrict_self().map(|_| ()).map_err(text)
    };
    restrict()
        .map_err(|why| SystemError::refused("refuse writing to the script by Landlock", why, ""))
}

/// Reads the calls that were noted.
fn notes(base: &Path) -> Vec<Note> {
    let text = fs::read(base.join(NOTES)).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Returns the end of what the script printed.
fn printed(base: &Path) -> String {
    let text = fs::read(base.join(PRINTED)).unwrap_or_default();
    let from = text.len().saturating_sub(PRINTED_MAX);
    printable_lines(&String::from_utf8_lossy(&text[from..]))
}

/// Folders that a sandbox may cover: hardly a script needs what is in them.
pub(super) const BASES: [&str; 3] = ["/mnt", "/media", "/srv"];
/// The files in it: the notes, what the script prints, and its copy.
pub(super) const NOTES: &str = "weir-notes";
pub(super) const PRINTED: &str = "weir-printed";
const COPY: &str = "script";
/// Folders of programs, and names of those that have several.
const FOLDERS: [&str; 6] =
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin"];
const SHARED: [&str; 4] = ["kmod", "xtables-nft-multi", "xtables-legacy-multi", "ebtables-nft"];
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const NOBODY: u32 = 65_534;
/// `MOUNT_ATTR_RDONLY` and `MOUNT_ATTR_NOSUID`.
const READ_ONLY: u64 = 1;
const NO_SUID: u64 = 2;
const WANTED: ABI = ABI::V6;
/// Bound: bytes of a file that the script writes to the sandbox; a longer one ends its writer.
const FILE_MAX: u64 = 16 << 20;
/// Bound: memory of a process of the script; beyond, it gets none.
const MEMORY_MAX: u64 = 4 << 30;
/// Bound: bytes shown of what the script printed; what is before them is left out.
const PRINTED_MAX: usize = 2048;
