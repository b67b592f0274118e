//! Forwarders that die or hang, in every phase.

use super::world::{World, check_running};

#[test]
fn a_forwarder_that_died_is_replaced() {
    check_running(
        "while the kernel carries the traffic",
        "",
        "
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 2; ports 2
        ready 2: note slow => fallback closed; shaped; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; death is over; drop former files
        exit 2: signal 11 => fallback open; unshaped; death of process 2: signal 11; give up trial; look for ports; start 3; ports 3
        ",
    );
    check_running(
        "while nothing passes",
        "closed",
        "
        exit 1: signal 9 => death of process 1: signal 9; give up trial; look for ports; start 2; ports 2
        ready 2 => 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; death is over; drop former files
        ",
    );
    check_running(
        "where the fallback cannot be set: what it is told to be is not told as a fact",
        "",
        "
        answer fallback: not permitted
        exit 1: signal 9 => fallback open; warning not permitted; death of process 1: signal 9; give up trial; look for ports; start 2; ports 2
        ready 2 => fallback closed; warning not permitted; 2 opens
        answer fallback:
        exit 2: signal 9 => fallback open; unshaped; give up trial; look for ports; start 3; ports 3
        ",
    );
    check_running(
        "when it fell silent for longer than its watchdog allows",
        "watchdog=5",
        "
        after 5s
        beat 1
        after 5s
        after 1ms => abort 1
        after 200ms
        after 1ms => kill 1
        exit 1: signal 6 => fallback open; unshaped; death of process 1: it gave no sign of life and was told to abort; give up trial; look for ports; start 2; ports 2
        ",
    );
    check_running(
        "and another one as well, which is one death until a third forwards",
        "",
        "
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 2; ports 2
        exit 2: signal 11 => fallback open; give up trial; look for ports; start 3; ports 3
        ready 3 => fallback closed; shaped; 3 opens
        exit 3: signal 11 => fallback open; unshaped; give up trial; look for ports; start 4; ports 4
        ready 4 => fallback closed; shaped; 4 opens
        opened 4 => handed-over process 4; follow all; introduce 4; death is over; drop former files
        ",
    );
}

#[test]
fn no_forwarder_is_started_any_more() {
    check_running(
        "where the deployment says so, and the kernel carries the traffic",
        "never",
        "
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; forwarder-absent the deployment says `restart = \"never\"`; service absent
        poll
        tick
        ",
    );
    check_running(
        "where the deployment says so, and the link ends",
        "never closed",
        "
        failed 1: no interface
        exit 1: signal 9 => death of process 1: no interface; give up trial; forwarder-absent the deployment says `restart = \"never\"`; end: the forwarder ended: no interface; none is started again: the deployment says `restart = \"never\"`
        ",
    );
    let five = "
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 2; ports 2
        exit 2: signal 9 => fallback open; give up trial; look for ports; start 3; ports 3
        exit 3: signal 9 => fallback open; give up trial; look for ports; start 4; ports 4
        exit 4: signal 9 => fallback open; give up trial; look for ports; start 5; ports 5
        after 59s
        exit 5: signal 9 => fallback open; give up trial; look for ports; start 6; ports 6
        ";
    check_running(
        "after five in a minute",
        "",
        &format!(
            "{five}
        exit 6: signal 9 => fallback open; give up trial; look for ports; forwarder-absent 5 were started within 60 s; service absent
        poll
        after 60s
        poll
        "
        ),
    );
    check_running(
        "but after a minute",
        "",
        &format!(
            "{five}
        wait 1s
        exit 6: signal 9 => fallback open; give up trial; look for ports; start 7; ports 7
        "
        ),
    );
}

