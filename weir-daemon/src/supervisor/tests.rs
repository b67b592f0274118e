//! The supervisor's decisions as scripts: events of a link, and the actions that must follow.
//! `tests/world.rs` says how events and actions are written.

mod deaths;
mod invariants;
mod random;
mod readings;
mod stops;
mod world;

use world::{World, check, check_orphan, check_running};

#[test]
fn a_link_starts() {
    check(
        "where the kernel may carry the traffic",
        "",
        "
        begun => start 1; ports 1
        ready 1 => fallback closed; 1 opens
        beat 1
        opened 1 => announce 1; service ready; follow all; introduce 1; drop former files
        tick
        ",
    );
    check(
        "where nothing may pass without a forwarder",
        "closed",
        "
        ready 1: warning loose, note slow, warning hot => warning loose; warning hot; note slow; 1 opens
        opened 1 => announce 1; service ready; follow all; introduce 1; drop former files
        ",
    );
    check(
        "where the fallback cannot be closed",
        "",
        "
        answer fallback: not permitted
        ready 1 => fallback closed; warning not permitted; 1 opens
        ",
    );
    check(
        "with a forwarder that says things twice, or out of turn",
        "",
        "
        opened 1
        closed 1
        ready 1 => fallback closed; 1 opens
        ready 1
        closed 1
        opened 1 => announce 1; service ready; follow all; introduce 1; drop former files
        opened 1
        closed 1
        ready 1
        ",
    );
}

#[test]
fn a_first_forwarder_that_ends_ends_the_link() {
    check("at once", "", "exit 1: signal 9 => end: signal 9");
    check("ready", "", "ready 1 => fallback closed; 1 opens\nexit 1: signal 9 => end: signal 9");
    check(
        "with a reason, the last that it gives",
        "",
        "
        failed 1: no memory
        failed 1: no interface
        exit 1: exit status: 2 => end: no interface
        ",
    );
    check(
        "after what no forwarder says, which is a reason if there is none",
        "",
        "
        garbled 1: bad JSON => kill 1
        garbled 1: worse JSON => kill 1
        exit 1: signal 9 => end: bad JSON
        ",
    );
    check(
        "that does not open its ports",
        "",
        "
        after 60s
        after 1ms => kill 1
        after 1s => kill 1
        exit 1: signal 9 => end: it did not open its ports within 60 s
        ",
    );
    check(
        "that does not begin",
        "",
        "
        ready 1 => fallback closed; 1 opens
        after 10s
        after 1ms => abort 1
        exit 1: signal 6 => end: a loop of it did not begin to take frames within 10 s, and it was told to abort
        ",
    );
    let world = World::begin("", None);
    assert!(world.link.is_in_motion(), "it opens its ports");
    let mut world = World::running("");
    assert!(!world.link.is_in_motion(), "it forwards");
    world.step("restart 1");
    assert!(world.link.is_in_motion(), "another one opens its ports");
}

/// A restart up to the point at which both run and the new one, 2, opens its ports.
const RESTARTING: &str = "restart 1 => read; start installed 2; ports 2";

#[test]
fn a_restart_hands_the_traffic_over() {
    check_running(
        "as it should",
        "",
        "
        answer files: drain=9
        restart 1 => read; start installed 2; ports 2
        ready 2: warning loose, note slow => warning loose; 1 closes
        beat 1
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; drop former files
        ended 1: 7 => flushed 7
        exit 1: exit status: 0
        restart 2 => read; start installed 3; ports 3
        ready 3 => 2 closes
        closed 2 => 2 restarted: process 3 forwards from now on; 2 drains 9s; fallback closed; 3 opens
        opened 3 => handed-over process 3; follow all; introduce 3; drop former files
        ",
    );
    check_running(
        "where nothing may pass without a forwarder",
        "closed",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; 2 opens
        ",
    );
    check_running(
        "and what the former one says then means nothing",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        ready 1
        opened 1
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        closed 1
        opened 1
        ready 1
        closed 2
        opened 2 => handed-over process 2; follow all; introduce 2; drop former files
        exit 1: exit status: 0
        ",
    );
}

