//! Passes the loss of a carrier on: what is behind the bridge sees that the cable in front of it is
//! cut, and can take another way.
//!
//! A port is set down while every port that its frames go to is out, and set up when one is back. A
//! port that this set down says nothing of its own cable, so it counts as whole; else two bridges
//! in a row would hold each other down. A port that was set up may need seconds to find its
//! carrier, so it counts as whole for [`SETTLE`]; else the two ports of a bridge would set each
//! other down in turn.
//!
//! Pure code: time is an argument. Invariant: a port that is out itself is not set down.

use weir_core::units::{Duration, Instant};

/// How long a port that was set up may take to find its carrier.
pub const SETTLE: Duration = Duration::from_secs(5);

/// Which ports of a bridge are set down.
#[derive(Debug)]
pub struct CarrierPass {
    ports: Vec<Port>,
}

#[derive(Clone, Debug, Default)]
struct Port {
    /// The ports that its frames go to.
    reaches: Vec<usize>,
    is_set_down: bool,
    settles_until: Instant,
}

impl CarrierPass {
    /// Watches ports; each reaches those with these indices.
    pub fn new(reaches: Vec<Vec<usize>>) -> Self {
        let port = |reaches| Port { reaches, ..Port::default() };
        Self { ports: reaches.into_iter().map(port).collect() }
    }

    /// Calls `set` for each port that is to be set down or up, as `has_carrier` says of each port.
    /// `set` returns whether it could.
    pub fn follow(
        &mut self,
        now: Instant,
        has_carrier: &[bool],
        mut set: impl FnMut(usize, bool) -> bool,
    ) {
        let is_out = |(port, has_carrier): (&Port, &bool)| {
            !has_carrier && !port.is_set_down && now >= port.settles_until
        };
        let out: Vec<bool> = self.ports.iter().zip(has_carrier).map(is_out).collect();
        for (index, port) in self.ports.iter_mut().enumerate() {
            let is_cut_off = !port.reaches.is_empty() && port.reaches.iter().all(|to| out[*to]);
            let down = is_cut_off && !out[index];
            if down != port.is_set_down && set(index, !down) {
                port.is_set_down = down;
                port.settles_until = now.after(SETTLE);
            }
        }
    }

    /// Calls `set` for each port that is set down, to leave the interfaces as they were.
    pub fn restore(&mut self, mut set: impl FnMut(usize, bool) -> bool) {
        for (index, port) in self.ports.iter_mut().enumerate() {
            if std::mem::take(&mut port.is_set_down) {
                set(index, true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows each `(seconds, carriers)`, a letter for each port (`+` or `-`), and checks what is
    /// set: `0v` for port 0 down, `0^` for up.
    fn check(reaches: &[&[usize]], events: &[(u64, &str)], expected: &str) {
        let mut pass = CarrierPass::new(reaches.iter().map(|to| to.to_vec()).collect());
        let mut seen = Vec::new();
        for (seconds, carriers) in events {
            let now = Instant::from_nanos(seconds * 1_000_000_000);
            let carriers: Vec<bool> = carriers.chars().map(|letter| letter == '+').collect();
            pass.follow(now, &carriers, |port, up| {
                seen.push(format!("{seconds}:{port}{}", if up { '^' } else { 'v' }));
                true
            });
        }
        pass.restore(|port, _| {
            seen.push(format!("end:{port}^"));
            true
        });
        assert_eq!(seen.join(" "), expected, "{events:?}");
    }

    const CABLE: &[&[usize]] = &[&[1], &[0]];

    #[test]
    fn the_other_port_is_down_while_one_is_out() {
        check(CABLE, &[(10, "++"), (11, "-+"), (12, "--"), (13, "+-"), (14, "++")], "11:1v 13:1^");
        check(CABLE, &[(10, "+-"), (11, "--"), (60, "--")], "10:0v end:0^");
        check(CABLE, &[(10, "--"), (11, "--"), (12, "+-"), (13, "++")], "12:0v 13:0^");
    }

    #[test]
    fn a_port_that_was_set_up_gets_time_to_find_its_carrier() {
        let slow = [(10, "-+"), (11, "--"), (12, "+-"), (15, "+-"), (16, "++"), (60, "++")];
        check(CABLE, &slow, "10:1v 12:1^");
        // Its own cable was pulled meanwhile.
        let pulled = [(10, "-+"), (12, "+-"), (16, "+-"), (17, "+-"), (60, "--"), (61, "-+")];
        check(CABLE, &pulled, "10:1v 12:1^ 17:0v 61:0^");
    }

    #[test]
    fn a_port_with_several_others_is_down_when_all_of_them_are_out() {
        // Port 0 reaches two uplinks, each of which reaches only port 0.
        let uplinks: &[&[usize]] = &[&[1, 2], &[0], &[0]];
        check(uplinks, &[(10, "+-+"), (11, "+--"), (12, "---"), (13, "-+-")], "11:0v 13:0^");
        check(uplinks, &[(10, "-++"), (11, "---"), (12, "+--")], "10:1v 10:2v 12:1^ 12:2^");
        check(&[&[1], &[]], &[(10, "-+"), (11, "+-")], "11:0v end:0^");
    }

    /// Two bridges, whose inner ports are the two ends of a cable: whatever is pulled and plugged,
    /// they come to rest, and with all cables plugged nothing is down.
    #[test]
    fn two_bridges_in_a_row_come_to_rest() {
        let mut pulled = [false; 3];
        let mut passes =
            [CarrierPass::new(vec![vec![1], vec![0]]), CarrierPass::new(vec![vec![1], vec![0]])];
        let mut up = [[true; 2]; 2];
        let mut random = weir_core::random::Random::new(7, 0);
        let mut now = Instant::ZERO.after(SETTLE);
        for round in 0..300 {
            pulled = if round % 2 == 1 { [false; 3] } else { pulled.map(|_| random.below(2) == 0) };
            let mut changed_at = now;
            for _ in 0..400 {
                now = now.after(Duration::from_millis(100));
                let inner = up[0][1] && up[1][0] && !pulled[1];
                let carriers = [[!pulled[0] && up[0][0], inner], [inner, !pulled[2] && up[1][1]]];
                for ((pass, up), carriers) in passes.iter_mut().zip(&mut up).zip(&carriers) {
                    pass.follow(now, carriers, |port, is_up| {
                        (up[port], changed_at) = (is_up, now);
                        true
                    });
                }
            }
            assert!(now.since(changed_at) > SETTLE, "round {round}: never at rest, {pulled:?}");
            if pulled == [false; 3] {
                assert_eq!(up, [[true; 2]; 2], "round {round}");
            } else {
                let cut_off = [!up[0][0] || pulled[0], !up[1][1] || pulled[2]];
                assert_eq!(cut_off, [true; 2], "round {round}: {pulled:?}");
            }
        }
    }
}
