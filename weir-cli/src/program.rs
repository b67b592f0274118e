//! Where the other program is: `weir lab` starts `weir-lab`, whose experiments start `weir`.

use std::path::{Path, PathBuf};

/// Returns the path of an installed program: beside this one, or the first on `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(std::env::split_paths(&paths));
    // A relative entry of `PATH` would mean another program in another folder.
    let absolute = folders.filter(|folder| folder.is_absolute());
    absolute.map(|folder| folder.join(name)).find(|path| path.is_file())
}
