//! Has the crate built anew when a file joins the page: the compiler itself sees only changes of
//! those that it knows.

fn main() {
    println!("cargo::rerun-if-changed=assets");
}
