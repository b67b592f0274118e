//! The assertions of the supervisor about itself, and about the shell.

use super::world::World;
use crate::supervisor::interface::{Event, Pid};
use crate::supervisor::{Phase, State};
use std::time::Instant;

/// A running link whose supervisor was made to be wrong notices that at the next event.
fn check(change: fn(&mut World)) {
    let mut world = World::running("");
    world.step("restart 1");
    change(&mut world);
    world.step("tick");
}

#[test]
#[should_panic(expected = "two forwarders take frames")]
fn two_forwarders_do_not_take_frames() {
    check(|world| world.link.forwarders[1].enter(world.now, Phase::Taking));
}

#[test]
#[should_panic(expected = "the fallback is open beside")]
fn the_fallback_is_not_open_beside_a_forwarder() {
    check(|world| world.link.is_fallback_open = true);
}

#[test]
#[should_panic(expected = "another one takes frames than the state says")]
fn the_state_names_the_forwarder_that_takes_frames() {
    check(|world| world.link.state = State::HandingOver { from: Pid(2), to: Pid(1) });
}

#[test]
#[should_panic(expected = "it names one that ended")]
fn the_state_names_forwarders_that_run() {
    check(|world| world.link.state = State::HandingOver { from: Pid(1), to: Pid(3) });
}

#[test]
#[should_panic(expected = "it names one that ended")]
fn the_state_names_a_former_forwarder_that_runs() {
    check(|world| {
        world.link.forwarders.remove(0);
    });
}

#[test]
#[should_panic(expected = "process 7 is no forwarder that runs")]
fn an_event_names_a_forwarder_that_runs() {
    World::running("").step("ready 7");
}

#[test]
#[should_panic(expected = "Finished")]
fn nothing_happens_after_the_end() {
    let mut world = World::begin("", None);
    world.step("exit 1: signal 9");
    world.step("tick");
}

/// A supervisor that has asked a question gets the answer first.
fn unanswered(script: &[&str], event: Event) {
    let mut world = World::running("");
    script.iter().for_each(|line| world.step(line));
    world.link.handle(world.now, event);
    world.link.handle(world.now, Event::Tick { heard: world.now });
}

#[test]
#[should_panic(expected = "LookingForPorts")]
fn a_look_for_ports_is_answered_first() {
    unanswered(&[], Event::Exited(Pid(1), "signal 9".to_owned()));
}

#[test]
#[should_panic(expected = "Launching")]
fn a_start_is_answered_first() {
    let mut world = World::running("");
    world.link.state = State::AwaitingEnd(Pid(1));
    world.link.handle(world.now, Event::Exited(Pid(1), "signal 9".to_owned()));
    world.link.handle(world.now, Event::Poll);
}

#[test]
#[should_panic(expected = "Restarting")]
fn a_reading_of_files_is_answered_first() {
    let said = crate::supervisor::interface::Said::Restart;
    unanswered(&[], Event::Said(Pid(1), said));
}

#[test]
#[should_panic(expected = "HandingOver")]
fn whether_ports_may_be_opened_is_answered_first() {
    let said = crate::supervisor::interface::Said::Read(Ok(()));
    unanswered(&["answer policies: slow", "restart 1"], Event::Said(Pid(2), said));
}

/// Actions that wait are carried out after what follows from an answer.
#[test]
fn what_follows_from_an_answer_comes_first() {
    let mut world = World::running("");
    let now = Instant::now().max(world.now);
    world.link.handle(now, Event::Exited(Pid(1), "signal 9".to_owned()));
    let first = world.link.next_action();
    assert!(format!("{first:?}").contains("Fallback(true)"), "{first:?}");
    world.link.handle(now, Event::FallbackSet(true, Ok(())));
    let wanted = ["Begin(Fallback", "Begin(Death", "GiveUpTrial", "LookForPorts"];
    for wanted in wanted {
        let next = format!("{:?}", world.link.next_action());
        assert!(next.contains(wanted), "{next}, not {wanted}");
    }
    assert_eq!(world.link.next_action(), None);
}
