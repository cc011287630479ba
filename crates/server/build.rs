//! Puts the console into the binary: a list of the files that `cargo xtask console` has built.
//!
//! - BU1. Only what is compressed is embedded: the build of the console writes each file a second
//!   time as `.gz`, so that this script needs no crate and the binary holds every byte once.
//! - BU2. A changed, new or missing file builds the list anew. The folder is in git, empty but for
//!   its `.gitignore`: cargo would take a folder that is not there for changed every time.
//! - BU3. Without a console the list is empty, and that is no error: Rust alone builds the server.
//!
//! Not here: how the files are served (`http::console`).
#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads files, before there is a disk"
)]
#![expect(clippy::print_stdout, reason = "cargo listens to what a build script prints")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What a file is called that holds another one, compressed.
const PACKED: &str = ".gz";
/// How deep folders may lie within each other; the build makes one level.
const DEPTH_MAX: usize = 4;

fn main() -> io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console/dist");
    println!("cargo:rerun-if-changed={}", dist.display()); // BU2
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if dist.is_dir() {
        collect(&dist, DEPTH_MAX, &mut files)?;
    }
    files.sort();
    let out = env::var_os("OUT_DIR").map(PathBuf::from).expect("cargo says where to");
    fs::write(out.join("console.rs"), list(&dist, &files)?)
}

/// The compressed files of a folder and those within it (BU1).
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

/// The list as an expression of Rust.
fn list(dist: &Path, files: &[PathBuf]) -> io::Result<String> {
    let mut text = String::from("&[\n");
    for file in files {
        let below = file.strip_prefix(dist).expect("it was found there").to_string_lossy();
        let name = below.trim_end_matches(PACKED).replace('\\', "/");
        let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
        let tag = fingerprint(&fs::read(file)?);
        let file = fs::canonicalize(file)?;
        writeln!(
            text,
            "    Embedded {{ path: {path:?}, tag: \"{tag:016x}\", gzip: include_bytes!({file:?}) }},"
        )
        .expect("a String takes everything");
    }
    text.push_str("]\n");
    Ok(text)
}

/// FNV-1a: it tells a page from the page of another build, and guards nothing.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
