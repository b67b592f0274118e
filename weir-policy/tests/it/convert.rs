//! A policy rewritten for another scheduler: the text that a person reads, and the plan that it
//! parses to.

use std::path::{Path, PathBuf};
use weir_core::sched::{self, SCHEDULERS};
use weir_policy::policy::{self, Policy};
use weir_policy::translate::{Converted, convert, translate};
use weir_policy::{file, reader};

fn read(text: &str) -> Policy {
    let outcome = policy::parse(text, "p.toml");
    outcome.plan.unwrap_or_else(|| panic!("{text}\n{:#?}", outcome.findings))
}

fn converted(text: &str, to: &str) -> Result<Converted, String> {
    let entry = sched::find(to).expect("rows name schedulers");
    convert((text, "p.toml"), &read(text), entry.descriptor)
}

/// The text for another scheduler, and a part of its notes.
fn check(text: &str, to: &str, expected: &str, note: &str) {
    let found = converted(text, to).unwrap_or_else(|why| panic!("{to}: {why}\n{text}"));
    assert_eq!(found.text, expected, "{to}\n{}", found.text);
    assert!(found.outcome.findings.is_empty(), "{to}: {:#?}", found.outcome.findings);
    let notes = found.notes.join("; ");
    assert!(notes.contains(note) && (note.is_empty() == notes.is_empty()), "{to}: {notes}");
}

const HEAD: &str = "# A home.\n[link]\nrate = \"10 Mbit/s\" # of the modem\nscheduler = \"cbq\"\n";

#[test]
fn a_text_stays_as_it_is_but_for_its_scheduler() {
    let flat = format!(
        "{HEAD}\n# Calls.\n[class.voice]\nrate = \"1 Mbit/s\" # its own\n\
         priority = 7 # larger goes first\nborrow = false\nqueue = {{ limit = \"15 packets\" }}\n\
         match = [{{ dport = 1 }}]\n\n[class.voice.police]\nrate = \"1 Mbit/s\"\n\
         depth = \"3 KB\"\n\n# All else.\n[class.rest]\nshare = \"40 %\"\ndefault = true\n# The end.\n"
    );
    check(
        &flat,
        "htb",
        &format!(
            "{}\n# Classes borrow from their parent: without a parent of all classes, none could \
             borrow.\n[class.link]\nrate = \"10 Mbit/s\"\n\n# Calls.\n[class.voice]\n\
             parent = \"link\"\nrate = \"1 Mbit/s\" # its own\nceil = \"1 Mbit/s\"\nprio = 0\n\
             queue = {{ limit = \"15 packets\" }}\nmatch = [{{ dport = 1 }}]\n\n\
             [class.voice.police]\nrate = \"1 Mbit/s\"\ndepth = \"3 KB\"\n\n# All else.\n\
             [class.rest]\nparent = \"link\"\nshare = \"40 %\"\nceil = \"10 Mbit/s\"\nprio = 1\n\
             default = true\n# The end.\n",
            HEAD.replace("cbq", "htb")
        ),
        "added class `link`",
    );
    check(
        &flat,
        "wf2q+",
        &format!(
            "{}\n# Calls.\n[class.voice]\nweight = 1\nqueue = {{ limit = \"15 packets\" }}\n\
             match = [{{ dport = 1 }}]\n\n[class.voice.police]\nrate = \"1 Mbit/s\"\n\
             depth = \"3 KB\"\n\n# All else.\n[class.rest]\nweight = 4\ndefault = true\n# The end.\n",
            HEAD.replace("cbq", "wf2q+")
        ),
        "has no priorities",
    );
    check(&flat, "cbq", &flat, "");
}

#[test]
fn classes_in_one_line_stay_in_one_line() {
    let inline = format!(
        "{HEAD}[class]\na = {{ match = [{{ dport = 1 }}], rate = \"4 Mbit/s\" }}\n\
         b = {{ rate = \"6 Mbit/s\", default = true }}\n"
    );
    let head = HEAD.replace("cbq", "htb");
    check(
        &inline,
        "htb",
        &format!(
            "{head}[class]\n# Classes borrow from their parent: without a parent of all classes, \
             none could borrow.\nlink = {{ rate = \"10 Mbit/s\" }}\n\
             a = {{ match = [{{ dport = 1 }}], parent = \"link\", rate = \"4 Mbit/s\", \
             ceil = \"10 Mbit/s\" }}\nb = {{ parent = \"link\", rate = \"6 Mbit/s\", \
             ceil = \"10 Mbit/s\", default = true }}\n"
        ),
        "added class `link`",
    );
    let whole = "class = { a = { rate = \"4 Mbit/s\", default = true } }\n".to_owned()
        + &HEAD.replace("# A home.\n", "");
    check(
        &whole,
        "htb",
        &("class = { link = { rate = \"10 Mbit/s\" }, a = { parent = \"link\", \
           rate = \"4 Mbit/s\", ceil = \"10 Mbit/s\", default = true } }\n"
            .to_owned()
            + &head.replace("# A home.\n", "")),
        "added class `link`",
    );
}

