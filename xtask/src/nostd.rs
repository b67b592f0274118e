//! Proves that `weir-core`, `weir-tcp` and `weir-autorate` need no `std`, by checking them where
//! none can be found.
//!
//! A `#![no_std]` line proves little, since any file may still say `extern crate std`. So they
//! are built against a sysroot that holds only the compiler's own `core` and `alloc`. This needs no
//! bare-metal target, hence no download. A control makes the proof meaningful: the same build with
//! `extern crate std` must fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates of the compiler's library that a `no_std` crate with `alloc` may use.
const LIBRARY: [&str; 4] = ["core", "alloc", "compiler_builtins", "rustc_std_workspace_core"];

/// Builds the crates without `std`, after showing that a crate that needs `std` fails there.
pub fn prove(root: &Path) -> Result<String, String> {
    let target = target_directory(root).join("nostd");
    let host = host_triple()?;
    let sysroot = bare_sysroot(&target.join("sysroot"), &host)?;
    control_fails(&target, &sysroot)?;
    let status = Command::new("cargo")
        .current_dir(root)
        .args(["check", "--locked", "--package", "weir-core", "--package", "weir-tcp"])
        .args(["--package", "weir-autorate"])
        .args(["--target", &host])
        .arg("--target-dir")
        .arg(target.join("build"))
        .env("RUSTFLAGS", format!("--sysroot {}", sysroot.display()))
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("a crate does not build where only `core` and `alloc` exist".into());
    }
    Ok("weir-core, weir-tcp and weir-autorate build without `std`".into())
}

/// Makes a sysroot of links to the compiler's `core` and `alloc`.
fn bare_sysroot(folder: &Path, host: &str) -> Result<PathBuf, String> {
    let full =
        PathBuf::from(rustc(&["--print", "sysroot"])?).join("lib/rustlib").join(host).join("lib");
    let bare = folder.join("lib/rustlib").join(host).join("lib");
    let _ = fs::remove_dir_all(folder); // A sysroot of an older compiler may lie there, or none.
    fs::create_dir_all(&bare).map_err(|error| format!("{}: {error}", bare.display()))?;
    let entries = fs::read_dir(&full).map_err(|error| format!("{}: {error}", full.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", full.display()))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if LIBRARY.iter().any(|krate| name.starts_with(&format!("lib{krate}-"))) {
            std::os::unix::fs::symlink(&path, bare.join(name))
                .map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(folder.to_path_buf())
}

/// Compiles one line that needs `std`, which must fail for that reason, and one that does not.
fn control_fails(target: &Path, sysroot: &Path) -> Result<(), String> {
    let bare = compile(target, sysroot, "#![no_std] extern crate alloc;")?;
    if let Err(complaint) = bare {
        return Err(format!("the bare sysroot lacks a crate that no_std code needs:\n{complaint}"));
    }
    match compile(target, sysroot, "#![no_std] extern crate std;")? {
        Ok(()) => Err("the bare sysroot has a `std`, so it proves nothing".into()),
        Err(complaint) if complaint.contains("can't find crate for `std`") => Ok(()),
        Err(complaint) => Err(format!("the control failed for another reason:\n{complaint}")),
    }
}

/// Compiles `source` as a library; the inner result is the compiler's.
fn compile(target: &Path, sysroot: &Path, source: &str) -> Result<Result<(), String>, String> {
    let file = target.join("control.rs");
    fs::write(&file, source).map_err(|error| format!("{}: {error}", file.display()))?;
    let output = Command::new("rustc")
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata"])
        .arg("--sysroot")
        .arg(sysroot)
        .arg("-o")
        .arg(target.join("libcontrol.rmeta"))
        .arg(&file)
        .output()
        .map_err(|error| format!("cannot run rustc: {error}"))?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Returns the triple of this machine, as `rustc` names it.
fn host_triple() -> Result<String, String> {
    let version = rustc(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` names no host".to_owned())
}

/// Returns what `rustc` prints for these arguments.
fn rustc(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("rustc")
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run rustc: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the folder where cargo builds.
pub fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
