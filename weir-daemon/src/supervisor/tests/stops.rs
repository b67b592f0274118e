//! Links that are to stop, in every phase.

use super::world::{check, check_orphan, check_running};

#[test]
fn a_link_stops() {
    check_running(
        "when its forwarder has sent what it holds",
        "drain=3",
        "
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 3s
        tick
        beat 1
        ended 1: 5
        exit 1: exit status: 0
        tick => print last; end: stopped
        ",
    );
    check_running(
        "when its forwarder is killed, which drains for too long",
        "drain=3",
        "
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 3s
        after 5s
        after 1ms => kill 1
        after 1ms => kill 1
        exit 1: signal 9
        tick => print last; end: stopped
        ",
    );
    check(
        "before it has begun, with a forwarder that is killed",
        "",
        "
        signal 2 => stop gateway; stop rsvp; stop circuits; service stopping; kill 1
        tick
        ready 1
        opened 1
        exit 1: signal 9
        tick => end: stopped
        ",
    );
    check(
        "when its first forwarder was told to take frames",
        "",
        "
        ready 1 => fallback closed; 1 opens
        signal 2 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s
        opened 1
        exit 1: signal 9
        tick => end: stopped
        ",
    );
    check_running(
        "without a forwarder",
        "never",
        "
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; forwarder-absent the deployment says `restart = \"never\"`; service absent
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping
        tick => print last; end: stopped
        ",
    );
    check_running(
        "while interfaces are missing, which are not looked for any more",
        "",
        "
        answer missing: wan
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; ports-awaited wan
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping
        poll
        tick => print last; end: stopped
        ",
    );
}

#[test]
fn a_link_stops_while_forwarders_follow_one_another() {
    check_running(
        "when the new one opens its ports",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s; kill 2
        ready 2
        exit 2: signal 9
        tick
        exit 1: exit status: 0
        tick => print last; end: stopped
        ",
    );
    check_running(
        "when the former one closes its intake",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s; 2 drains 2s
        closed 1
        exit 1: exit status: 0
        exit 2: exit status: 0
        tick => print last; end: stopped
        ",
    );
    check_running(
        "when the former one drains: each has its own time, and what the first flushed is written",
        "",
        "
        answer files: drain=9
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; drop former files
        wait 3s
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s; 2 drains 9s
        ended 1: 3 => flushed 3
        after 4s
        after 1ms => kill 1
        exit 1: signal 9
        ended 2: 4
        exit 2: exit status: 0
        tick => print last; end: stopped
        ",
    );
    check_running(
        "when one was told to abort",
        "watchdog=5",
        "
        after 6s => abort 1
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s
        after 1s
        exit 1: signal 6
        tick => print last; end: stopped
        ",
    );
    check_orphan(
        "when one that was taken over drains: none follows",
        "taps",
        "
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s
        exit 1: it was started by another keeper
        tick => print last; end: stopped
        ",
    );
}

#[test]
fn a_second_signal_ends_a_link_at_once() {
    check_running(
        "but not together with the first",
        "",
        "
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s
        signal 2
        wait 999ms
        signal 2
        tick
        wait 1ms
        signal 2
        tick => end: signal 2
        ",
    );
    check_running(
        "and the last of several counts, unless all have ended by then",
        "",
        "
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s
        wait 1s
        signal 2
        signal 15
        tick => end: signal 15
        ",
    );
    check_running(
        "unless all have ended by then",
        "",
        "
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s
        wait 1s
        signal 2
        exit 1: exit status: 0
        tick => print last; end: stopped
        ",
    );
}

#[test]
fn a_link_that_stops_refuses_and_starts_nothing() {
    check_running(
        "no restart",
        "",
        "
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s
        restart 1 => restart-refused the link is stopping; 1 not restarted: the link is stopping
        tick
        hup => hung-up
        usr1 => 1 marks
        ",
    );
    check_running(
        "no restart that waited for the end of another forwarder",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        restart 2
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s; 2 drains 2s
        tick
        exit 1: exit status: 0
        tick => restart-refused the link is stopping; 2 not restarted: the link is stopping
        tick
        ",
    );
    check_running(
        "no gateway and no reservations",
        "",
        "
        exit gateway 51: signal 9 => gateway is missing: process 51: signal 9; it is started again
        exit rsvp 61: signal 9 => rsvp is missing: process 61: signal 9; it is started again
        signal 15 => stop gateway; stop rsvp; stop circuits; service stopping; 1 drains 2s
        exit gateway 52: signal 9
        after 1s
        ",
    );
}
