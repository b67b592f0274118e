//! scratch
fn main() {
    let a: Vec<String> = std::env::args().collect();
    weir_lab::bench::workload(&a[1], a[2].parse().unwrap()).unwrap();
}
