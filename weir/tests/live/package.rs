//! The Debian package: made of this program, installed into an empty root, run there as its unit
//! says, and removed. Needs dpkg, and root or user namespaces.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_testbed::rows::{self, Failed, Need, Outcome, Row};
use weir_testbed::{LEFT, Process, RIGHT, Testbed, TestbedConfig, end_all, until};

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[("the_package_installs_runs_as_its_unit_says_and_goes", the_package_runs)];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    rows::table("package", TESTS, NEEDS)
}

/// A root folder with just what the package needs, and a place for the package.
struct Root {
    folder: tempfile::TempDir,
}

impl Root {
    fn new() -> Result<Self, Failed> {
        let root = Self { folder: tempfile::tempdir()? };
        for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "run/weir", "proc", "dev"] {
            fs::create_dir_all(root.path(folder))?;
        }
        for program in ["sh", "rmdir", "rm", "setpriv"] {
            root.copy_program(program)?;
        }
        root.write("etc/passwd", "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")?;
        root.write("etc/group", "root:x:0:\nnogroup:x:65534:\n")?;
        let state = INSTALLED.iter().map(|name| stanza(name)).collect::<Result<String, _>>()?;
        root.write("var/lib/dpkg/status", &state)?;
        Ok(root)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("root").join(name)
    }

    fn write(&self, name: &str, text: &str) -> Outcome {
        let path = self.path(name);
        fs::create_dir_all(path.parent().ok_or("a file has a folder")?)?;
        Ok(fs::write(path, text)?)
    }

    /// Copies a program with the libraries that it needs.
    fn copy_program(&self, name: &str) -> Outcome {
        let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
        let found = found.iter().find(|path| path.exists()).ok_or("a usual program")?;
        self.copy(found, &Path::new("/bin").join(name))?;
        self.copy_libraries(found)
    }

    fn copy_libraries(&self, program: &Path) -> Outcome {
        let listed = said(Command::new("ldd").arg(program))?;
        for word in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            self.copy(Path::new(word), Path::new(word))?;
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &Path) -> Outcome {
        let to = self.path(to.strip_prefix("/")?.to_str().ok_or("a plain name")?);
        fs::create_dir_all(to.parent().ok_or("a file has a folder")?)?;
        fs::copy(from, to)?;
        Ok(())
    }

    fn dpkg(&self, arguments: &[&str]) -> Result<String, Failed> {
        let mut command = Command::new("dpkg");
        // Whether the disk has it at the end of the test does not matter.
        command.arg("--force-unsafe-io").arg("--root").arg(self.path("")).args(arguments);
        // dpkg looks for the programs of administrators.
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        said(&mut command)
    }
}

/// Runs a command to its end; returns its output, or fails with all that it printed.
fn said(command: &mut Command) -> Result<String, Failed> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&text)).into())
}

/// Returns what dpkg notes of an installed package, so that dependencies are checked.
fn stanza(name: &str) -> Result<String, Failed> {
    let format = "Package: ${Package}\nStatus: install ok installed\nMaintainer: none\n\
                  Architecture: ${Architecture}\nVersion: ${Version}\nDescription: none\n\n";
    said(Command::new("dpkg-query").args(["-W", "-f", format, name]))
}

/// Returns the keys of the section `[Service]` of the unit; the last value of a key that is
/// repeated, but all capabilities.
fn unit(text: &str) -> BTreeMap<String, String> {
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    let lines = text.lines().skip_while(|line| *line != "[Service]").skip(1);
    for line in lines.take_while(|line| !line.starts_with('[')) {
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let known = keys.entry(key.to_owned()).or_default();
        let before =
            if key == "CapabilityBoundingSet" { known.clone() + " " } else { String::new() };
        *known = before + value;
    }
    keys
}

fn the_package_runs() -> Outcome {
    let root = Root::new()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/deb.sh");
    let mut make = Command::new(script);
    make.arg(env!("CARGO_BIN_EXE_weir")).arg(root.folder.path());
    make.env("DEB_COMPRESSION", "none");
    let package = said(&mut make)?;
    root.dpkg(&["--install", package.trim()])?;
    root.copy_libraries(&root.path("usr/bin/weir"))?;
    looks_like_a_package(&root, package.trim())?;
    runs_as_its_unit_says(&root)?;
    root.dpkg(&["--purge", "weir"])?;
    assert!(!root.path("usr/bin/weir").exists() && !root.path("usr/share/doc/weir").exists());
    assert!(root.path("etc/weir/home.toml").exists(), "a deployment of the operator stays");
    Ok(())
}

