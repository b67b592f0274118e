//! Watches a script: the kernel asks before each call that would write, reach a network or start a
//! process, and a script is ended at the first call that a script for `tc` must not make.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::PROCESSES_MAX;
use super::answers::Answers;
use super::inside::{NOTES, PRINTED};
use crate::error::{Result, SystemError};
use crate::watch::readable;

/// A filter of system calls that asks a supervisor, and one that refuses.
pub(super) struct Filter {
    refuses: BpfProgram,
    asks: BpfProgram,
}

impl Filter {
    pub(super) fn new() -> Result<Self> {
        let calls = |rows: &[(i64, &[&[Test]])]| -> Rules {
            rows.iter()
                .map(|(call, rules)| (*call, rules.iter().map(|row| rule(row)).collect()))
                .collect()
        };
        let errno = |number: libc::c_int| SeccompAction::Errno(number as u32);
        let mut asks = program(calls(&asked()), SeccompAction::Trace(MARK))?;
        for instruction in &mut asks {
            // The crate has no name for this action: its place is held by another one.
            if instruction.k == libc::SECCOMP_RET_TRACE | MARK {
                instruction.k = libc::SECCOMP_RET_USER_NOTIF;
            }
        }
        Ok(Self { refuses: program(calls(UNKNOWN), errno(libc::ENOSYS))?, asks })
    }

    /// Installs both in this process, and sends the descriptor that answers to the supervisor.
    pub(super) fn install(&self, to: &UnixDatagram) -> io::Result<()> {
        apply(&self.refuses, 0)?;
        let listener = apply(&self.asks, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
        // SAFETY: the descriptor was just made, and nothing else has it.
        let listener = unsafe { OwnedFd::from_raw_fd(listener as i32) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [listener.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(to, &[IoSlice::new(b"l")], &mut control, SendFlags::empty())?;
        Ok(())
    }
}

/// Receives the descriptor.
pub(super) fn receive(from: &mut UnixDatagram) -> io::Result<OwnedFd> {
    from.set_nonblocking(true)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&*from, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut all) => all.next(),
        _ => None,
    });
    let first = descriptors.into_iter().next();
    first.ok_or_else(|| io::Error::other("the script's process sent no descriptor"))
}

fn apply(program: &BpfProgram, flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let whole = libc::sock_fprog {
        len: program.len() as u16,
        // The crate's type of an instruction has the layout of the kernel's.
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the program outlives the call, which reads `len` instructions of it.
    let done = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const whole)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
/// A test of an argument: its place, a mask, a value, and whether it must differ.
type Test = (u8, u64, u64, bool);

fn rule(row: &[Test]) -> SeccompRule {
    let condition = |(place, mask, value, differs): &Test| {
        let operator = if *differs { SeccompCmpOp::Ne } else { SeccompCmpOp::MaskedEq(*mask) };
        SeccompCondition::new(*place, SeccompCmpArgLen::Dword, operator, *value)
            .expect("the places of arguments are below six")
    };
    SeccompRule::new(row.iter().map(condition).collect()).expect("a rule has a condition")
}

fn program(rules: Rules, action: SeccompAction) -> Result<BpfProgram> {
    let failed =
        |why: String| SystemError::refused("filter the system calls of the script", why, "");
    let arch =
        TargetArch::try_from(std::env::consts::ARCH).map_err(|why| failed(why.to_string()))?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch);
    filter.and_then(TryInto::try_into).map_err(|why| failed(why.to_string()))
}

/// A script that is running.
pub(super) struct Watch {
    pub listener: OwnedFd,
    /// The first process of the script's namespace, with which all others end.
    pub child: Child,
    pub base: PathBuf,
    pub forks: usize,
    pub answers: Answers,
}

