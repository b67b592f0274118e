//! The schema of deployments.

use super::{closed, object, quantity};
use serde_json::{Value, json};
use weir_core::units::Dimension;
use weir_policy::deployment::{ALARMS_MAX, INTERFACES_MAX, PORT_KINDS, SESSIONS_MAX};

/// Builds the schema of a deployment.
pub fn schema() -> Value {
    let mut deployment = closed(object(settings()));
    deployment["required"] = json!(["ports"]);
    let mut direction = closed(object(direction()));
    direction["required"] = json!(["from", "to", "policy"]);
    let mut schema = closed(object(json!({
        "deployment": deployment,
        "direction": {
            "type": "object", "maxProperties": 64, "additionalProperties": direction,
        },
    })));
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Weir deployment");
    schema["required"] = json!(["deployment"]);
    schema
}

/// Keys of `[deployment]`.
pub fn settings() -> Value {
    let mut settings = link_settings();
    let (Value::Object(all), Value::Object(more)) = (&mut settings, service()) else {
        unreachable!("both are objects");
    };
    all.extend(more);
    let mut alarm = closed(object(alarm()));
    alarm["required"] = json!(["when"]);
    all.insert(
        "alarm".into(),
        json!({
            "type": "object", "maxProperties": ALARMS_MAX, "additionalProperties": alarm,
            "default": "none",
            "description": "Tables `[deployment.alarm.NAME]`, see below.",
        }),
    );
    let mut api = closed(object(api()));
    api["required"] = json!(["listen", "token_file"]);
    let what = "A table `[deployment.api]`, see below.";
    all.insert("api".into(), described(api, "none", what));
    let mut rsvp = closed(object(rsvp()));
    rsvp["required"] = json!(["class"]);
    let what = "A table `[deployment.rsvp]`, see below.";
    all.insert("rsvp".into(), described(rsvp, "none", what));
    settings
}

/// Keys of `[deployment]` about its links.
fn link_settings() -> Value {
    let lag_max = quantity(&[Dimension::Duration], "A longer stall is not made up for.");
    let cpu = json!({ "type": "integer", "minimum": 0, "maximum": CPU_MAX });
    json!({
        "name": {
            "type": "string", "minLength": 1, "default": "the name of the file",
            "description": "The name in `weir status`.",
        },
        "ports": ports(),
        "wait": word(
            &["hybrid", "block", "spin"],
            "Until when the loop sleeps: shortly before a deadline, or the deadline, or not at \
                all.",
        ),
        "cpu": described(
            cpu.clone(),
            "the system's choice",
            "The processor to run on, for one bridge.",
        ),
        "cpus": described(
            json!({ "type": "array", "items": cpu }), "the system's choice",
            "The processors to run on: one a bridge, in the order of the bridges' first ports.",
        ),
        "nice": described(
            json!({ "type": "integer", "minimum": -20, "maximum": 19 }),
            "-20 if the process may",
            "The niceness of the bridges' threads; lower runs first.",
        ),
        "control": {
            "type": "string", "minLength": 1, "default": "made from the name",
            "description": "The socket for `weir status`.",
        },
        "lag_max": ranged(lag_max, "100 ms", "1 ms to 10 s"),
        "pool": pool("8192 packets", "Frames that each direction holds, unless it says otherwise."),
        "receive_ring": ranged(
            quantity(
                &[Dimension::Packets],
                "Frames that the first receive ring of each port holds, rounded up to a power of \
                    two; a link that waits longer for its processor loses frames there.",
            ),
            "2048 packets",
            "256 to 65536 packets",
        ),
        "sojourn_max": sojourn_max("As in a direction, for all that do not write it."),
        "carrier": word(
            &["keep", "pass"],
            "What the other ports of a bridge do when one loses its carrier: keep theirs, or lose \
                it too.",
        ),
        "take": {
            "type": "boolean", "default": false,
            "description": "Takes interfaces that have addresses or routes, which then stop \
                working.",
        },
    })
}

