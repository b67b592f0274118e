//! The checks of the host: privileges, kernel, settings, processors, wake-ups.

use super::tried::Attempt;
use super::wakeup::Wakeup;
use super::{Check, Facts, Finding, Level, Wanted};

/// Looks at the host.
type Run = fn(&Facts, &Wanted) -> Vec<Finding>;

/// The checks, in the order in which they are told.
pub(super) const CHECKS: &[Check<Run>] = &[
    Check { name: "capabilities", run: capabilities },
    Check { name: "kernel", run: kernel },
    Check { name: "tcx", run: tcx },
    Check { name: "af-xdp", run: xdp },
    Check { name: "sorting", run: sorting },
    Check { name: "sandbox", run: sandbox },
    Check { name: "user-namespaces", run: user_namespaces },
    Check { name: "locked-memory", run: locked_memory },
    Check { name: "memory", run: memory },
    Check { name: "bpf", run: bpf },
    Check { name: "buffers", run: buffers },
    Check { name: "netdev-budget", run: budget },
    Check { name: "routing", run: routing },
    Check { name: "reverse-path", run: reverse_path },
    Check { name: "cpus", run: cpus },
    Check { name: "governor", run: governor },
    Check { name: "steal", run: steal },
    Check { name: "user", run: user },
    Check { name: "priority", run: priority },
    Check { name: "clock", run: clock },
    Check { name: "stamps", run: stamps },
    Check { name: "files", run: files },
    Check { name: "wake-up", run: wakeups },
];