#[test]
fn a_restart_is_refused_and_the_link_goes_on() {
    check_running(
        "with files that cannot be put in force, of which the journal has one line",
        "",
        "
        answer wrong: link.toml: 1 error|error[E1]: no rate|  --> link.toml:3:1
        restart 1 => read; restart-refused link.toml:3:1: error[E1]: no rate; 1 not restarted: link.toml: 1 error|error[E1]: no rate|  --> link.toml:3:1
        answer files: closed
        restart 1 => read; start installed 2; ports 2
        ",
    );
    check_running(
        "without a process, and what was in force before stays so",
        "",
        "
        answer files: never closed
        answer start: no memory
        restart 1 => read; start installed 2; restart-refused no memory; 1 not restarted: no memory
        answer start:
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 3; ports 3
        ",
    );
    check_running(
        "as the new one ends, and what was in force before stays so",
        "",
        "
        answer files: never closed
        restart 1 => read; start installed 2; ports 2
        failed 2: no interface
        exit 2: exit status: 1 => return to former files; restart-refused the new forwarder (process 2) ended: no interface; 1 not restarted: the new forwarder (process 2) ended: no interface
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 3; ports 3
        ",
    );
    check_running(
        "as the new one ends when the former closes its intake, which opens it again",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        exit 2: signal 9 => return to former files; restart-refused the new forwarder (process 2) ended: signal 9; 1 not restarted: the new forwarder (process 2) ended: signal 9
        closed 1 => fallback closed; 1 opens
        opened 1 => handed-over process 1; follow all; introduce 1; drop former files
        restart 1 => read; start installed 3; ports 3
        ",
    );
    check_running(
        "and another one is asked for before the former has closed its intake",
        "",
        "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        exit 2: signal 9 => return to former files; restart-refused the new forwarder (process 2) ended: signal 9; 1 not restarted: the new forwarder (process 2) ended: signal 9
        restart 1 => read; start installed 3; ports 3
        closed 1 => fallback closed; 1 opens
        ready 3 => 1 closes
        opened 1
        closed 1 => 1 restarted: process 3 forwards from now on; 1 drains 2s; fallback closed; 3 opens
        ",
    );
}

#[test]
fn restarts_in_a_row_wait_for_one_another() {
    let handed_over = "
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; drop former files
        ";
    let check_after =
        |what: &str, script: &str| check_running(what, "", &(handed_over.to_owned() + script));
    check_after(
        "until the former one has ended",
        "
        restart 2
        tick
        exit 1: exit status: 0
        tick => read; start installed 3; ports 3
        tick
        ",
    );
    check_after(
        "and who has died asks for nothing",
        "
        restart 2
        exit 2: signal 9 => fallback open; unshaped; death of process 2: signal 9; give up trial; look for ports; start 3; ports 3
        exit 1: exit status: 0
        tick
        ready 3 => fallback closed; shaped; 3 opens
        opened 3 => handed-over process 3; follow all; introduce 3; death is over; drop former files
        tick
        ",
    );
    check_after(
        "nor does another process of its number",
        "
        restart 1
        exit 1: exit status: 0
        answer next: 1
        exit 2: signal 9 => fallback open; unshaped; death of process 2: signal 9; give up trial; look for ports; start 1; ports 1
        tick
        ready 1 => fallback closed; shaped; 1 opens
        opened 1 => handed-over process 1; follow all; introduce 1; death is over; drop former files
        tick
        ",
    );
    check_running(
        "and one that fails takes with it what was asked for meanwhile",
        "",
        &format!(
            "
        {RESTARTING}
        restart 1
        tick
        exit 2: signal 9 => return to former files; restart-refused the new forwarder (process 2) ended: signal 9; 1 not restarted: the new forwarder (process 2) ended: signal 9
        tick
        "
        ),
    );
    check(
        "and before it forwards a forwarder gets none",
        "",
        "
        restart 1
        tick
        ready 1 => fallback closed; 1 opens
        tick => read; start installed 2; ports 2
        opened 1 => announce 1; service ready; follow all; introduce 1
        ",
    );
}