/// Keys of `[deployment]` about its processes.
fn service() -> Value {
    let drain = "How long what waits is still sent when Weir is to end or starts anew; the rest is \
                 dropped and counted.";
    let drain = quantity(&[Dimension::Duration], drain);
    let patience = quantity(&[Dimension::Duration], "");
    let patience =
        json!({ "anyOf": [{ "const": "forever" }, ranged_bare(patience, "0 s to 24 h")] });
    let watchdog = quantity(&[Dimension::Duration], "");
    let watchdog =
        json!({ "anyOf": [{ "const": "none" }, ranged_bare(watchdog, "200 ms to 60 s")] });
    json!({
        "on_exit": described(
            json!({ "enum": ["closed", "open"] }), "closed; open with `host`",
            "What becomes of traffic while the process that forwards is dead: nothing passes, \
                or the kernel carries it on, unshaped, from a few milliseconds after the death. \
                A stop that you ask for ends the traffic all the same. `open` takes Linux 6.6 \
                and root.",
        ),
        "drain": ranged(drain, "200 ms", "0 s to 10 s"),
        "restart": word(&["always", "never"], "Whether a forwarder that died is started again."),
        "wait_for_ports": described(
            patience, "0 s",
            "How long interfaces that do not exist yet are waited for at the start.",
        ),
        "watchdog": described(
            watchdog, "2 s",
            "A forwarder that gives no sign of life for so long is killed, as if it had died.",
        ),
        "user": described(
            json!({ "type": "string", "pattern": "^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,31}$" }),
            "a number of the link's own",
            "The user as which the forwarder runs, where Weir was started by root. Unless it is \
                written, it is a number above 1 879 048 192 that belongs to no other program.",
        ),
        "control_group": described(
            json!({ "type": "string", "pattern": "^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,31}$" }), "none",
            "A group whose members may use `weir status`, beside root and the user who runs Weir.",
        ),
        "priority": word(
            &["normal", "realtime"],
            "The scheduling class of the threads that forward: that of other programs, with \
                `nice`, or one before all of them.",
        ),
        "log": {
            "type": "string", "minLength": 1, "default": "none",
            "description": "A file to which events are appended, too; relative to the folder of \
                            the deployment.",
        },
        "ring": ranged(
            quantity(
                &[Dimension::Bytes],
                "How much is kept of what the link did of late, for `weir snapshot`; in memory.",
            ),
            "nothing; 64 MiB with `web`", "8 MiB to 4 GiB",
        ),
        "web": {
            "type": "string", "examples": ["127.0.0.1:8480"], "default": "none",
            "description": "The address of a page that shows the link in a browser and tunes it \
                (`weir view NAME` says how to open it). Tokens and certificate are those of \
                `[deployment.api]`, if there is one; without a certificate only this machine \
                reaches it.",
        },
    })
}

/// Keys of `[deployment.alarm.NAME]`.
pub fn alarm() -> Value {
    let lasts = "How long the condition holds before the alarm is raised.";
    let lasts = quantity(&[Dimension::Duration], lasts);
    json!({
        "when": {
            "type": "string", "examples": ["voice.delay.p99 > 10 ms"],
            "description": "The trouble, in the words of a promise; what the class did is measured \
                second by second.",
        },
        "direction": {
            "type": "string", "minLength": 1, "default": "each that has the class",
            "description": "Where the class is watched.",
        },
        "for": ranged(lasts, "10 s", "1 s to 1 h"),
        "run": described(
            json!({
                "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 64,
            }),
            "none", "A program, with its whole path, and its arguments, to run.",
        ),
        "webhook": {
            "type": "string", "pattern": "^http://[!-~]+$", "examples": ["http://192.0.2.1/alarm"],
            "default": "none", "description": "An address that is told by a POST.",
        },
    })
}

/// Keys of `[deployment.api]`.
pub fn api() -> Value {
    let file = |default: Option<&str>, what: &str| {
        let mut file = json!({ "type": "string", "minLength": 1, "description": what });
        if let Some(default) = default {
            file["default"] = json!(default);
        }
        file
    };
    json!({
        "listen": {
            "type": "string", "examples": ["127.0.0.1:8480"],
            "description": "The address and port. One that others can reach takes a certificate.",
        },
        "token_file": file(
            None,
            "A file with the token that allows everything, of at least 32 characters; others may \
             not read it. Relative to the folder of the deployment, as the other files.",
        ),
        "read_token_file": file(Some("none"), "A file with a token that only allows to read."),
        "certificate": file(
            Some("none"),
            "A file with the certificate, and those of its issuers, in PEM. With it, clients use \
             TLS 1.3.",
        ),
        "key": file(Some("none"), "A file with the certificate's key in PEM."),
        "hosts": described(
            json!({
                "type": "array", "items": { "type": "string", "pattern": "^[A-Za-z0-9.-]+$" },
            }),
            "none",
            "Names by which clients may call it, beside its address and `localhost`.",
        ),
    })
}

