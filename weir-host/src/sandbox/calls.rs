//! The system calls of a forwarding process. Each list is data; a call that is in none is refused
//! with EPERM and counted (`denied`).
//!
//! EPERM rather than death for most, since a library may try a call that it can do without (the
//! allocator looks at a file when it shrinks its heap, a panic looks for its program's file), and
//! a link should not end for that. Death for what no library tries: to start a program, to look
//! into other processes, to load code into the kernel, to change namespaces and mounts. The link
//! then goes to a new process, or to the fallback, and the operator sees the signal.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

use super::denied;
use crate::error::{Result, SystemError};

/// Allowed with any arguments.
const ALLOWED: &[i64] = &[
    // Frames and messages, on descriptors that are open.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    // A status that is too long for a message travels as a file in memory.
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    // Waiting and time.
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_getrusage,
    // Memory that is not executable: see also `CONDITIONAL`.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Threads: what the C library does as one starts and ends, and their processors.
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_membarrier,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getrandom,
    // Signals: handlers, and their return.
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    // A filter cannot see what they do: see `UNKNOWN`.
    libc::SYS_clone3,
    libc::SYS_statx,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// Allowed beside them in a process that waits by epoll: to watch a descriptor, and to wait. The
/// descriptor by which it waits is made before.
const BY_EPOLL: &[i64] = &[
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// A condition: an argument, by its place, under a mask.
type Condition = (u8, u64, u64);

/// Allowed where one of the rows holds, each a list of conditions that hold together.
fn conditional() -> Vec<(i64, Vec<Vec<Condition>>)> {
    // SAFETY: getpid only returns a number.
    let own = unsafe { libc::getpid() } as u64;
    let whole = u64::from(u32::MAX);
    let is = |place, values: &[u64]| -> Vec<Vec<Condition>> {
        values.iter().map(|value| vec![(place, whole, *value)]).collect()
    };
    let data = vec![vec![(2, libc::PROT_EXEC as u64, 0)]];
    let mut options = is(1, &[libc::SOL_PACKET as u64, libc::SOL_XDP as u64]);
    let of_sockets = SOCKET_OPTIONS
        .iter()
        .map(|option| vec![(1, whole, libc::SOL_SOCKET as u64), (2, whole, *option as u64)]);
    options.extend(of_sockets);
    let memberships =
        MEMBERSHIPS.iter().map(|(level, option)| [*level, *option].map(|word| word as u64));
    options.extend(memberships.map(|[level, option]| vec![(1, whole, level), (2, whole, option)]));
    vec![
        (libc::SYS_mmap, data.clone()),
        (libc::SYS_mprotect, data),
        // A new thread, not a new process; a namespace goes with neither.
        (libc::SYS_clone, vec![vec![(0, THREAD_MASK, libc::CLONE_THREAD as u64)]]),
        (libc::SYS_ioctl, is(1, &REQUESTS)),
        (libc::SYS_fcntl, is(1, &DESCRIPTOR_COMMANDS.map(|command| command as u64))),
        // Channels to another keeper.
        (libc::SYS_socketpair, is(0, &[libc::AF_UNIX as u64])),
        (libc::SYS_prctl, is(0, &THREAD_OPTIONS.map(|option| option as u64))),
        (libc::SYS_setsockopt, options),
        // From a real-time class into the ordinary one.
        (libc::SYS_sched_setscheduler, is(1, &[libc::SCHED_OTHER as u64])),
        // To itself: a panic that ends the process.
        (libc::SYS_tgkill, is(0, &[own])),
        // Its own limits: read, and the one of real-time threads set.
        (
            libc::SYS_prlimit64,
            vec![
                vec![(0, whole, 0), (2, u64::MAX, 0)],
                vec![(0, whole, 0), (1, whole, u64::from(libc::RLIMIT_RTTIME))],
            ],
        ),
        // The C library's name for `fstat`.
        (
            libc::SYS_newfstatat,
            vec![vec![(3, libc::AT_EMPTY_PATH as u64, libc::AT_EMPTY_PATH as u64)]],
        ),
    ]
}

/// Requests about an interface ([`crate::interface`]); a change by `SIOCETHTOOL` needs a
/// capability. The last two ask a socket how much waits, and whether it blocks.
const REQUESTS: [u64; 8] = [
    libc::SIOCGIFNAME,
    libc::SIOCGIFINDEX,
    libc::SIOCGIFFLAGS,
    libc::SIOCGIFMTU,
    libc::SIOCGIFHWADDR,
    libc::SIOCETHTOOL,
    libc::FIONREAD,
    libc::FIONBIO,
];

const DESCRIPTOR_COMMANDS: [libc::c_int; 7] = [
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_DUPFD_CLOEXEC,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];

const THREAD_OPTIONS: [libc::c_int; 3] =
    [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_TIMERSLACK];

/// A classic filter closes and opens a port's intake.
const SOCKET_OPTIONS: [libc::c_int; 4] =
    [libc::SO_ATTACH_FILTER, libc::SO_DETACH_FILTER, libc::SO_RCVTIMEO, libc::SO_SNDTIMEO];

/// A node of RSVP receives the groups of its sessions.
const MEMBERSHIPS: [(libc::c_int, libc::c_int); 4] = [
    (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP),
    (libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP),
    (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP),
    (libc::IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP),
];

const THREAD_MASK: u64 = (libc::CLONE_THREAD
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// The process is killed.
const FATAL: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
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
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Calls that the kernel seems not to know: the caller takes an older one, whose arguments a
/// filter can read.
const UNKNOWN: &[i64] = &[libc::SYS_clone3, libc::SYS_statx];

/// Installs the filters; returns how many system calls remain.
pub(super) fn restrict(waits_by_epoll: bool) -> Result<usize> {
    denied::install()?;
    let always = |calls: &[i64]| calls.iter().map(|call| (*call, Vec::new())).collect();
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> = always(ALLOWED);
    if waits_by_epoll {
        allowed.extend(always(BY_EPOLL));
    }
    for (call, rows) in conditional() {
        let rules: std::result::Result<_, _> = rows.iter().map(|row| rule(row)).collect();
        allowed.insert(call, rules.map_err(|error| failed(&error))?);
    }
    let count = allowed.len() - UNKNOWN.len();
    let refusal = if denied::COUNTS { SeccompAction::Trap } else { errno(libc::EPERM) };
    // Of the answers of several filters the kernel takes the strictest. The broad one comes last,
    // since it refuses further filters.
    apply(always(FATAL), SeccompAction::Allow, SeccompAction::KillProcess)?;
    apply(always(UNKNOWN), SeccompAction::Allow, errno(libc::ENOSYS))?;
    apply(allowed, refusal, SeccompAction::Allow)?;
    Ok(count)
}

fn errno(number: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(number as u32)
}

fn rule(row: &[Condition]) -> std::result::Result<SeccompRule, seccompiler::BackendError> {
    let condition = |(place, mask, value): &Condition| {
        let operator = SeccompCmpOp::MaskedEq(*mask);
        SeccompCondition::new(*place, SeccompCmpArgLen::Qword, operator, *value)
    };
    SeccompRule::new(row.iter().map(condition).collect::<std::result::Result<_, _>>()?)
}

/// Installs a filter for all threads: `listed` for these calls, `other` for the rest.
fn apply(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    other: SeccompAction,
    listed: SeccompAction,
) -> Result<()> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failed(&error))?;
    let filter = SeccompFilter::new(calls, other, listed, arch).map_err(|error| failed(&error))?;
    let program: BpfProgram = filter.try_into().map_err(|error| failed(&error))?;
    apply_filter_all_threads(&program).map_err(|error| failed(&error))
}

fn failed(error: &dyn std::error::Error) -> SystemError {
    let cure = "Weir needs a kernel with seccomp filters (CONFIG_SECCOMP_FILTER)";
    SystemError::refused("restrict the system calls of this process", error.to_string(), cure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_call_is_in_two_lists() {
        let conditional: Vec<_> = conditional().iter().map(|(call, _)| *call).collect();
        let all = [ALLOWED, BY_EPOLL, &conditional, FATAL].concat();
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert!(UNKNOWN.iter().all(|call| ALLOWED.contains(call)), "else they would be refused");
    }
}
