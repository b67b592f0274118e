//! A calibration of a host, as a report says that it was in force.

use serde_json::{Value, json};
use weir_sim::host::{self, Calibrated};

fn check(text: &str, said: &str, expected: &Value) {
    let host = host::parse(format!("[host]\n{text}").as_bytes(), "host.toml").plan;
    let file = "host.toml".to_owned();
    let calibrated = Calibrated { file, host: host.expect("it has no errors") };
    assert_eq!(calibrated.to_string(), said);
    assert_eq!(&serde_json::to_value(&calibrated).expect("its keys are texts"), expected);
}

#[test]
fn a_calibration_says_what_it_adds_and_no_more() {
    let file = "host.toml";
    check("", "host.toml: adds nothing", &json!({ "file": file }));
    check(
        "forward = '90 us'\nback = '0 us'\nwindow = '3 MB'\n",
        "host.toml: forward 90 us, window 3 MB",
        &json!({ "file": file, "forward_us": 90.0, "window_bytes": 3_000_000 }),
    );
    check(
        "port = '40 us'\nback = '1500 ns'\nquick_acks = 16\ntimestamps = false\n",
        "host.toml: port 40 us, back 1.5 us, quick_acks 16, timestamps false",
        &json!({
            "file": file, "port_us": 40.0, "back_us": 1.5, "quick_acks": 16, "timestamps": false,
        }),
    );
}