fn capabilities(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let held = facts.capabilities();
    let lacks = |needs: &[(u32, &'static str)]| -> Vec<&'static str> {
        needs.iter().filter(|(bit, _)| held >> bit & 1 == 0).map(|(_, name)| *name).collect()
    };
    let needs_host = wanted.has_host_port();
    let needs_packet = wanted.ports.iter().any(|port| !port.is_host);
    let rows: [(&str, &[_], bool); 4] = [
        ("ports of kind afpacket", &[NET_RAW], needs_packet),
        ("ports of kind afxdp", &[NET_RAW, NET_ADMIN, BPF], wanted.needs_xdp()),
        ("host ports", &[NET_RAW, NET_ADMIN, BPF, SYS_ADMIN], needs_host),
        (
            "programs that keep the host from acting on frames of a bridge, and large socket \
             buffers",
            &[NET_ADMIN, BPF],
            false,
        ),
    ];
    let row = |(what, needs, is_needed): (&str, &[_], bool)| {
        let lacking = lacks(needs);
        if lacking.is_empty() {
            return Finding::new(
                Level::Good,
                format!("this process has the privileges for {what}"),
            );
        }
        let level = wanted.missing(is_needed, Level::Note);
        let lacking = lacking.join(", ");
        let text = format!("this process has no privilege for {what}: it lacks {lacking}");
        Finding::new(level, text).cured(
            "run as root, or once `sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep \"$(command \
             -v weir)\"`",
        )
    };
    rows.into_iter().map(row).collect()
}

fn kernel(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let Some(release) = facts.files.text("proc/sys/kernel/osrelease") else {
        return Finding::note("the version of the kernel cannot be read");
    };
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (level, text) = match version {
        version if version < (4, 20) => {
            (wanted.missing(true, Level::Warning), "`weir up` needs 4.20 or newer")
        }
        version if version < (5, 11) => (Level::Note, "AF_XDP needs 5.11, host ports 6.6"),
        version if version < (6, 6) => {
            let level = wanted.missing(wanted.has_host_port(), Level::Note);
            (level, "host ports, and programs that keep the host quiet, need 6.6")
        }
        _ => (Level::Good, "new enough for every kind of port"),
    };
    let finding = Finding::new(level, format!("Linux {release}: {text}"));
    vec![if level == Level::Good { finding } else { finding.cured("install a newer kernel") }]
}

fn tcx(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let what = "loading a program at the hook tcx, which host ports and `on_exit = \"open\"` need \
                and which keeps the host from acting on frames of a bridge,";
    let is_needed = wanted.has_host_port() || wanted.fails_open;
    let level = wanted.missing(is_needed, Level::Warning);
    attempt(&facts.tried.tcx, what, level, "run as root on Linux 6.6 or newer")
}

fn xdp(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let level = wanted.missing(wanted.needs_xdp(), Level::Note);
    let cure = "run as root on Linux 5.11 or newer, or use kind afpacket";
    let rows = [
        (&facts.tried.xdp_native, "AF_XDP with its program in the driver (tried with veth)"),
        (&facts.tried.xdp_generic, "AF_XDP with its program behind the driver"),
    ];
    rows.into_iter().flat_map(|(tried, what)| attempt(tried, what, level, cure)).collect()
}

fn sorting(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    let what = "sorting frames among packet sockets by a program";
    attempt(&facts.tried.fanout, what, Level::Warning, "run with CAP_NET_RAW")
}

fn files(_facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let finding = |text: &String| {
        Finding::new(Level::Warning, text).cured("make it, or name another in the deployment")
    };
    let refused = |why: &String| {
        let cure = "mend the file, or name another in the deployment";
        Finding::new(Level::Problem, why).cured(cure)
    };
    let missing = wanted.missing.iter().map(finding);
    missing.chain(wanted.refused.iter().map(refused)).collect()
}

fn attempt(tried: &Attempt, what: &str, level: Level, cure: &str) -> Vec<Finding> {
    match tried {
        Attempt::Works => Finding::good(format!("{what} works")),
        Attempt::Refused(why) => {
            vec![Finding::new(level, format!("{what} does not work: {why}")).cured(cure)]
        }
        Attempt::Untried => {
            let text = format!("{what} was not tried: no private network could be made for that");
            vec![Finding::new(Level::Note, text).cured("run `sudo weir doctor`")]
        }
    }
}

fn sandbox(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    let landlock = match facts.tried.landlock {
        Some(version) => Finding::new(Level::Good, format!("landlock works (version {version})")),
        None => Finding::new(Level::Warning, "the kernel has no landlock, or it is off").cured(
            "boot with `lsm=landlock,…` in the kernel's command line; without it the forwarder \
             is confined by seccomp and its lack of capabilities alone",
        ),
    };
    let seccomp = if facts.tried.seccomp {
        Finding::new(Level::Good, "seccomp filters work")
    } else {
        Finding::new(Level::Warning, "the kernel has no seccomp filters")
            .cured("install a kernel with CONFIG_SECCOMP_FILTER")
    };
    vec![landlock, seccomp]
}

fn user_namespaces(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    if facts.tried.user_namespace {
        return Finding::good("`weir demo` and private networks work without root");
    }
    let text = "user namespaces are not allowed: `weir demo` needs root; `weir up` works without";
    let cure = "sysctl user.max_user_namespaces=10000, and where they exist \
                kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0";
    vec![Finding::new(Level::Note, text).cured(cure)]
}

fn locked_memory(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let is_free = facts.capabilities() >> IPC_LOCK.0 & 1 == 1;
    let Some(limit) = facts.tried.memlock.filter(|_| !is_free) else {
        return Finding::good("this process may lock as much memory as it needs");
    };
    let need = wanted.memory.unwrap_or(MEMORY_TYPICAL);
    if limit >= need {
        return Finding::good(format!("this process may lock {} MiB of memory", limit >> 20));
    }
    let level = wanted.missing(wanted.needs_xdp(), Level::Note);
    let text = format!(
        "this process may lock {} MiB of memory, and Weir locks {} MiB: AF_XDP ports may not open, \
         and the kernel may swap out memory that frames need",
        limit >> 20,
        need.div_ceil(1 << 20)
    );
    vec![Finding::new(level, text).cured("`ulimit -l unlimited`, or `LimitMEMLOCK=infinity`")]
}

fn memory(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let text = facts.files.text("proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let Some(free) = free.map(|kib| kib << 10) else {
        return Finding::note("the free memory cannot be read");
    };
    let Some(need) = wanted.memory else {
        return Finding::good(format!("{} MiB of memory are free", free >> 20));
    };
    let text = format!(
        "the deployment needs at most {} MiB of memory, and {} MiB are free",
        need.div_ceil(1 << 20),
        free >> 20
    );
    if need <= free {
        return Finding::good(text);
    }
    let cure = "lower `pool` or the number of classes; `weir check` prints what takes how much";
    vec![Finding::new(wanted.missing(true, Level::Warning), text).cured(cure)]
}

fn bpf(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    let jit = match facts.files.sysctl("net.core.bpf_jit_enable") {
        Some(0) => {
            Finding::new(Level::Warning, "the kernel interprets BPF programs, which is slow")
                .cured("sysctl -w net.core.bpf_jit_enable=1")
        }
        Some(_) => Finding::new(Level::Good, "the kernel compiles BPF programs"),
        None => {
            let text = "whether the kernel compiles BPF programs cannot be read here \
                        (net.core.bpf_jit_enable)";
            Finding::new(Level::Note, text)
        }
    };
    let has = facts.capabilities() >> BPF.0 & 1 == 1;
    let open = facts.files.sysctl("kernel.unprivileged_bpf_disabled");
    let safe = match open {
        Some(0) if !has => Finding::new(
            Level::Note,
            "any user may load BPF programs; Weir's need CAP_BPF all the same",
        )
        .cured("sysctl -w kernel.unprivileged_bpf_disabled=2"),
        Some(0) => Finding::new(Level::Note, "any user of this machine may load BPF programs")
            .cured("sysctl -w kernel.unprivileged_bpf_disabled=2"),
        _ => Finding::new(Level::Good, "only privileged users may load BPF programs"),
    };
    vec![jit, safe]
}

fn buffers(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    if facts.capabilities() >> NET_ADMIN.0 & 1 == 1 {
        return Finding::good("this process may set socket buffers as large as it needs");
    }
    let limit = |name| facts.files.sysctl(name).unwrap_or_default();
    let (receive, send) = (limit("net.core.rmem_max"), limit("net.core.wmem_max"));
    if receive.min(send) >= BUFFER_MIN {
        return Finding::good(format!("socket buffers may have {} MiB", receive.min(send) >> 20));
    }
    let text = format!(
        "without CAP_NET_ADMIN the buffers of a socket have {} KiB to receive and {} KiB to send: \
         a burst of super-packets may overflow them",
        receive >> 10,
        send >> 10
    );
    let cure = format!("sysctl -w net.core.rmem_max={BUFFER_MIN} net.core.wmem_max={BUFFER_MIN}");
    vec![Finding::new(Level::Warning, text).cured(cure)]
}

fn budget(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    match facts.files.sysctl("net.core.netdev_budget") {
        Some(budget) if budget < BUDGET_MIN => {
            let text = format!(
                "the kernel takes at most {budget} frames from all cards in one round \
                 (net.core.netdev_budget): under load cards may drop frames before Weir sees them"
            );
            let cure = format!("sysctl -w net.core.netdev_budget={BUDGET_MIN}");
            vec![Finding::new(Level::Warning, text).cured(cure)]
        }
        Some(budget) => Finding::good(format!("the kernel takes {budget} frames in one round")),
        // It belongs to the first network namespace.
        None => Finding::note(
            "net.core.netdev_budget, the frames that the kernel takes in one round, cannot be read \
             in this network namespace",
        ),
    }
}

fn routing(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let is_on = facts.files.sysctl("net.ipv4.ip_forward") == Some(1);
    let has_bridge = wanted.ports.iter().any(|port| !port.is_host);
    if is_on && has_bridge && !facts.tried.tcx.works() {
        let text = "this machine routes, and programs at tcx, which keep it from routing the \
                    frames of a bridge a second time, do not work or were not tried";
        return vec![
            Finding::new(Level::Warning, text)
                .cured("sysctl -w net.ipv4.ip_forward=0, unless it is a router"),
        ];
    }
    if !is_on && wanted.has_host_port() {
        let text = "this machine does not route: the host port shapes its own traffic only";
        return vec![
            Finding::new(Level::Note, text).cured("on a router: sysctl -w net.ipv4.ip_forward=1"),
        ];
    }
    Finding::good(if is_on { "this machine routes" } else { "this machine does not route" })
}

fn reverse_path(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    if !wanted.has_host_port() {
        return Vec::new();
    }
    let of = |name: &str| {
        facts.files.sysctl(&format!("net.ipv4.conf.{name}.rp_filter")).unwrap_or_default()
    };
    let host = wanted.ports.iter().filter(|port| port.is_host);
    // The stricter of the two holds [ip-sysctl.rst, rp_filter].
    let strict = host.map(|port| of("all").max(of(&port.interface))).any(|value| value == 1);
    if !strict {
        return Finding::good(
            "no packet is dropped for the interface by which it came (rp_filter)",
        );
    }
    Finding::note(
        "rp_filter is strict: the kernel drops packets that come by another interface than their \
         answers would leave by; Weir does not change that",
    )
}

fn cpus(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let usable = &facts.tried.cpus;
    let mut findings = Vec::new();
    let missing = wanted.cpus.iter().find(|cpu| !usable.contains(&(**cpu as usize)));
    if let Some(cpu) = missing {
        let text = format!("the deployment names CPU {cpu}, which this process may not use");
        findings.push(Finding::new(Level::Problem, text).cured("name another, in `cpu` or `cpus`"));
    }
    let isolated = facts.files.text("sys/devices/system/cpu/isolated").unwrap_or_default();
    let kept = match isolated.as_str() {
        "" => "none is kept free of other work".to_owned(),
        cpus => format!("{cpus} kept free of other work"),
    };
    let noun = if usable.len() == 1 { "CPU" } else { "CPUs" };
    let text = format!("this process may use {} {noun}; {kept}", usable.len());
    let finding = match usable.len() {
        1 => Finding::new(Level::Warning, text)
            .cured("a bridge shares its CPU with all other work: give the machine a second one"),
        _ if isolated.is_empty() => Finding::new(Level::Note, text).cured(
            "for the least delay boot with `isolcpus=N nohz_full=N` and write `cpu = N` in the \
             deployment",
        ),
        _ => Finding::new(Level::Good, text),
    };
    findings.push(finding);
    findings
}

fn governor(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    let folder = "sys/devices/system/cpu";
    let of = |cpu: &usize| facts.files.text(&format!("{folder}/cpu{cpu}/cpufreq/scaling_governor"));
    let governors: Vec<_> = facts.tried.cpus.iter().filter_map(of).collect();
    let Some(slow) = governors.iter().find(|governor| *governor != "performance") else {
        return Finding::good(match governors.is_empty() {
            true => "this machine does not let Linux set the frequency of its CPUs",
            false => "CPUs run at their full frequency",
        });
    };
    let text = format!("the governor `{slow}` slows idle CPUs down: threads wake late");
    vec![Finding::new(Level::Warning, text).cured("cpupower frequency-set -g performance")]
}

fn steal(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    let info = facts.files.text("proc/cpuinfo").unwrap_or_default();
    let is_guest = info
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    // proc(5): user nice system idle iowait irq softirq steal, in ticks since the start.
    let text = facts.files.text("proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, stolen] = ticks[..] else {
        return Finding::note("the use of the CPUs cannot be read");
    };
    let busy = user + nice + system + irq + softirq + stolen;
    let share = stolen as f64 * 100.0 / busy.max(1) as f64;
    let text = match is_guest {
        false if stolen == 0 => return Finding::good("no other machine shares these CPUs"),
        _ => format!(
            "this is a virtual machine: during {share:.1} % of the time in which it had work, its \
             host gave the CPU to others"
        ),
    };
    if share < STEAL_MAX_PERCENT {
        return Finding::note(text);
    }
    let cure = "ask for dedicated CPUs, or use a machine of your own: nothing inside cures it";
    vec![Finding::new(Level::Warning, text).cured(cure)]
}

/// The user of the forwarder, which a keeper that is root changes to.
fn user(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let Some(user) = &wanted.user else { return Vec::new() };
    if facts.capabilities() >> SETUID.0 & 1 == 0 {
        return Finding::note("the forwarder runs as the user of the keeper, without capabilities");
    }
    let known = facts.files.text("etc/passwd").unwrap_or_default();
    if known.lines().any(|line| line.split(':').next() == Some(user)) {
        return Finding::good(format!("the forwarder runs as `{user}`"));
    }
    let text = format!("there is no user `{user}`, which the forwarder is to be");
    let cure = format!("useradd --system --no-create-home {user}, or name another in `user`");
    vec![Finding::new(wanted.missing(true, Level::Warning), text).cured(cure)]
}

fn priority(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let may = facts.wakeups.iter().any(|wakeup| wakeup.precedence == "real-time");
    if may || !wanted.is_real_time {
        return Vec::new();
    }
    let text = "this process may not run threads at the deployment's `priority = \"realtime\"`";
    vec![
        Finding::new(Level::Warning, text)
            .cured("give it CAP_SYS_NICE (`LimitRTPRIO=1` in a unit), or run it as root"),
    ]
}

fn clock(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let source = facts.files.text(&format!("{folder}/current_clocksource"));
    let source = source.unwrap_or_else(|| "unknown".into());
    let cost = facts.tried.clock_ns;
    let text = format!("the clock is `{source}`, and reading it takes {cost} ns");
    if cost <= CLOCK_MAX_NS {
        return Finding::good(text);
    }
    let others = facts.files.text(&format!("{folder}/available_clocksource")).unwrap_or_default();
    let cure = match others.split_whitespace().find(|other| *other == "tsc" && source != "tsc") {
        Some(tsc) => format!("echo {tsc} > /{folder}/current_clocksource"),
        None => "none on this machine: each reading is a system call".to_owned(),
    };
    vec![Finding::new(Level::Warning, text).cured(cure)]
}

fn stamps(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    match facts.tried.stamp_error_ns {
        None => Finding::note("the kernel's stamps of received frames were not tried"),
        Some(error) if error <= STAMP_MAX_NS => {
            Finding::good("the kernel stamps received frames by the clock that Weir reads")
        }
        Some(error) => {
            let text = format!(
                "the kernel's stamps of received frames differ by {} µs from the clock that Weir \
                 reads: the wall clock is being set",
                error / 1000
            );
            vec![Finding::new(Level::Warning, text).cured("`chronyc tracking`, or `timedatectl`")]
        }
    }
}

fn wakeups(facts: &Facts, _wanted: &Wanted) -> Vec<Finding> {
    let micros = |ns: u64| ns as f64 / 1e3;
    let row = |wakeup: &Wakeup| {
        let text = format!(
            "of {} sleeps of 1 ms at precedence `{}`, half ended at most {:.0} µs late, 99 % at \
             most {:.0} µs, and the worst {:.0} µs",
            wakeup.count,
            wakeup.precedence,
            micros(wakeup.p50_ns),
            micros(wakeup.p99_ns),
            micros(wakeup.max_ns)
        );
        if wakeup.p99_ns <= WAKEUP_MAX_NS {
            return Finding::new(Level::Good, text);
        }
        let cure = "end other work, set the governor to `performance`, or keep a CPU free for the \
                    bridge (`isolcpus=N`, `cpu = N`)";
        // Only the best that this process may have counts.
        let is_best = facts.wakeups.last().is_some_and(|best| best == wakeup);
        let level = if is_best { Level::Warning } else { Level::Note };
        Finding::new(level, text).cured(cure)
    };
    facts.wakeups.iter().map(row).collect()
}

type Capability = (u32, &'static str);
const NET_ADMIN: Capability = (12, "CAP_NET_ADMIN");
const NET_RAW: Capability = (13, "CAP_NET_RAW");
const IPC_LOCK: Capability = (14, "CAP_IPC_LOCK");
const SETUID: Capability = (7, "CAP_SETUID");
const SYS_ADMIN: Capability = (21, "CAP_SYS_ADMIN");
const BPF: Capability = (39, "CAP_BPF");

/// The memory that a bridge of two ports locks with pools of the usual size.
const MEMORY_TYPICAL: u64 = 64 << 20;
/// Less room than this loses the super-packets of a burst.
const BUFFER_MIN: u64 = 32 << 20;
/// The kernel's own default.
const BUDGET_MIN: u64 = 300;
/// Beyond this a virtual machine wakes late too often.
const STEAL_MAX_PERCENT: f64 = 1.0;
/// Reading the clock without a system call takes less.
const CLOCK_MAX_NS: u64 = 200;
/// An adjusted clock differs by less.
const STAMP_MAX_NS: u64 = 100_000;
/// The hybrid wait covers 80 µs by polling; above a few hundred a deadline is missed.
const WAKEUP_MAX_NS: u64 = 300_000;
