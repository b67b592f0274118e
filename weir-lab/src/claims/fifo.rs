//! Puts a FIFO in place of each scheduler of a scenario or policy, to find claims that are true of
//! every scheduler.

/// Returns the text with `scheduler = "fifo"`, and its classes without what only the scheduler
/// reads. It goes by lines, as the files of `papers/` are written.
pub fn instead(text: &str) -> String {
    let (mut lines, mut of_class, mut scheduler) = (Vec::new(), false, String::new());
    for line in text.lines() {
        if line.starts_with('[') {
            of_class = line.starts_with("[class.") || line.contains(".class.");
        }
        let key = line.split('=').next().unwrap_or_default().trim();
        if key == "scheduler" {
            scheduler = line.split('"').nth(1).unwrap_or_default().to_owned();
            lines.push("scheduler = \"fifo\"");
        } else if !(line.contains('=') && (key == scheduler || of_class && !KEPT.contains(&key))) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The keys of a class that say which packets it has and what holds them.
const KEPT: [&str; 3] = ["match", "default", "queue"];

#[cfg(test)]
mod tests {
    use super::instead;

    #[test]
    fn only_what_the_scheduler_reads_is_left_out() {
        let text = "[link.policy.link]\nrate = \"2 Mbit/s\"\nscheduler = \"cbq\"\n\
                    cbq = { burst = 2 }\n\n[link.policy.class.a]\nrate = \"1 Mbit/s\"\n\
                    default = true\n\n[[source]]\nrate = \"3 Mbit/s\"";
        let expected = "[link.policy.link]\nrate = \"2 Mbit/s\"\nscheduler = \"fifo\"\n\n\
                        [link.policy.class.a]\ndefault = true\n\n[[source]]\n\
                        rate = \"3 Mbit/s\"";
        assert_eq!(instead(text), expected);
    }
}
