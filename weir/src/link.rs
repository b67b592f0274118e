//! The link that is meant where it may be the only one.

use std::path::PathBuf;
use weir_control::places::{Found, Places, State};

/// Returns the control socket of a link: that one, or of this name; without both, of the only link
/// that runs. `verb` is for the cure.
///
/// # Errors
/// When no such link runs, or several do and none is named.
pub fn socket(
    name: Option<&str>,
    control: Option<&PathBuf>,
    verb: &str,
) -> Result<PathBuf, String> {
    match (control, name) {
        (Some(control), _) => Ok(control.clone()),
        (None, Some(name)) => Places::of_process().find(name),
        (None, None) => only(Places::of_process().list().0, verb),
    }
}

fn only(links: Vec<Found>, verb: &str) -> Result<PathBuf, String> {
    let mut running: Vec<_> =
        links.into_iter().filter(|link| link.state == State::Running).collect();
    match running.len() {
        0 => Err("no link of yours runs; start one with `weir up`".to_owned()),
        1 => Ok(running.remove(0).path),
        _ => {
            let ways: Vec<_> =
                running.iter().map(|link| format!("`weir {verb} {}`", link.name)).collect();
            Err(format!("several links run; name one: {}", ways.join(" or ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(links: &[(&str, State)], wanted: Result<&str, &str>) {
        let link = |(name, state): &(&str, State)| Found {
            name: (*name).to_owned(),
            path: PathBuf::from(format!("/run/{name}.sock")),
            uid: 0,
            state: *state,
        };
        match (only(links.iter().map(link).collect(), "stop"), wanted) {
            (Ok(path), Ok(wanted)) => assert_eq!(path, PathBuf::from(wanted)),
            (Err(why), Err(part)) => assert!(why.contains(part), "{part}: {why}"),
            (found, _) => panic!("{wanted:?}: {found:?}"),
        }
    }

    #[test]
    fn the_only_link_is_meant_and_of_several_one_must_be_named() {
        use State::{Denied, Running, Stale};
        check(&[], Err("no link of yours runs"));
        check(&[("a", Stale), ("b", Denied)], Err("no link of yours runs"));
        check(&[("a", Stale), ("b", Running)], Ok("/run/b.sock"));
        check(&[("a", Running), ("b", Running)], Err("`weir stop a` or `weir stop b`"));
    }
}
