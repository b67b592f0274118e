//! Forwarders that read their policies, and what happens meanwhile.

use super::world::{Policies, World, check_orphan, check_reading, check_running};

#[test]
fn a_link_starts_once_its_policies_are_read() {
    check_reading(
        "by a forwarder that has read them before it was started",
        Policies::Known,
        "
        begun => start 1; ports 1
        ready 1 => fallback closed; 1 opens
        opened 1 => announce 1; service ready; follow all; introduce 1; drop former files
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 2; ports 2
        ",
    );
    check_reading(
        "and not before: what else it says means nothing",
        Policies::Slow,
        "
        begun => start 1
        ready 1
        opened 1
        closed 1
        read 1 => ports 1
        read 1
        ready 1 => fallback closed; 1 opens
        read 1
        findings 1: too late
        opened 1 => announce 1; service ready; follow all; introduce 1; drop former files
        ",
    );
    let mut world = World::running("");
    world.step("answer policies: slow");
    world.step("restart 1");
    assert!(world.link.is_in_motion(), "it reads");
}

#[test]
fn a_link_whose_first_forwarder_cannot_read_ends() {
    check_reading(
        "with what that found, all of it",
        Policies::Slow,
        "
        begun => start 1
        findings 1: error[E1]: no rate
        read 1
        exit 1: exit status: 1 => end: error[E1]: no rate
        ",
    );
    check_reading(
        "when it has died",
        Policies::Slow,
        "
        begun => start 1
        exit 1: signal 9 => end: signal 9
        ",
    );
    check_reading(
        "when it has taken a minute",
        Policies::Slow,
        "
        begun => start 1
        after 60s
        after 1ms => kill 1
        exit 1: signal 9 => end: it did not read its files within 60 s
        ",
    );
    check_reading(
        "when its ports cannot be opened",
        Policies::Slow,
        "
        begun => start 1
        answer ports: no descriptors
        read 1 => ports 1; kill 1
        read 1
        exit 1: signal 9 => end: no descriptors
        ",
    );
}

#[test]
fn a_restart_whose_files_are_refused_changes_nothing() {
    // What was in force when the forwarder dies shows that: the kernel carries its traffic.
    let after = "exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 3";
    let check = |what: &str, script: &str| {
        let begin = "
            answer policies: slow
            answer files: never closed
            restart 1 => read; start installed 2
            beat 1
            ";
        check_running(what, "", &format!("{begin}{script}{after}\n"));
    };
    check(
        "as their policies have errors, of which the journal has one line",
        "
        findings 2: error[E1]: no rate|  --> up.toml:3:1|link.toml: 1 error
        tick
        exit 2: exit status: 1 => restart-refused up.toml:3:1: error[E1]: no rate; 1 not restarted: error[E1]: no rate|  --> up.toml:3:1|link.toml: 1 error
        ",
    );
    check(
        "as the rest of them cannot be followed",
        "
        answer ports: other interfaces
        read 2 => ports 2; kill 2
        exit 2: signal 9 => restart-refused other interfaces; 1 not restarted: other interfaces
        ",
    );
    check(
        "as who reads them dies",
        "
        exit 2: signal 11 => restart-refused the new forwarder (process 2) ended: signal 11; 1 not restarted: the new forwarder (process 2) ended: signal 11
        ",
    );
    check(
        "as who reads them says what no forwarder says",
        "
        garbled 2: bad JSON => kill 2
        exit 2: signal 9 => restart-refused the new forwarder (process 2) ended: bad JSON; 1 not restarted: the new forwarder (process 2) ended: bad JSON
        ",
    );
    check(
        "as reading takes more than a minute",
        "
        after 60s
        after 1ms => kill 2
        exit 2: signal 9 => restart-refused the new forwarder (process 2) ended: it did not read its files within 60 s; 1 not restarted: the new forwarder (process 2) ended: it did not read its files within 60 s
        ",
    );
}