#[test]
fn a_link_whose_keeper_died_is_taken_over() {
    check_orphan(
        "by a forwarder beside the one that it has",
        "",
        "
        begun => service ready; follow all; introduce 1; start 2; ports 2
        ready 2: note slow => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => announce 2; handed-over process 2; follow all; introduce 2; drop former files
        exit 1: it was started by another keeper
        ",
    );
    check_orphan(
        "and goes on with the one that it has where the other ends",
        "",
        "
        begun => service ready; follow all; introduce 1; start 2; ports 2
        exit 2: signal 9 => restart-refused the new forwarder (process 2) ended: signal 9; 1 not restarted: the new forwarder (process 2) ended: signal 9; announce 1
        restart 1 => read; start installed 3; ports 3
        ready 3 => 1 closes
        closed 1 => 1 restarted: process 3 forwards from now on; 1 drains 2s; fallback closed; 3 opens
        opened 3 => handed-over process 3; follow all; introduce 3; drop former files
        ",
    );
    check_orphan(
        "and its end is a death",
        "",
        "
        begun => service ready; follow all; introduce 1; start 2; ports 2
        exit 1: it was started by another keeper => fallback open; unshaped; death of process 1: it was started by another keeper; give up trial
        ready 2 => fallback closed; shaped; 2 opens
        opened 2 => announce 2; handed-over process 2; follow all; introduce 2; death is over; drop former files
        ",
    );
    check_orphan(
        "after its end, where taps can exist only once",
        "taps drain=3",
        "
        begun => service ready; follow all; introduce 1; 1 drains 3s
        tick
        restart 1
        tick
        ended 1: 2 => flushed 2
        exit 1: it was started by another keeper => start 2; ports 2
        tick
        ready 2 => fallback closed; 2 opens
        opened 2 => announce 2; handed-over process 2; follow all; introduce 2; drop former files
        ",
    );
    check_orphan(
        "after its end by force, if it drains for too long",
        "taps drain=3",
        "
        after 5s
        after 1ms => kill 1
        answer start: no memory
        exit 1: it was started by another keeper => start 2; end: no memory
        ",
    );
}

#[test]
fn a_link_that_cannot_start_a_forwarder_ends() {
    check_running(
        "in place of one that died",
        "",
        "
        answer start: no memory
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 2; end: no memory
        ",
    );
}

#[test]
fn signals_are_passed_on() {
    check_running(
        "to all, or to the one that carries the traffic",
        "",
        "
        hup => hung-up; 1 reads
        usr1 => 1 marks
        restart 1 => read; start installed 2; ports 2
        usr1 => 1 marks; 2 marks
        hup => hung-up; 1 reads
        ready 2 => 1 closes
        hup => hung-up; 1 reads
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        hup => hung-up; 2 reads
        ",
    );
    check(
        "or to none",
        "",
        "
        hup => hung-up
        usr1 => 1 marks
        ",
    );
}

#[test]
fn the_gateway_and_reservations_follow_the_deployment() {
    check(
        "from the first forwarder on, and the forwarder is introduced after that",
        "",
        "
        answer gateway: other
        answer rsvp: other
        ready 1 => fallback closed; 1 opens
        opened 1 => announce 1; service ready; follow gateway; start gateway; announce gateway; follow rsvp; start rsvp; follow circuits; introduce 1; drop former files
        answer gateway: same
        answer rsvp: same
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; drop former files
        exit 1: exit status: 0
        answer gateway: other
        answer rsvp: unwanted
        restart 2 => read; start installed 3; ports 3
        ready 3 => 2 closes
        closed 2 => 2 restarted: process 3 forwards from now on; 2 drains 2s; fallback closed; 3 opens
        opened 3 => handed-over process 3; follow gateway; start gateway; announce gateway; follow rsvp; follow circuits; introduce 3; drop former files
        ",
    );
    check(
        "and the link goes on without them",
        "",
        "
        answer gateway: no address
        answer rsvp: other
        answer companion: no memory
        ready 1 => fallback closed; 1 opens
        opened 1 => announce 1; service ready; follow gateway; warning there is no page and no API: no address; follow rsvp; start rsvp; warning there are no reservations: no memory; rsvp is missing: no memory; follow circuits; introduce 1; drop former files
        after 2s
        answer gateway: same
        answer rsvp: same
        answer companion:
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => handed-over process 2; follow gateway; start gateway; announce gateway; follow rsvp; start rsvp; rsvp is back; follow circuits; introduce 2; drop former files
        ",
    );
}

/// A link with a gateway and reservations, both of which run.
const WITH_BOTH: &str = "
    answer gateway: other
    answer rsvp: other
    ready 1 => fallback closed; 1 opens
    opened 1 => announce 1; service ready; follow gateway; start gateway; announce gateway; follow rsvp; start rsvp; follow circuits; introduce 1; drop former files
    answer gateway: same
    answer rsvp: same
    ";

