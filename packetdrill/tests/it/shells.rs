//! Shell commands set sysctls, and nothing is run.

use weir_packetdrill::defaults::{Effect, Sysctls};

#[test]
fn commands_set_values() {
    let rows = [
        ("sysctl -q net.ipv4.tcp_ecn=2    # agreed", "tcp_ecn", vec![2]),
        ("../common/defaults.sh\n sysctl -q net/ipv4/tcp_ecn=1", "tcp_ecn", vec![1]),
        (
            "a/set_sysctls.py /proc/sys/net/ipv4/tcp_sack=0 \\\n  /p/tcp_dsack=0",
            "tcp_dsack",
            vec![0],
        ),
        ("sysctl -w net.ipv4.tcp_rmem=\"1 2 3\"", "tcp_rmem", vec![1, 2, 3]),
        ("echo 3 > /sys/module/tcp_cubic/parameters/hystart_detect", "hystart_detect", vec![3]),
    ];
    for (command, name, expected) in rows {
        let mut sysctls = Sysctls::default();
        assert_eq!(sysctls.shell(command), [], "{command}");
        assert_eq!(sysctls.numbers(name), expected, "{command}");
    }
}

#[test]
fn defaults_come_back() {
    let mut sysctls = Sysctls::default();
    sysctls.shell("sysctl net.ipv4.tcp_ecn=1");
    sysctls.shell("../../common/defaults.sh");
    assert_eq!(sysctls, Sysctls::default());
}

#[test]
fn other_commands_have_effects() {
    let rows = [
        ("tc qdisc replace dev tun0 root pfifo limit 0", Effect::DropAll),
        ("tc qdisc replace dev tun0 root fq", Effect::FairQueue),
        ("ethtool -K tun0 tso off gso off", Effect::NoOffload),
        ("ip route change here mtu 9", Effect::Unknown("ip route change here mtu 9".to_owned())),
    ];
    for (command, expected) in rows {
        assert_eq!(Sysctls::default().shell(command), [expected], "{command}");
    }
    assert_eq!(Sysctls::default().shell("ip tcp_metrics flush all > /dev/null 2>&1"), []);
}