#[test]
fn what_was_read_is_in_force_from_the_opening_of_ports_on() {
    check_running(
        "and the time to open them begins then",
        "",
        "
        answer policies: slow
        answer files: drain=9
        restart 1 => read; start installed 2
        wait 59s
        read 2 => ports 2
        after 59s
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s; 2 drains 9s
        ",
    );
    check_running(
        "or no more, if they are not opened",
        "",
        "
        answer policies: slow
        answer files: closed
        restart 1 => read; start installed 2
        read 2 => ports 2
        exit 2: signal 9 => return to former files; restart-refused the new forwarder (process 2) ended: signal 9; 1 not restarted: the new forwarder (process 2) ended: signal 9
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 3
        ",
    );
}

#[test]
fn the_former_one_dies_while_the_new_one_reads() {
    let check = |what: &str, script: &str| {
        let begin = "
            answer policies: slow
            restart 1 => read; start installed 2
            exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial
            tick
            ";
        check_running(what, "", &format!("{begin}{script}"));
    };
    check(
        "and that one takes the frames once its ports are open",
        "
        read 2 => ports 2
        ready 2 => fallback closed; shaped; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; death is over; drop former files
        ",
    );
    check(
        "which finds errors: one of the files in force is started",
        "
        answer files: closed
        findings 2: error[E1]: no rate|  --> up.toml:3:1
        exit 2: exit status: 1 => restart-refused up.toml:3:1: error[E1]: no rate; look for ports; start 3
        read 3 => ports 3
        ready 3 => fallback closed; shaped; 3 opens
        opened 3 => handed-over process 3; follow all; introduce 3; death is over; drop former files
        ",
    );
    check(
        "which dies, too",
        "
        exit 2: signal 11 => restart-refused the new forwarder (process 2) ended: signal 11; look for ports; start 3
        ",
    );
    check(
        "and after that nothing may pass without a forwarder",
        "
        answer files: closed
        read 2 => ports 2; fallback closed; shaped
        exit 2: signal 11 => give up trial; look for ports; start 3
        read 3 => ports 3
        ready 3 => 3 opens
        ",
    );
}

#[test]
fn one_that_is_started_again_reads_anew_what_is_in_force() {
    check_running(
        "and if it cannot any more, another one is started",
        "",
        "
        answer policies: slow
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 2
        findings 2: error[E1]: no rate
        exit 2: exit status: 1 => fallback open; give up trial; look for ports; start 3
        read 3 => ports 3
        ",
    );
    check_orphan(
        "and beside one that was taken over it is not started again",
        "",
        "
        begun => service ready; follow all; introduce 1; start 2; ports 2
        exit 2: signal 9 => restart-refused the new forwarder (process 2) ended: signal 9; 1 not restarted: the new forwarder (process 2) ended: signal 9; announce 1
        answer policies: slow
        restart 1 => read; start installed 3
        findings 3: error[E1]: no rate
        exit 3: exit status: 1 => restart-refused error[E1]: no rate; 1 not restarted: error[E1]: no rate
        ",
    );
}

#[test]
fn a_second_restart_waits_while_a_forwarder_reads() {
    let begin = "
        answer policies: slow
        restart 1 => read; start installed 2
        restart 1
        tick
        ";
    check_running(
        "and is refused with the first",
        "",
        &format!(
            "{begin}
        findings 2: error[E1]: no rate
        restart 1
        exit 2: exit status: 1 => restart-refused error[E1]: no rate; 1 not restarted: error[E1]: no rate
        tick
        restart 1 => read; start installed 3
        "
        ),
    );
    check_running(
        "and is granted with the first",
        "",
        &format!(
            "{begin}
        read 2 => ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; drop former files
        exit 1: exit status: 0
        tick
        "
        ),
    );
}

#[test]
fn a_link_stops_while_a_forwarder_reads() {
    check_reading(
        "its first",
        Policies::Slow,
        "
        begun => start 1
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; kill 1
        read 1
        findings 1: error[E1]: no rate
        exit 1: signal 9
        tick => end: stopped
        ",
    );
    check_running(
        "that was to take over",
        "",
        "
        answer policies: slow
        restart 1 => read; start installed 2
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s; kill 2
        read 2
        exit 2: signal 9
        exit 1: exit status: 0
        tick => print last; end: stopped
        ",
    );
    check_running(
        "whose files were refused",
        "",
        "
        answer policies: slow
        restart 1 => read; start installed 2
        findings 2: error[E1]: no rate
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s; kill 2
        exit 2: exit status: 1
        exit 1: exit status: 0
        tick => print last; end: stopped
        ",
    );
}
