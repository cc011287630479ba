//! Tells the linker to keep one of several equal functions.
//!
//! Generic functions that are compiled for many types are often the same instructions: together
//! they are a twentieth of the program. The linker of this target is the one that comes with Rust,
//! which knows the option; others may not.

#[expect(clippy::disallowed_methods, reason = "Cargo tells the target in the environment")]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_default();
    if target == "x86_64-unknown-linux-gnu" {
        println!("cargo:rustc-link-arg-bin=tidegate=-Wl,--icf=all");
    }
}
