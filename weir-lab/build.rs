//! Builds the crate anew when the folder `lab/` changes, which is a part of it.

fn main() {
    println!("cargo:rerun-if-changed=../lab");
}
