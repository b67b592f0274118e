//! Imports a random script with those filters alone whose fate is wanted.

use super::script::Script;
use weir_import::import::{self, Fate, Import, Options};
use weir_policy::{Policy, policy};

/// Leaves out filters until each that is left has a fate that `fits`.
pub fn fitting(
    script: &Script,
    fits: impl Fn(Fate, &str) -> bool,
) -> Result<(String, Import), String> {
    let mut filters = script.filters.clone();
    loop {
        let text = script.with(&filters);
        let language = import::find("tc").expect("it is a language");
        let outcome = import::read(language, text.as_bytes(), "script", &Options::default());
        let import = outcome.plan.ok_or_else(|| format!("{:?}\n{text}", outcome.findings))?;
        let tree = script.tree.len();
        let fates = import.lines.iter().skip(tree).map(|line| fits(line.fate, &line.note));
        let fates: Vec<bool> = fates.collect();
        if fates.len() != filters.len() {
            return Err(format!("{} fates for {} filters\n{text}", fates.len(), filters.len()));
        }
        if fates.iter().all(|fits| *fits) {
            return Ok((text, import));
        }
        let mut fates = fates.into_iter();
        filters.retain(|_| fates.next().unwrap_or(false));
    }
}

pub fn parsed(import: &Import, text: &str) -> Result<Policy, String> {
    let one = import.policies.first().ok_or_else(|| format!("no policy\n{text}"))?;
    let outcome = policy::parse(&one.policy, "p");
    outcome.plan.ok_or_else(|| format!("{:?}\n{}", outcome.findings, one.policy))
}
