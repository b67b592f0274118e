//! The schema of deployments.

use super::{closed, object, quantity};
use serde_json::{Value, json};
use weir_core::units::Dimension;

/// Builds the schema of a deployment.
pub fn schema() -> Value {
    let mut deployment = closed(object(settings()));
    deployment["required"] = json!(["ports"]);
    let mut direction = closed(object(direction()));
    direction["required"] = json!(["from", "to", "policy"]);
    let mut schema = closed(object(json!({
        "deployment": deployment,
        "direction": {
            "type": "object", "minProperties": 1, "maxProperties": 2,
            "additionalProperties": direction,
        },
    })));
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Weir deployment");
    schema["required"] = json!(["deployment", "direction"]);
    schema
}

/// Keys of `[deployment]`.
pub fn settings() -> Value {
    let mut lag_max = quantity(&[Dimension::Duration], "A longer stall is not made up for.");
    lag_max["default"] = json!("100 ms");
    lag_max["$comment"] = json!("1 ms to 10 s");
    let mut pool = quantity(&[Dimension::Packets], "Frames that both directions hold together.");
    pool["default"] = json!("16384 packets");
    pool["$comment"] = json!("64 to 1048576 packets");
    json!({
        "name": {
            "type": "string", "minLength": 1, "default": "the name of the file",
            "description": "The name in `weir status`.",
        },
        "ports": {
            "type": "object", "minProperties": 2, "maxProperties": 2,
            "additionalProperties": { "type": "string", "pattern": r"^[!-.0-~]{1,15}$" },
            "description": "Two names for rules and directions, each with its Linux interface.",
        },
        "wait": {
            "enum": ["hybrid", "block", "spin"], "default": "hybrid",
            "description": "Until when the loop sleeps: shortly before a deadline, or the \
                deadline, or not at all.",
        },
        "cpu": {
            "type": "integer", "minimum": 0, "maximum": 4095, "default": "the system's choice",
            "description": "The processor to run on.",
        },
        "control": {
            "type": "string", "minLength": 1, "default": "made from the name",
            "description": "The socket for `weir status`.",
        },
        "lag_max": lag_max,
        "pool": pool,
    })
}

/// Keys of `[direction.NAME]`.
pub fn direction() -> Value {
    let text = |what: &str| json!({ "type": "string", "minLength": 1, "description": what });
    json!({
        "from": text("The port where frames come in."),
        "to": text("The port where frames leave; the other one."),
        "policy": text("The file of the policy, relative to this one."),
    })
}