/// Checks the files that lintian would check.
fn looks_like_a_package(root: &Root, package: &str) -> Outcome {
    for file in [
        "usr/share/bash-completion/completions/weir",
        "usr/share/zsh/vendor-completions/_weir",
        "usr/share/fish/vendor_completions.d/weir.fish",
        "usr/share/man/man1/weir-up.1.gz",
        "usr/share/doc/weir/copyright",
        "usr/share/doc/weir/changelog.gz",
        "usr/share/doc/weir/running.md",
        "usr/share/doc/weir/examples/home.toml",
        UNIT,
    ] {
        let text = fs::metadata(root.path(file)).map_err(|error| format!("{file}: {error}"))?;
        assert!(text.len() > 0 && text.permissions().mode() & 0o777 == 0o644, "{file}");
    }
    let listed = said(Command::new("dpkg-deb").args(["--contents", package]))?;
    for line in listed.lines() {
        assert!(line.contains(" root/root "), "{line}");
        let mode = line.get(..10).unwrap_or_default();
        let is_known = ["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"].contains(&mode);
        assert!(is_known, "{line}");
    }
    let fields = said(Command::new("dpkg-deb").args(["--field", package]))?;
    for field in ["Version: ", "Depends: libc6 (>= 2.", "Maintainer: ", "Installed-Size: "] {
        assert!(fields.contains(field), "{fields}");
    }
    said(
        Command::new("md5sum")
            .args(["--check", "--quiet"])
            .current_dir(root.path(""))
            .arg(root.path("var/lib/dpkg/info/weir.md5sums")),
    )?;
    if Command::new("systemd-analyze").arg("--version").output().is_ok() {
        // It wants a root with its own units, so the program's place is changed instead.
        let text = fs::read_to_string(root.path(UNIT))?;
        let program = root.path("usr/bin/weir").display().to_string();
        let place = root.folder.path().join("weir@home.service");
        fs::write(&place, text.replace("/usr/bin/weir", &program))?;
        let mut verify = Command::new("systemd-analyze");
        let output = verify.args(["verify", "--man=no"]).arg(&place).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.is_empty(), "{text}");
    }
    Ok(())
}

/// Starts the unit's command with the unit's capabilities in the root and between private networks,
/// as systemd would, and waits until it says that it is ready.
fn runs_as_its_unit_says(root: &Root) -> Outcome {
    root.write("etc/weir/policy.toml", POLICY)?;
    root.write("etc/weir/home.toml", &DEPLOYMENT.replace("LEFT", LEFT).replace("RIGHT", RIGHT))?;
    let keys = unit(&fs::read_to_string(root.path(UNIT))?);
    let key = |name: &str| keys.get(name).ok_or_else(|| format!("the unit has no {name}"));
    assert_eq!((key("Type")?.as_str(), key("NotifyAccess")?.as_str()), ("notify", "main"));
    let names = key("CapabilityBoundingSet")?.split_whitespace();
    let names: Vec<_> = names.map(|name| name.replacen("CAP_", "+", 1).to_lowercase()).collect();
    let notices = UnixDatagram::bind(root.path("run/notify"))?;
    notices.set_nonblocking(true)?;
    // Each program takes the place of the one before it, so the process is the keeper in the end.
    let script = format!(
        "mount --rbind /proc {0}/proc && mount --rbind /dev {0}/dev && \
         export WATCHDOG_PID=$$ && \
         exec chroot {0} /bin/setpriv --no-new-privs --bounding-set=-all,{1} {2}",
        root.path("").display(),
        names.join(","),
        key("ExecStart")?.replace("%i", "home")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("NOTIFY_SOCKET", "/run/notify").env("WATCHDOG_USEC", "1000000");
    let testbed = Testbed::new(TestbedConfig::default())?;
    let mut process = Process::start_in(&testbed.weir, &mut command)?;
    let outcome = is_ready_and_stops(&notices, &mut process, root);
    end_all(&testbed.weir, &mut process);
    outcome.map_err(|error| format!("{error:?}: {}", process.printed()).into())
}

fn is_ready_and_stops(notices: &UnixDatagram, process: &mut Process, root: &Root) -> Outcome {
    for wanted in ["READY=1", "WATCHDOG=1"] {
        await_notice(notices, wanted)?;
    }
    assert!(root.path("run/weir/home.sock").exists(), "the control socket is where it should be");
    process.signal("TERM")?;
    await_notice(notices, "STOPPING=1")?;
    assert_eq!(process.wait_for_exit()?.code(), Some(0));
    assert!(!root.path("run/weir/home.sock").exists(), "the control socket goes with the link");
    Ok(())
}

/// Waits until a notice has this line.
fn await_notice(notices: &UnixDatagram, wanted: &str) -> Outcome {
    let mut bytes = [0; 4096];
    let mut is_it = || {
        let length = notices.recv(&mut bytes).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..length]).lines().any(|line| line == wanted)
    };
    Ok(until(wanted, &mut is_it)?)
}

const UNIT: &str = "usr/lib/systemd/system/weir@.service";
const NEEDS: &[Need] = &[
    Need::PrivateNetworks,
    Need::Program("dpkg-deb"),
    Need::Program("dpkg"),
    Need::Program("objdump"),
    Need::Program("strip"),
];
/// The packages on which it depends.
const INSTALLED: [&str; 2] = ["libc6", "libgcc-s1"];
const POLICY: &str =
    "[link]\nrate = \"50 Mbit/s\"\nscheduler = \"drr\"\n\n[class.all]\ndefault = true\n";
const DEPLOYMENT: &str = "[deployment]\nports = { inside = \"LEFT\", outside = \"RIGHT\" }\n\n\
    [direction.upload]\nfrom = \"inside\"\nto = \"outside\"\npolicy = \"policy.toml\"\n";
