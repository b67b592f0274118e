//! The schema of deployments.

use super::{closed, object, quantity};
use serde_json::{Value, json};
use weir_core::units::Dimension;
use weir_policy::deployment::PORT_KINDS;

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
    let lag_max = quantity(&[Dimension::Duration], "A longer stall is not made up for.");
    let cpu = json!({ "type": "integer", "minimum": 0, "maximum": CPU_MAX });
    let word = |words: &[&str], what: &str| described(json!({ "enum": words }), words[0], what);
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
    let delay = quantity(&[Dimension::Duration], "How much later each frame leaves by it.");
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
