//! Puts a FIFO in place of each scheduler of a scenario or policy, to find claims that are true of
//! every scheduler.

/// Returns the text with `scheduler = "fifo"`, and its classes without what only the scheduler
/// reads. It goes by lines, as the files of `papers/` are written.
pub fn instead(text: &str) -> String {
    let (mut lines, mut of_class, mut scheduler) = (Vec::new(), false, String::new());
    for line in text.lines() {
        if line.starts_with('[') {
            let has = |word: &str| {
                line.starts_with(&format!("[{word}.")) || line.contains(&format!(".{word}."))
            };
            of_class = has("class") || has("template");
        }
        // A template writes the keys of its classes as `class.rate`.
        let key = line.split('=').next().unwrap_or_default().trim();
        let key = key.strip_prefix("class.").unwrap_or(key);
        let is_row = key.starts_with('{');
        let is_kept = key != scheduler && (!of_class || KEPT.contains(&key));
        if key == "scheduler" {
            scheduler = line.split('"').nth(1).unwrap_or_default().to_owned();
            lines.push("scheduler = \"fifo\"");
        } else if is_row || is_kept || !line.contains('=') {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The keys of a class that say which packets it has and what holds them, and those of a template
/// that say which classes there are.
const KEPT: [&str; 6] = ["match", "default", "queue", "list", "name", "join"];

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

    #[test]
    fn a_template_keeps_its_list_and_what_says_which_packets_its_classes_have() {
        let text = "[policy.template.c]\nlist = [\n    { n = \"1\", port = \"11\" },\n]\n\
                    name = \"c{n}\"\nclass.rate = \"1 Mbit/s\"\n\
                    class.match = [{ dport = \"{port}\" }]";
        assert_eq!(instead(text), text.replace("class.rate = \"1 Mbit/s\"\n", ""));
    }
}