/// Keys of `[deployment.rsvp]`.
pub fn rsvp() -> Value {
    let time = |what: &str| quantity(&[Dimension::Duration], what);
    let count = |default: &str, what: &str| {
        let count = json!({ "type": "integer", "minimum": 1, "maximum": SESSIONS_MAX });
        described(count, default, what)
    };
    let flag = |what: &str| json!({ "type": "boolean", "default": false, "description": what });
    let mut rate = quantity(&[Dimension::Rate], "Their rates together.");
    rate["default"] = json!("no limit");
    let neighbour = closed(object(json!({
        "rate": rate, "count": count("no limit", "Their number."),
    })));
    json!({
        "class": {
            "type": "string", "minLength": 1,
            "description": "The class whose `places` reservations take, with its `rate` for all of \
                them.",
        },
        "direction": {
            "type": "string", "minLength": 1,
            "default": "the first that ends at `wire`, or the only one of a bridge",
            "description": "The direction whose policy has the class. On a bridge it begins at all \
                ports but the one where it ends.",
        },
        "excess": word(
            &["best-effort", "police"],
            "What packets beyond a reservation get: what is free, or nothing. For `police` the \
                class gets its rate and no more, and its queue holds one burst.",
        ),
        "delay": ranged(
            time("The term D: how much later than in a pipe of its rate a packet may leave, beside \
                C/R. What breaks it for a guaranteed reservation is refused."),
            "what a reservation alone gets", "1 us to 10 s",
        ),
        "neighbour": described(
            neighbour, "no limit", "What the reservations that one next hop asks for may have.",
        ),
        "preemption": flag(
            "Whether a reservation takes the place of others that defend themselves with a lower \
             priority.",
        ),
        "refresh": ranged(time("How often neighbours are told anew."), "30 s", "100 ms to 1 h"),
        "reduction": flag(
            "Whether all neighbours understand message identifiers and summary refreshes.",
        ),
        "sessions": count("65536", "The most sessions."),
        "interfaces": described(
            json!({
                "type": "array", "items": interface(), "minItems": 1, "maxItems": INTERFACES_MAX,
            }),
            "all that have an address", "The interfaces by which RSVP is spoken.",
        ),
        "key_file": {
            "type": "string", "minLength": 1, "default": "none: messages are not signed",
            "description": "A file with the keys that sign messages, which others may not read. \
                Relative to the folder of the deployment.",
        },
        "address": {
            "type": "string", "format": "ipv4", "default": "none: `host` has its own",
            "description": "On a bridge, and only there: its IPv4 address as a hop of RSVP. One of \
                the network that is bridged, which nothing else has.",
        },
    })
}

fn ports() -> Value {
    let mut port = closed(object(port()));
    port["required"] = json!(["interface"]);
    let port = json!({ "anyOf": [interface(), port] });
    let several = json!({
        "type": "object", "minProperties": 2, "maxProperties": 64, "additionalProperties": port,
    });
    let host = json!({
        "type": "object", "properties": { "host": port }, "required": ["host"],
        "additionalProperties": false,
    });
    json!({
        "anyOf": [several, host],
        "description": "Names for rules and directions, each with its Linux interface or a table; \
            2 to 8 a bridge, at most 64. Or `host` alone: the traffic of this machine, whose \
            directions join `host` and `wire`.",
    })
}

/// Keys of a port that is a table.
pub fn port() -> Value {
    let delay = quantity(
        &[Dimension::Duration],
        "How much later each frame leaves by it. At most 32 768 frames wait for that; further ones \
         are lost as `busy port`.",
    );
    let mut loss =
        quantity(&[Dimension::Share], "The part of the frames that are lost instead of leaving.");
    loss["default"] = json!("0 %");
    json!({
        "interface": interface(),
        "kind": {
            "enum": PORT_KINDS, "default": PORT_KINDS[0],
            "description": "How frames are exchanged with it. `auto` takes `afxdp` for a network \
                card with one receive queue where that works, else `afpacket`; with `host` there \
                is no other.",
        },
        "delay": ranged(delay, "0 s", "at most 10 s"),
        "loss": loss,
        "seed": {
            "type": "integer", "minimum": 0, "default": "its number among the ports",
            "description": "The seed of the random numbers that choose lost frames.",
        },
    })
}

fn interface() -> Value {
    json!({
        "type": "string", "pattern": r"^[!-.0-~]{1,15}$", "description": "The Linux interface.",
    })
}

/// Keys of `[direction.NAME]`.
pub fn direction() -> Value {
    let text = |what: &str| json!({ "type": "string", "minLength": 1, "description": what });
    let several = json!({ "type": "array", "items": text(""), "minItems": 1 });
    json!({
        "from": {
            "anyOf": [text(""), several],
            "description": "The port where frames come in, or several whose frames share the \
                policy.",
        },
        "to": text("The port where frames leave; another one."),
        "policy": text("The file of the policy, relative to this one."),
        "pool": pool("that of `[deployment]`", "Frames that the direction holds."),
        "sojourn_max": sojourn_max(
            "After a stall, packets that waited longer are dropped as stale; `none`: no packet is.",
        ),
    })
}

fn pool(default: &str, what: &str) -> Value {
    ranged(quantity(&[Dimension::Packets], what), default, "64 to 1048576 packets")
}

fn sojourn_max(what: &str) -> Value {
    let time = quantity(&[Dimension::Duration], "");
    let time = json!({ "anyOf": [{ "const": "none" }, ranged_bare(time, "10 ms to 1 h")] });
    described(time, "what the policy bounds, at least 1 s", what)
}

fn word(words: &[&str], what: &str) -> Value {
    described(json!({ "enum": words }), words[0], what)
}

fn described(mut schema: Value, default: &str, what: &str) -> Value {
    schema["default"] = json!(default);
    schema["description"] = json!(what);
    schema
}

fn ranged(schema: Value, default: &str, range: &str) -> Value {
    let mut schema = ranged_bare(schema, range);
    schema["default"] = json!(default);
    schema
}

fn ranged_bare(mut schema: Value, range: &str) -> Value {
    schema["$comment"] = json!(range);
    schema
}

const CPU_MAX: u32 = 4095;
