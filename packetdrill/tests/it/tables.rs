//! A folder of scripts becomes a table.

use std::path::{Path, PathBuf};
use weir_packetdrill::collection;
use weir_packetdrill::connection::knows;
use weir_packetdrill::driver::replay;
use weir_packetdrill::report::{Outcome, Totals, Verdict, table};
use weir_packetdrill::scope;

/// Scripts of a folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, scripts: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        for (script, text) in scripts {
            let file = path.join(script);
            let parent = file.parent().expect("the file is in the folder");
            std::fs::create_dir_all(parent).expect("the folder can be made");
            std::fs::write(file, text).expect("the script can be written");
        }
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn each_script_is_listed_once() {
    let syn = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 listen(3, 1) = 0\n\
               +0 < S 0:0(0) win 9000 <mss 900>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n";
    let scripts = [
        ("sack/passes.pkt", syn),
        ("sack/same.pkt", &format!("// of other words\n{syn}")),
        ("sack/fails.pkt", &format!("{syn}+0 > . 1:1(0) ack 7\n")),
        ("other/icmp.pkt", "0 < icmp unreachable\n"),
        ("other/notes.txt", "nothing"),
    ];
    let folder = Folder::new("packetdrill", &scripts);
    let outcomes = collection::run(&folder.0, &knows, &replay).expect("the folder can be read");
    let verdicts: Vec<&Verdict> = outcomes.iter().map(|outcome| &outcome.verdict).collect();
    let reason = "icmp: only TCP is modelled (line 1)".to_owned();
    assert_eq!(verdicts[0], &Verdict::NotApplicable(reason));
    assert!(matches!(verdicts[1], Verdict::Failed { line: 5, .. }), "{:?}", verdicts[1]);
    assert_eq!(verdicts[2], &Verdict::Passed);
    assert_eq!(verdicts[3], &Verdict::Same("sack/passes.pkt".to_owned()));
    let totals = Totals::of(outcomes.iter().filter(|outcome| outcome.is_counted));
    assert_eq!((totals.passed, totals.failed, totals.same), (1, 1, 1));
    let text = table(&outcomes, &[("fails.pkt", "It is meant to.")]);
    assert!(text.contains("* sack/fails.pkt: FAILED line 5") && text.contains("It is meant to."));
}

#[test]
fn the_goal_counts_scripts_and_shares() {
    let outcomes = |passed: usize, failed: usize| {
        let failure = Verdict::Failed { line: 1, difference: String::new() };
        let verdicts = (0..passed + failed)
            .map(|place| if place < passed { Verdict::Passed } else { failure.clone() });
        let outcome = |verdict| Outcome { path: String::new(), is_counted: true, verdict };
        verdicts.map(outcome).collect::<Vec<_>>()
    };
    for (passed, failed, met) in [(45, 0, true), (44, 0, false), (43, 2, true), (42, 3, false)] {
        let totals = Totals::of(outcomes(passed, failed).iter());
        assert_eq!(totals.meet_the_goal(), met, "{passed} {failed}");
    }
}

#[test]
fn subjects_are_told_by_paths() {
    let rows =
        [("tcp/cubic/a.pkt", true), ("tcp_slow_start_b.pkt", true), ("tcp/mss/c.pkt", false)];
    for (path, expected) in rows {
        assert_eq!(scope::is_counted(Path::new(path)), expected, "{path}");
    }
}