#[test]
fn a_forwarder_is_started_once_its_interfaces_are_there() {
    check_running(
        "and that costs no restart",
        "",
        "
        answer missing: wan lan
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; ports-awaited wan, lan
        tick
        poll => look for ports
        answer missing: lan
        poll => look for ports
        answer missing:
        tick
        poll => look for ports; start 2; ports 2
        poll
        answer missing: wan
        exit 2: signal 9 => fallback open; give up trial; look for ports; ports-awaited wan
        answer missing:
        poll => look for ports; start 3; ports 3
        exit 3: signal 9 => fallback open; give up trial; look for ports; start 4; ports 4
        exit 4: signal 9 => fallback open; give up trial; look for ports; start 5; ports 5
        exit 5: signal 9 => fallback open; give up trial; look for ports; start 6; ports 6
        exit 6: signal 9 => fallback open; give up trial; look for ports; forwarder-absent 5 were started within 60 s; service absent
        ",
    );
    check_running(
        "unless too many were started",
        "closed",
        "
        exit 1: signal 9 => death of process 1: signal 9; give up trial; look for ports; start 2; ports 2
        exit 2: signal 9 => give up trial; look for ports; start 3; ports 3
        exit 3: signal 9 => give up trial; look for ports; start 4; ports 4
        exit 4: signal 9 => give up trial; look for ports; start 5; ports 5
        exit 5: signal 9 => give up trial; look for ports; start 6; ports 6
        answer missing: wan
        exit 6: signal 9 => give up trial; look for ports; ports-awaited wan
        answer missing:
        poll => look for ports; forwarder-absent 5 were started within 60 s; end: the forwarder ended: interfaces were missing; none is started again: 5 were started within 60 s
        ",
    );
}

#[test]
fn the_former_one_dies_while_it_hands_over() {
    check_running(
        "when the new one opens its ports: that one takes the frames once it has",
        "",
        "
        answer files: closed
        restart 1 => read; start installed 2; ports 2
        exit 1: signal 9 => death of process 1: signal 9; give up trial
        tick
        ready 2 => 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; death is over; drop former files
        ",
    );
    check_running(
        "when it closes its intake: the new one takes the frames at once",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; fallback closed; shaped; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; death is over; drop former files
        ",
    );
    check_running(
        "and then the new one",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial
        exit 2: signal 9 => fallback open; give up trial; look for ports; start 3; ports 3
        ",
    );
    check_running(
        "when it drains, which is no death",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        exit 1: signal 9
        opened 2 => handed-over process 2; follow all; introduce 2; drop former files
        ",
    );
    check_running(
        "when it drains for too long",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; drop former files
        after 4s
        after 1ms => kill 1
        exit 1: signal 9
        ",
    );
}

#[test]
fn the_former_one_hangs_while_it_hands_over() {
    check_running(
        "when it closes its intake",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        wait 3s
        ready 2 => 1 closes
        after 10s
        after 1ms => abort 1
        exit 1: signal 6 => fallback open; unshaped; death of process 1: a loop of it did not cease to take frames within 10 s, and it was told to abort; give up trial; fallback closed; shaped; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; death is over; drop former files
        ",
    );
    check_running(
        "when the new one opens its ports, which waits for its end",
        "watchdog=5",
        "
        restart 1 => read; start installed 2; ports 2
        after 6s => abort 1
        ready 2
        beat 2
        tick
        exit 1: signal 6 => fallback open; unshaped; death of process 1: it gave no sign of life and was told to abort; give up trial; fallback closed; shaped; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; death is over; drop former files
        ",
    );
    check_running(
        "and the new one is ready after its end",
        "watchdog=5",
        "
        restart 1 => read; start installed 2; ports 2
        after 6s => abort 1
        exit 1: signal 6 => fallback open; unshaped; death of process 1: it gave no sign of life and was told to abort; give up trial
        ready 2 => fallback closed; shaped; 2 opens
        ",
    );
    check_running(
        "and asked for the restart with its last breath",
        "watchdog=5",
        "
        after 6s => abort 1
        restart 1 => read; start installed 2; ports 2
        exit 1: signal 6 => fallback open; unshaped; death of process 1: it gave no sign of life and was told to abort; give up trial
        ",
    );
}