impl Watch {
    /// Waits for the end; returns the exit code, or why the script was ended.
    pub(super) fn run(&mut self, from: Instant, time: Duration) -> (Option<i32>, Option<String>) {
        let deadline = from + time;
        let why = loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return (Some(status.code().unwrap_or(128)), None);
            }
            let now = Instant::now();
            if now >= deadline {
                break format!("it ran for longer than {time:?}, which `--time-limit` sets");
            }
            let wait = (deadline - now).min(LOOK);
            if !readable(&[self.listener.as_fd()], wait).is_ok_and(|ready| ready[0]) {
                continue;
            }
            let Some(question) = self.ask() else { continue };
            if let Some(why) = self.judge(&question) {
                break why;
            }
            self.answer(&question);
        };
        // It may have ended by itself meanwhile.
        let _killed = self.child.kill();
        let _status = self.child.wait();
        (None, Some(why))
    }

    fn ask(&self) -> Option<Question> {
        let mut question = Question::default();
        let at = (&raw mut question).cast::<libc::c_void>();
        // SAFETY: the kernel fills the structure, which has its layout.
        let done = unsafe { libc::ioctl(self.listener.as_raw_fd(), RECEIVE, at) };
        (done == 0).then_some(question)
    }

    /// Lets the call happen.
    fn answer(&self, question: &Question) {
        let continues = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        let answer = Answer { id: question.id, value: 0, error: 0, flags: continues };
        // SAFETY: the structure has the layout of the kernel's. A process that has ended since
        // needs no answer.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), SEND, &raw const answer) };
    }

    /// Returns why the script is ended for a call, if it is.
    fn judge(&mut self, question: &Question) -> Option<String> {
        let call = i64::from(question.number);
        if FORKS.contains(&call) {
            return self.forked(question);
        }
        if call == libc::SYS_socket {
            return Some(format!("it tried to reach a network (family {})", question.arguments[0]));
        }
        let Some((name, at, path)) =
            WRITES.iter().find(|row| row.0 == call).map(|row| (row.1, row.2, row.3))
        else {
            return Some(format!("it tried what no script for tc needs (system call {call})"));
        };
        let found = self.path(question, at, path);
        let opens = name == "open";
        match found {
            Some(path) if self.may_write(&path, opens) => {
                self.answers.write(&path);
                None
            }
            Some(path) => {
                let (path, own) = (path.display(), self.base.join("tmp"));
                let own = own.display();
                Some(format!(
                    "it tried to write: {name} of {path}; it may write below $TMPDIR, which is \
                     {own}"
                ))
            }
            None => Some(format!("it tried to write ({name})")),
        }
    }

    fn forked(&mut self, question: &Question) -> Option<String> {
        let namespaces = NAMESPACES & question.arguments[0];
        if i64::from(question.number) == libc::SYS_clone && namespaces != 0 {
            return Some("it tried to make a namespace".to_owned());
        }
        self.forks += 1;
        if self.forks > FORKS_MAX {
            return Some(format!("it started more than {FORKS_MAX} processes"));
        }
        let many = self.forks.is_multiple_of(COUNTED_EACH) && self.processes() > PROCESSES_MAX;
        many.then(|| {
            format!("it forked without end: more than {PROCESSES_MAX} processes at a time")
        })
    }

    /// Counts the processes of the script's namespace.
    fn processes(&self) -> usize {
        let of = |number: &str| fs::read_link(format!("/proc/{number}/ns/pid")).ok();
        let own = of(&self.child.id().to_string());
        let names = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = names.filter_map(|one| one.file_name().into_string().ok());
        let numbers = numbers.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        numbers.filter(|number| own.is_some() && of(number) == own).count()
    }

    /// Reads the path that an argument of a call points at, behind the folder in another one.
    fn path(&self, question: &Question, folder: Option<usize>, at: usize) -> Option<PathBuf> {
        let process = question.process;
        let memory = fs::File::open(format!("/proc/{process}/mem")).ok()?;
        let mut bytes = vec![0; PATH_MAX];
        let address = *question.arguments.get(at)?;
        // A path may lie at the end of what is mapped.
        let length = (1..=PATH_MAX / 256).rev().find_map(|parts| {
            let length = parts * 256;
            memory.read_exact_at(&mut bytes[..length], address).ok().map(|()| length)
        });
        let length = match length {
            Some(length) => length,
            None => memory.read_at(&mut bytes, address).ok()?,
        };
        let text = bytes[..length].split(|byte| *byte == 0).next()?;
        let path = PathBuf::from(String::from_utf8_lossy(text).into_owned());
        if path.is_absolute() {
            return Some(path);
        }
        let folder = folder.and_then(|at| question.arguments.get(at)).map(|number| *number as i32);
        let link = match folder {
            Some(number) if number != libc::AT_FDCWD => format!("/proc/{process}/fd/{number}"),
            _ => format!("/proc/{process}/cwd"),
        };
        Some(fs::read_link(link).ok()?.join(path))
    }

    fn may_write(&self, path: &Path, opens: bool) -> bool {
        let up = path.components().any(|part| part.as_os_str() == "..");
        let own = path.starts_with(self.base.join("tmp"));
        let kept = [NOTES, PRINTED].iter().any(|name| path == self.base.join(name));
        let text = path.to_string_lossy();
        let device = DEVICES.contains(&&*text)
            || text.starts_with("/dev/fd/")
            || text.starts_with("/proc/self/fd/");
        !up && (own || opens && (kept || device))
    }
}

