//! LibreQoS's own files.

use super::{CLOSE, KEPT, LOST, check};
use weir_import::import::{self, Options};

const HEADER: &str = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,Parent Node ID,\
                      Anchor Node ID,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,\
                      Download Max Mbps,Upload Max Mbps,Comment";

#[test]
fn rows_of_shaped_devices() {
    let rows = [
        (
            "2,\"b\",1,d,,,\"100.64.0.3, 100.64.0.4/31\",2001:db8::/56,0.5,1,2.5,20,",
            KEPT,
            "",
            "[class.circuit-2]; parent = 'link'; rate = '500 kbit/s'; ceil = '2.5 Mbit/s'; prio = 3; queue = { dropper = 'fq-codel' }; match = [;     { dst = ['100.64.0.3', '100.64.0.4/31', '2001:db8::/56'] },; ]",
        ),
        ("1,a,2,d,,,100.64.0.9,,1,1,5,5,", KEPT, "", "src = ['100.64.0.1', '100.64.0.9']"),
        ("2,b,1,d,AP_X,,100.64.0.3,,1,1,5,5,", CLOSE, "has node `AP_X`", "parent = 'AP_X'"),
        ("2,b,1,d,,,,,1,1,5,5,", LOST, "no address of its own", "!circuit-2"),
        ("2,b,1,d,,,100.64.0.1,,1,1,5,5,", LOST, "belongs to circuit `1`", "!circuit-2"),
        ("2,b,1,d,,,100.64.0.3,,1,1,x,5,", LOST, "not two rates", "!circuit-2"),
        ("2,b", LOST, "a row of 2 cells", "!circuit-2"),
    ];
    let first = "1,a,1,d,,,100.64.0.1,,1,1,5,5,";
    let bare = HEADER.replace(" Mbps", "");
    for header in ["# the list of today", HEADER, bare.as_str()] {
        check("libreqos", &format!("{header}\n{first}\n@\n"), &rows);
    }
}

/// Checks a part of the policy for downloads of two circuits below nodes.
fn check_network(network: &str, wanted: &str) {
    let list = format!("{HEADER}\n1,a,1,d,AP_A,,100.64.0.1,,1,1,5,5,\n");
    let options = Options { network: Some(network.to_owned()), ..Options::default() };
    let language = import::find("libreqos").expect("it is a language");
    let outcome = import::read(language, list.as_bytes(), "f", &options);
    let import = outcome.plan.unwrap_or_else(|| panic!("{:#?}", outcome.findings));
    let policy = import.policies[0].policy.replace('"', "'").replace('\n', "; ");
    assert!(policy.contains(wanted), "{network}: {wanted}\nin {policy}");
}

#[test]
fn nodes_of_network_json() {
    let site = r#"{"S": {"downloadBandwidthMbps": 900, "uploadBandwidthMbps": 800, "children":
        {"AP_A": {"downloadBandwidthMbps": 500, "uploadBandwidthMbps": 1.5}}}}"#;
    let below = "[class.S]; parent = 'link'; rate = '900 Mbit/s'; ; [class.AP_A]; parent = 'S'; rate = '500 Mbit/s'; ; [class.circuit-1]; parent = 'AP_A'; ";
    check_network(site, below);
    // A node has no more than its parent, and a virtual one is none.
    check_network(&site.replace("500", "5000"), "parent = 'S'; rate = '900 Mbit/s'; ");
    let is_virtual = site.replacen("\"children\"", "\"virtual\": true, \"children\"", 1);
    check_network(&is_virtual, "[class.AP_A]; parent = 'link'; rate = '500 Mbit/s'; ");
    check_network("{}", "[class.AP_A]; parent = 'link'; rate = '1 Gbit/s'; ");
}

/// The policy refuses an address of a row; the finding is at that row.
#[test]
fn what_the_policy_refuses_is_told_where_it_stands() {
    let rows = "1,a,1,d,,,100.64.0.1,,1,1,5,5,\n2,b,2,d,,,100.64.0.5/24,,1,1,5,5,";
    let language = import::find("libreqos").expect("it is a language");
    let text = format!("{HEADER}\n{rows}\n");
    let outcome = import::read(language, text.as_bytes(), "f", &Options::default());
    let found = outcome.findings.iter().find(|found| found.code == "W407");
    assert_eq!(found.map(|found| found.place.line), Some(3), "{:#?}", outcome.findings);
}
