//! Embeds the console into the binary: a list of the files that `cargo xtask console` has built.
//!
//! - build-1. Only compressed files are embedded: the build of the console writes each file a
//!   second time as `.gz`, so that this script needs no crate and the binary holds every byte once.
//! - build-2. A changed, new or missing file builds the list anew. The directory is in git, empty
//!   but for its `.gitignore`: cargo would treat a missing directory as changed in every build.
//! - Without a console the list is empty, which is no error: Rust alone builds the server.
//! - build-4. Copies are embedded: a later build of the console does not remove files that a
//!   running build of the server still reads.
//!
//! Not here: serving the files (`http::console`).
#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads files, before there is a disk"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The suffix of a compressed file.
const PACKED: &str = ".gz";
/// The most levels of nested directories; the build makes one.
const DEPTH_MAX: usize = 4;

fn main() -> io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console/dist");
    println!("cargo:rerun-if-changed={}", dist.display()); // build-2
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if dist.is_dir() {
        collect(&dist, DEPTH_MAX, &mut files)?;
    }
    files.sort();
    let out = env::var_os("OUT_DIR").map(PathBuf::from).expect("cargo says where to");
    let mut list = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let bytes = fs::read(file)?;
        let copy = format!("console-{number}.gz");
        fs::write(out.join(&copy), &bytes)?; // build-4
        let path = served_at(file.strip_prefix(&dist).expect("it was found there"));
        let tag = fingerprint(&bytes);
        writeln!(
            list,
            "    Embedded {{ path: {path:?}, tag: \"{tag:016x}\", \
             gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{copy}\")) }},"
        )
        .expect("a String takes everything");
    }
    list.push_str("]\n");
    fs::write(out.join("console.rs"), list)
}

/// Collects the compressed files of a directory and those below it (build-1).
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && 0 < depth {
            collect(&path, depth - 1, files)?;
        } else if path.to_string_lossy().ends_with(PACKED) {
            files.push(path);
        }
    }
    Ok(())
}

/// The path of a file on the server.
fn served_at(below: &Path) -> String {
    let name = below.to_string_lossy().replace('\\', "/");
    match name.trim_end_matches(PACKED) {
        "index.html" => "/".to_owned(),
        name => format!("/{name}"),
    }
}

/// FNV-1a: it tells the page of one build from that of another, and protects against nothing.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
