//! Capabilities and the user: all go, and none can come back.

use std::ffi::{CStr, CString, c_int};
use std::fmt;
use std::io;

use super::{expect_one_thread, set_process_option};
use crate::error::{Result, SystemError};
use crate::uapi::capability::{_LINUX_CAPABILITY_VERSION_3, CAP_IPC_LOCK};

/// The outcome of [`drop_capabilities`]; its text says it in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The user that the process is now, if it was root before.
    pub user: Option<String>,
    /// Rights that could not be given up, and why that is no harm.
    pub notes: Vec<String>,
}

/// The user that a process of root becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum User<'a> {
    /// One of the user database.
    Named(&'a str),
    /// One that no other program has, for the link of this keeper: a process of the same user could
    /// end this one. A user namespace that lacks it has `nobody` instead.
    OfLink(u32),
}

/// Empties every set of capabilities, and makes a process of root one of `user` without further
/// groups. No debugger of that user can enter the process, and it leaves no core file. With
/// `keeps_lock` it keeps the right to lock memory until [`super::enter`].
///
/// # Errors
/// When the process has several threads, there is no such user, or a capability would stay.
pub fn drop_capabilities(user: User<'_>, keeps_lock: bool) -> Result<Dropped> {
    expect_one_thread()?;
    let mut dropped = Dropped { user: None, notes: Vec::new() };
    if let Err(cause) = empty_bounding_set() {
        dropped.notes.push(format!(
            "the bounding set of capabilities stays ({cause}); without new privileges it gives none"
        ));
    }
    // SAFETY: geteuid only returns a number.
    if unsafe { libc::geteuid() } == 0 {
        match user.become_it()? {
            Ok(name) => dropped.user = Some(name),
            Err(cause) => dropped
                .notes
                .push(format!("the user stays ({cause}): this user namespace has no other")),
        }
    }
    let kept = if keeps_lock { 1 << CAP_IPC_LOCK } else { 0 };
    set_capabilities(kept).map_err(|cause| SystemError::new(DROP, cause))?;
    forbid_inspection().map_err(|cause| SystemError::new(DROP, cause))?;
    Ok(dropped)
}

/// Checks that a process of root can become this user; another one does not try.
///
/// # Errors
/// When there is no such user.
pub fn check_user(name: &str) -> Result<()> {
    // SAFETY: geteuid only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    Account::find(name).map(drop)
}

/// Returns whether this machine knows the user.
pub fn is_user(name: &str) -> bool {
    CString::new(name).is_ok_and(|name| matches!(Account::look_up(&name), Ok(Some(_))))
}

/// Empties the sets of this thread.
pub(super) fn drop_all() -> Result<()> {
    set_capabilities(0).map_err(|cause| SystemError::new(DROP, cause))
}

/// From now on no program that is started gains a privilege.
pub(super) fn forbid_new() -> Result<()> {
    let set = set_process_option(libc::PR_SET_NO_NEW_PRIVS, 1);
    set.map_err(|cause| SystemError::new("forbid new privileges", cause))
}

impl User<'_> {
    /// Returns the name of the user that the process is now, or why it stays what it is.
    fn become_it(self) -> Result<io::Result<String>> {
        let name = match self {
            Self::Named(name) => name,
            Self::OfLink(keeper) => {
                let number = OF_LINKS_FIRST + keeper % PROCESSES_MAX;
                if (Account { user: number, group: number }).become_it().is_ok() {
                    return Ok(Ok(number.to_string()));
                }
                NOBODY
            }
        };
        let account = Account::find(name)?;
        Ok(account.become_it().map(|()| name.to_owned()))
    }
}

fn empty_bounding_set() -> io::Result<()> {
    for capability in 0..CAPABILITIES_MAX {
        match set_process_option(libc::PR_CAPBSET_DROP, capability) {
            // The kernel knows no capability from here on.
            Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
            result => result?,
        }
    }
    Ok(())
}

/// Leaves those of the bits `kept` that the process has, in the effective and the permitted set;
/// the inheritable and the ambient set become empty.
fn set_capabilities(kept: u32) -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let mut header = Header { version: _LINUX_CAPABILITY_VERSION_3, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: a header of version 3 and the two elements that this version has; 0 is this thread.
    if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let kept = kept & sets[0].permitted;
    sets = [Sets { effective: kept, permitted: kept, inheritable: 0 }, Sets::default()];
    // SAFETY: as above; the kernel only reads both.
    match unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn forbid_inspection() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` is a valid limit.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // It also gives the files of /proc/self to root: those that everybody may read, as `status`,
    // stay readable, `maps` and `fd` do not.
    set_process_option(libc::PR_SET_DUMPABLE, 0)
}

/// A user and its group.
struct Account {
    user: libc::uid_t,
    group: libc::gid_t,
}

impl Account {
    fn find(name: &str) -> Result<Self> {
        let action = || format!("become the user `{name}`");
        let cure = "set `user` in the deployment to one that `getent passwd` lists";
        let missing = || SystemError::refused(action(), "there is no such user", cure);
        let text = CString::new(name).map_err(|_| missing())?;
        let found = Self::look_up(&text).map_err(|cause| SystemError::new(action(), cause))?;
        match found.ok_or_else(missing)? {
            Self { user: 0, .. } => Err(SystemError::refused(action(), "that is root", ROOT_CURE)),
            account => Ok(account),
        }
    }

    fn look_up(name: &CStr) -> io::Result<Option<Self>> {
        let mut room = vec![0; ACCOUNT_LEN_MAX];
        let mut found = std::ptr::null_mut();
        // SAFETY: passwd is integers and pointers: all zero is a value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        // SAFETY: all pointers are valid for the call, and `room` has the length that is passed.
        let status = unsafe {
            libc::getpwnam_r(name.as_ptr(), &mut entry, room.as_mut_ptr(), room.len(), &mut found)
        };
        match status {
            0 if found.is_null() => Ok(None),
            0 => Ok(Some(Self { user: entry.pw_uid, group: entry.pw_gid })),
            status => Err(io::Error::from_raw_os_error(status)),
        }
    }

    /// The permitted capabilities stay, to be dropped one step later; the effective ones go.
    fn become_it(&self) -> io::Result<()> {
        let Self { user, group } = *self;
        set_process_option(libc::PR_SET_KEEPCAPS, 1)?;
        let check = |status| if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        // SAFETY: these take numbers, and an empty list of groups.
        let became = unsafe {
            check(libc::setgroups(0, std::ptr::null()))
                .and_then(|()| check(libc::setresgid(group, group, group)))
                .and_then(|()| check(libc::setresuid(user, user, user)))
        };
        set_process_option(libc::PR_SET_KEEPCAPS, 0)?;
        became
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no capability")?;
        if let Some(user) = &self.user {
            write!(f, ", user {user}")?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

const DROP: &str = "drop the capabilities of this process";
const ROOT_CURE: &str = "set `user` in the deployment to another, or leave it out";
const NOBODY: &str = "nobody";
/// The first of the users of links: from here on systemd's "Users, Groups, UIDs and GIDs on
/// systemd Systems" has numbers that nothing hands out.
const OF_LINKS_FIRST: u32 = 0x7000_0000;
/// The numbers of processes are below this (PID_MAX_LIMIT of the kernel).
const PROCESSES_MAX: u32 = 1 << 22;
/// The kernel's sets have 64 bits.
const CAPABILITIES_MAX: libc::c_ulong = 64;
/// Room for a line of the user database.
const ACCOUNT_LEN_MAX: usize = 16 << 10;