#[test]
fn the_new_one_hangs_while_it_takes_over() {
    check_running(
        "when it opens its ports, for which it has a minute",
        "watchdog=5",
        "
        restart 1 => read; start installed 2; ports 2
        wait 30s
        beat 1
        tick
        wait 31s
        beat 1
        tick => kill 2
        exit 2: signal 9 => return to former files; restart-refused the new forwarder (process 2) ended: it did not open its ports within 60 s; 1 not restarted: the new forwarder (process 2) ended: it did not open its ports within 60 s
        ",
    );
    check_running(
        "when it is ready: the former one opens its intake again",
        "watchdog=5",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        wait 6s
        beat 1
        tick => abort 2
        closed 1 => fallback closed; 1 opens
        opened 1 => handed-over process 1; follow all; introduce 1
        exit 2: signal 6 => return to former files; restart-refused the new forwarder (process 2) ended: it gave no sign of life and was told to abort; 1 not restarted: the new forwarder (process 2) ended: it gave no sign of life and was told to abort
        tick
        ",
    );
    check_running(
        "when it is ready, and the former one dies: a third is started",
        "watchdog=5",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        wait 6s
        beat 1
        tick => abort 2
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 3; ports 3
        exit 2: signal 6 => restart-refused the new forwarder (process 2) ended: it gave no sign of life and was told to abort
        ready 3 => fallback closed; shaped; 3 opens
        opened 3 => handed-over process 3; follow all; introduce 3; death is over; drop former files
        ",
    );
    check_running(
        "when it was told to take frames",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        wait 10s
        exit 1: exit status: 0
        after 1ms => abort 2
        after 200ms
        after 1ms => kill 2
        exit 2: signal 9 => fallback open; unshaped; death of process 2: a loop of it did not begin to take frames within 10 s, and it was told to abort; give up trial; look for ports; start 3; ports 3
        ",
    );
    check_running(
        "when it was told to take frames, for shorter than a loop may take but without a word",
        "watchdog=5",
        "
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 2; ports 2
        ready 2 => fallback closed; shaped; 2 opens
        after 6s => abort 2
        exit 2: signal 6 => fallback open; unshaped; give up trial; look for ports; start 3; ports 3
        ",
    );
}

#[test]
fn the_new_one_dies_as_the_former_one_drains() {
    let handed_over = "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        exit 2: signal 9 => fallback open; unshaped; death of process 2: signal 9; give up trial; look for ports; start 3; ports 3
        ";
    check_running(
        "and is replaced beside it",
        "",
        &format!(
            "{handed_over}
        exit 1: exit status: 0
        ready 3 => fallback closed; shaped; 3 opens
        "
        ),
    );
    check_running(
        "and so does its successor, which is replaced as well",
        "",
        &format!(
            "{handed_over}
        exit 3: signal 9 => fallback open; give up trial; look for ports; start 4; ports 4
        exit 1: exit status: 0
        ready 4 => fallback closed; shaped; 4 opens
        "
        ),
    );
}

#[test]
fn silence_of_the_keeper_is_no_silence_of_forwarders() {
    check_running(
        "and a sign of life is one, whatever it is",
        "watchdog=5",
        "
        wait 3s
        busy 5s
        beat 1
        after 5s
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        wait 6s
        beat 1
        beat 2
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        exit 1: exit status: 0
        wait 3s
        failed 2: no interface
        after 3s
        ",
    );
}

#[test]
fn a_link_without_a_forwarder_says_so() {
    let mut world = World::running("never");
    assert!(!world.link.is_without_forwarder());
    world.step("exit 1: signal 9");
    assert!(world.link.is_without_forwarder() && !world.link.is_in_motion());
    world.step("signal 15");
    assert!(!world.link.is_without_forwarder(), "it stops");
}