#[test]
fn a_gateway_that_died_is_started_again() {
    let check = |what: &str, script: &str| check(what, "", &(WITH_BOTH.to_owned() + script));
    check(
        "after a second, five times a minute",
        "
        exit gateway 51: signal 9 => gateway is missing: process 51: signal 9; it is started again
        after 999ms
        after 1ms => start gateway; gateway is back
        exit gateway 52: signal 9 => gateway is missing: process 52: signal 9; it is started again
        after 1s => start gateway; gateway is back
        exit gateway 53: signal 9 => gateway is missing: process 53: signal 9; it is started again
        after 1s => start gateway; gateway is back
        exit gateway 54: signal 9 => gateway is missing: process 54: signal 9; it is started again
        after 1s => start gateway; gateway is back
        exit gateway 55: signal 9 => gateway is missing: process 55: signal 9; it is started again
        after 1s => start gateway; gateway is back
        after 2s
        exit gateway 56: signal 9 => gateway is missing: process 56: signal 9; 5 were started within 60 s; `weir restart` tries again
        after 1s
        ",
    );
    check(
        "unless that fails",
        "
        exit gateway 51: signal 9 => gateway is missing: process 51: signal 9; it is started again
        answer companion: no memory
        after 1s => start gateway; gateway is missing: no memory
        after 1s
        ",
    );
    check(
        "at once when a deployment is read, also if it is the same",
        "
        exit gateway 51: signal 9 => gateway is missing: process 51: signal 9; it is started again
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => handed-over process 2; follow gateway; start gateway; announce gateway; gateway is back; follow rsvp; follow circuits; introduce 2; drop former files
        after 1s
        ",
    );
    check(
        "unless the deployment does not want it any more",
        "
        exit gateway 51: signal 9 => gateway is missing: process 51: signal 9; it is started again
        answer gateway: unwanted
        restart 1 => read; start installed 2; ports 2
        ready 2 => 1 closes
        closed 1 => 1 restarted: process 2 forwards from now on; 1 drains 2s; fallback closed; 2 opens
        opened 2 => handed-over process 2; follow gateway; gateway is back; follow rsvp; follow circuits; introduce 2; drop former files
        after 1s
        ",
    );
}

#[test]
fn reservations_that_died_are_started_again_and_clients_are_notified() {
    let check = |what: &str, script: &str| check(what, "", &(WITH_BOTH.to_owned() + script));
    check(
        "after a second, and the forwarder is introduced",
        "
        happened: of 10.0.0.1 => reservation-admitted of 10.0.0.1 (told 1)
        exit rsvp 61: signal 9 => rsvp is missing: process 61: signal 9; it is started again
        after 999ms
        after 1ms => start rsvp; introduce 1; rsvp is back
        ",
    );
    check(
        "and tried again each five seconds, where an interface is away for a while, told once",
        "
        answer companion: no interface
        exit rsvp 61: signal 9 => rsvp is missing: process 61: signal 9; it is started again
        after 1s => start rsvp; rsvp is missing: no interface
        after 4999ms
        after 1ms => start rsvp
        answer companion:
        after 5s => start rsvp; introduce 1; rsvp is back
        ",
    );
    check(
        "while no forwarder carries traffic: then none can be told or introduced",
        "
        exit 1: signal 9 => fallback open; unshaped; death of process 1: signal 9; give up trial; look for ports; start 2; ports 2
        happened: of 10.0.0.1 => reservation-admitted of 10.0.0.1
        exit rsvp 61: signal 9 => rsvp is missing: process 61: signal 9; it is started again
        exit gateway 51: signal 9 => gateway is missing: process 51: signal 9; it is started again
        after 1s => start gateway; gateway is back; start rsvp; rsvp is back
        ready 2 => fallback closed; shaped; 2 opens
        opened 2 => handed-over process 2; follow all; introduce 2; death is over; drop former files
        ",
    );
}

#[test]
fn a_companion_that_hangs_is_ended_and_started_again() {
    let check = |what: &str, script: &str| check(what, "", &(WITH_BOTH.to_owned() + script));
    check(
        "when it gives no sign of life, however late the keeper listens",
        "
        after 60s
        alive gateway
        alive rsvp
        after 15s
        alive rsvp
        after 1ms => end gateway: it hangs: it gave no sign of life for 15 s
        after 2s
        exit gateway 51: it hangs => gateway is missing: process 51: it hangs; it is started again
        after 1s => start gateway; gateway is back
        alive rsvp
        after 16s => end rsvp: it hangs: it gave no sign of life for 15 s
        ",
    );
    check(
        "when it gives none after its start",
        "
        after 60s
        alive rsvp
        after 1ms => end gateway: it hangs: it gave no sign of life for 15 s
        ",
    );
}
