//! Builds the crate anew when the folder `papers/` changes, which is a part of it.

fn main() {
    println!("cargo:rerun-if-changed=../papers");
}
