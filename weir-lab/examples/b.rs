//! scratch
use weir_lab::bench::*;
fn main() {
    let e = Effort { rounds: 5, packets: 300_000 };
    measure(None, LEAVES, e, |r| {
        println!("{:6} {:8} {:8.1} ns {:6.2}", r.scheduler, r.leaves, r.nanos, r.ratio)
    })
    .unwrap();
}
