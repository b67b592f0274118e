//! Rebuilds the crate when the folder `papers/` changes, which is compiled into it.

fn main() {
    println!("cargo:rerun-if-changed=../papers");
}
