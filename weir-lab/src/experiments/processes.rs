//! The processes of a link in proc(5): the time and memory that they use.

use std::fs;
use std::io;

/// Returns the processor time of all threads of a process, in ns.
pub(super) fn processor_ns(process: u32) -> io::Result<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
        // A thread may have ended meanwhile.
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        sum += text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(sum)
}

/// Returns the bytes of memory that a process alone holds.
pub(super) fn own_memory(process: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let own = text.lines().filter(|line| line.starts_with("Private_"));
    let kib = own.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    Ok(kib.sum::<u64>() * 1024)
}