/// `struct seccomp_notif` of <linux/seccomp.h>.
#[repr(C)]
#[derive(Default)]
struct Question {
    id: u64,
    process: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// The calls about which the kernel asks, each with its conditions; without one, always.
fn asked() -> Vec<(i64, &'static [&'static [Test]])> {
    let mut rows: Vec<(i64, &[&[Test]])> = vec![
        (libc::SYS_openat, WRITING_2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, WRITING_1),
        (libc::SYS_socket, OTHER_FAMILIES),
    ];
    let opens = [libc::SYS_openat, SYS_OPEN];
    let writes = WRITES.iter().map(|row| row.0).filter(|call| !opens.contains(call));
    rows.extend(writes.chain(FORKS.iter().copied()).chain(FATAL.iter().copied()).map(|call| {
        let always: &[&[Test]] = &[];
        (call, always)
    }));
    rows
}

#[cfg(target_arch = "x86_64")]
const SYS_OPEN: i64 = libc::SYS_open;
#[cfg(not(target_arch = "x86_64"))]
const SYS_OPEN: i64 = libc::SYS_openat;

const ACCESS: u64 = libc::O_ACCMODE as u64;
const CREATE: u64 = libc::O_CREAT as u64;
/// The flags of a file that is opened for writing, in the third and in the second argument.
const WRITING_2: &[&[Test]] = &[
    &[(2, ACCESS, libc::O_WRONLY as u64, false)],
    &[(2, ACCESS, libc::O_RDWR as u64, false)],
    &[(2, CREATE, CREATE, false)],
];
#[cfg(target_arch = "x86_64")]
const WRITING_1: &[&[Test]] = &[
    &[(1, ACCESS, libc::O_WRONLY as u64, false)],
    &[(1, ACCESS, libc::O_RDWR as u64, false)],
    &[(1, CREATE, CREATE, false)],
];
/// Sockets of this machine and of netlink are refused without a word: the C library tries them.
const OTHER_FAMILIES: &[&[Test]] =
    &[&[(0, 0, libc::AF_UNIX as u64, true), (0, 0, libc::AF_NETLINK as u64, true)]];
/// Calls that the kernel seems not to know: the caller takes older ones, whose arguments a filter
/// can read.
const UNKNOWN: &[(i64, &[&[Test]])] = &[
    (libc::SYS_clone3, &[]),
    (libc::SYS_openat2, &[]),
    (libc::SYS_io_uring_setup, &[]),
    (
        libc::SYS_socket,
        &[
            &[(0, 0xffff_ffff, libc::AF_UNIX as u64, false)],
            &[(0, 0xffff_ffff, libc::AF_NETLINK as u64, false)],
        ],
    ),
];

/// Calls that start a process.
const FORKS: &[i64] = &[
    libc::SYS_clone,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// A call that writes: its number, its name, the argument with a folder and the one with the path.
type Write = (i64, &'static str, Option<usize>, usize);

const WRITES: &[Write] = &[
    (libc::SYS_openat, "open", Some(0), 1),
    (libc::SYS_mkdirat, "mkdir", Some(0), 1),
    (libc::SYS_unlinkat, "unlink", Some(0), 1),
    (libc::SYS_renameat2, "rename", Some(2), 3),
    (libc::SYS_linkat, "link", Some(2), 3),
    (libc::SYS_symlinkat, "symlink", Some(1), 2),
    (libc::SYS_mknodat, "mknod", Some(0), 1),
    (libc::SYS_fchmodat, "chmod", Some(0), 1),
    (libc::SYS_fchownat, "chown", Some(0), 1),
    (libc::SYS_truncate, "truncate", None, 0),
    (libc::SYS_setxattr, "setxattr", None, 0),
    (libc::SYS_renameat, "rename", Some(2), 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open", None, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, "open", None, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, "mkdir", None, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, "rmdir", None, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, "unlink", None, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, "rename", None, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_link, "link", None, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, "symlink", None, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, "mknod", None, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, "chmod", None, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chown, "chown", None, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lchown, "chown", None, 0),
];

/// Calls that no script for `tc` needs.
const FATAL: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// Files outside the sandbox that may be opened for writing.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/tty", "/dev/stdout", "/dev/stderr"];
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;
/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`.
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
/// Holds the place of an action in a program.
const MARK: u32 = 0x57;
/// Bound: processes that a script starts in all; one with more is ended.
const FORKS_MAX: usize = 50_000;
/// The processes are counted at one fork in so many.
const COUNTED_EACH: usize = 32;
const PATH_MAX: usize = 4096;
/// How long the end of the script may stay unseen.
const LOOK: Duration = Duration::from_millis(2);
