//! Assertions are computed as Python does.

use weir_packetdrill::expression::{Trouble, Variables, fields};

fn run(code: &str) -> Result<(), Trouble> {
    let known = |name: &str| match name {
        "tcpi_snd_cwnd" => Some(10),
        "tcpi_ca_state" => Some(3),
        _ => None,
    };
    Variables::default().run(code, &known)
}

#[test]
fn true_assertions_hold() {
    let rows = [
        "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd",
        "assert tcpi_ca_state == TCP_CA_Recovery, 'state; %d' % tcpi_ca_state",
        "assert 9 <= tcpi_snd_cwnd <= 11 # near",
        "w = 5; w += 2; assert w * 2 - 4 == tcpi_snd_cwnd",
        "print(tcpi_snd_cwnd); assert not tcpi_snd_cwnd < 10 and 7 // 2 == 3",
        "assert (tcpi_snd_cwnd >> 1) == 0x5 or False, \\\n 'message'",
        "assert 7 & 3 == 3 or -2 % 5 == 3",
    ];
    for code in rows {
        assert_eq!(run(code), Ok(()), "{code}");
    }
}

#[test]
fn false_ones_say_what_is() {
    let expected = "tcpi_snd_cwnd == 9: tcpi_snd_cwnd is 10".to_owned();
    assert_eq!(run("assert tcpi_snd_cwnd == 9, tcpi_snd_cwnd"), Err(Trouble::False(expected)));
    let expected = "1 <= tcpi_snd_cwnd <= 5: tcpi_snd_cwnd is 10".to_owned();
    assert_eq!(run("assert 1 <= tcpi_snd_cwnd <= 5"), Err(Trouble::False(expected)));
}

#[test]
fn an_unknown_name_is_named() {
    assert_eq!(run("assert tcpi_toe == 1"), Err(Trouble::Unknown("tcpi_toe".to_owned())));
    assert!(matches!(run("for x in y"), Err(Trouble::Syntax(_))));
}

#[test]
fn fields_are_listed_once() {
    assert_eq!(fields("assert tcpi_b == 1; assert tcpi_a == tcpi_b"), ["tcpi_a", "tcpi_b"]);
}