#[test]
fn a_scheduler_without_hierarchy_loses_classes_with_their_promises() {
    let tree = "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"hfsc\"\n\n[link.hfsc]\n\
        limit_credit = \"linux\"\n\n# Both.\n[class.all]\nrate = \"9 Mbit/s\"\n\n[class.a]\n\
        rate = \"3 Mbit/s\"\nparent = \"all\"\nmatch = [{ dport = 1 }]\n\n[class.b]\n\
        parent = \"all\"\nrate = \"6 Mbit/s\"\ndefault = true\n\n[[promise]]\n\
        that = \"all.rate > 1 Mbit/s\"\nunder = \"s.toml\"\n\n[[promise]]\n\
        that = \"a.rate > 1 Mbit/s\"\nunder = \"s.toml\"\n";
    check(
        tree,
        "drr",
        "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"drr\"\n\n[class.a]\nquantum = \"1514 B\"\n\
         match = [{ dport = 1 }]\n\n[class.b]\nquantum = \"3028 B\"\ndefault = true\n\n\
         [[promise]]\nthat = \"a.rate > 1 Mbit/s\"\nunder = \"s.toml\"\n",
        "left out the promise `all.rate > 1 Mbit/s`",
    );
}

#[test]
fn queues_of_one_class_and_wanted_delays_are_carried() {
    let text = format!(
        "{HEAD}\n[class.host]\nhash = \"dstaddr\"\nqueues = 4\nrate = \"1 Mbit/s\"\n\
         match = [{{ dport = 1 }}]\n\n[class.rest]\nrate = \"2 Mbit/s\"\ndelay = \"2 s\"\n\
         default = true\n"
    );
    check(
        &text,
        "hfsc",
        &text.replace("\"cbq\"", "\"hfsc\""),
        "`delay` shapes what a class gets after a pause",
    );
    let rows =
        text.replace("\"cbq\"", "\"wf2q+\"").replace("rate = \"1 M", "weight = 1\nrate = \"1 M");
    let rows = rows.replace("rate = \"2 Mbit/s\"\n", "weight = 2\n");
    let rows = rows.replace("rate = \"1 Mbit/s\"\n", "");
    check(&text, "wf2q+", &rows, "");
}

/// The policies among the examples.
fn examples() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let files = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).expect("it is in the tree");
        entries.map(|entry| entry.expect("it can be listed").path())
    };
    let paths = files(folder.clone()).chain(files(folder.join("walk")));
    let toml = paths.filter(|path| path.extension().is_some_and(|it| it == "toml"));
    let texts = toml.map(|path| (file::read(&path).expect("it can be read"), path));
    texts
        .filter(|(bytes, _)| reader::top_level(bytes).iter().any(|key| key == "link"))
        .map(|(bytes, path)| (path, String::from_utf8(bytes).expect("it is text")))
        .collect()
}

#[test]
fn every_example_parses_to_its_translation_and_back() {
    let mut count = 0;
    for (path, text) in examples() {
        let original = read(&text);
        for entry in SCHEDULERS {
            let to = entry.descriptor;
            let name = format!("{} to {}", path.display(), to.keyword);
            let translated = match translate(&original.link, to) {
                Ok(translated) => translated,
                Err(why) => {
                    assert_eq!(converted(&text, to.keyword).err(), Some(why), "{name}");
                    continue;
                }
            };
            let found = converted(&text, to.keyword).unwrap_or_else(|why| panic!("{name}: {why}"));
            let plan = found
                .outcome
                .plan
                .unwrap_or_else(|| panic!("{name}: {:#?}\n{}", found.outcome.findings, found.text));
            assert_eq!(plan.rules, original.rules, "{name}");
            let classes = |tree: &sched::Tree| -> Vec<_> {
                tree.classes().map(|(_, class)| (class.name.clone(), class.parent)).collect()
            };
            assert_eq!(classes(&plan.link.tree), classes(&translated.plan.tree), "{name}");
            for line in text.lines().filter(|line| line.starts_with("match =")) {
                assert!(found.text.contains(line), "{name}: {line}");
            }
            let back = converted(&found.text, original.link.scheduler);
            back.unwrap_or_else(|why| panic!("{name} and back: {why}"));
            count += 1;
        }
    }
    assert!(count >= 150, "only {count} were converted");
}

#[test]
fn places_keep_what_the_other_scheduler_reads() {
    let text = |scheduler: &str, places: &str| {
        format!(
            "[link]\nrate = \"1 Mbit/s\"\nscheduler = \"{scheduler}\"\nplaces = {{ {places} }}\n\
             [class.rest]\ndefault = true\n"
        )
    };
    let places = "count = 3, quantum = \"900 B\", queue = { limit = \"9 packets\" }";
    let found = converted(&text("drr", places), "fifo").expect("FIFO has no parameters");
    assert_eq!(found.text, text("fifo", "count = 3, queue = { limit = \"9 packets\" }"));
    assert!(found.outcome.plan.is_some(), "{:?}", found.outcome.findings);
    let note = "left out of `places`: `quantum`; its own defaults hold";
    assert!(found.notes.iter().any(|it| it == note), "{:?}", found.notes);
}
