//! The packages of the workspace, from `cargo metadata --no-deps`.
//!
//! Not here: the rules for their dependencies (`crates`).

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::steps::{cargo, start_error};

/// A member of the workspace. Its paths are relative to the root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: String,
    /// The dependencies of the code, of the build script and of the tests, by their names in the
    /// registry, even if the manifest renames them.
    pub(crate) dependencies: Vec<String>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: TargetKind,
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetKind {
    /// A library or a binary, whose source is a crate root in the sense of STYLE section 4.
    Root,
    IntegrationTest,
    /// A benchmark, an example, or a build script.
    Other,
}

/// Reads the members of the workspace at `root`. It resolves nothing, so it needs neither network
/// nor lock.
pub(crate) fn read(root: &Path) -> Result<Vec<Package>> {
    let args = ["metadata", "--format-version", "1", "--no-deps"];
    let output = cargo(root, &args)
        .stderr(Stdio::inherit())
        .output()
        .map_err(start_error("cargo metadata"))?;
    if !output.status.success() {
        return Err(Error::Failed { command: "cargo metadata".to_owned(), status: output.status });
    }
    parse(&output.stdout)
}

fn parse(json: &[u8]) -> Result<Vec<Package>> {
    let answer: Value =
        serde_json::from_slice(json).map_err(|source| Error::Metadata { source })?;
    let root = text(&answer, "workspace_root")?;
    list(&answer, "packages")?.iter().map(|package| parse_package(package, root)).collect()
}

fn parse_package(package: &Value, root: &str) -> Result<Package> {
    let name = |dependency| text(dependency, "name").map(str::to_owned);
    Ok(Package {
        name: text(package, "name")?.to_owned(),
        manifest: below(root, text(package, "manifest_path")?),
        dependencies: list(package, "dependencies")?.iter().map(name).collect::<Result<_>>()?,
        targets: list(package, "targets")?
            .iter()
            .map(|target| parse_target(target, root))
            .collect::<Result<_>>()?,
    })
}

fn parse_target(target: &Value, root: &str) -> Result<Target> {
    let kinds: Vec<&str> = list(target, "kind")?.iter().filter_map(Value::as_str).collect();
    let kind = match kinds[..] {
        ["test"] => TargetKind::IntegrationTest,
        ["bench" | "example" | "custom-build"] => TargetKind::Other,
        _ => TargetKind::Root,
    };
    Ok(Target { kind, source: below(root, text(target, "src_path")?) })
}

/// Returns `path` relative to `root`, or unchanged if it lies elsewhere.
fn below(root: &str, path: &str) -> String {
    let inner = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    inner.unwrap_or(path).to_owned()
}

fn text<'a>(value: &'a Value, field: &'static str) -> Result<&'a str> {
    value.get(field).and_then(Value::as_str).ok_or(Error::MetadataWithout { field })
}

fn list<'a>(value: &'a Value, field: &'static str) -> Result<&'a Vec<Value>> {
    value.get(field).and_then(Value::as_array).ok_or(Error::MetadataWithout { field })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_dependencies_of_all_kinds_under_their_own_names() {
        let json = r#"{"workspace_root": "/w", "packages": [{
            "name": "tidegate-storage",
            "manifest_path": "/w/crates/storage/Cargo.toml",
            "dependencies": [
                {"name": "arrow", "kind": null, "rename": "columns"},
                {"name": "proptest", "kind": "dev", "target": "cfg(unix)"}
            ],
            "targets": [
                {"kind": ["lib"], "src_path": "/w/crates/storage/src/lib.rs"},
                {"kind": ["test"], "src_path": "/w/crates/storage/tests/it/main.rs"},
                {"kind": ["bench"], "src_path": "/elsewhere/seal.rs"}
            ]
        }]}"#;
        let target = |kind, source: &str| Target { kind, source: source.to_owned() };
        let expected = Package {
            name: "tidegate-storage".to_owned(),
            manifest: "crates/storage/Cargo.toml".to_owned(),
            dependencies: vec!["arrow".to_owned(), "proptest".to_owned()],
            targets: vec![
                target(TargetKind::Root, "crates/storage/src/lib.rs"),
                target(TargetKind::IntegrationTest, "crates/storage/tests/it/main.rs"),
                target(TargetKind::Other, "/elsewhere/seal.rs"),
            ],
        };
        assert_eq!(parse(json.as_bytes()).unwrap(), [expected]);
    }

    #[test]
    fn an_answer_of_another_shape_is_an_error() {
        check("", "read the answer of `cargo metadata`");
        check(
            "{}",
            "the answer of `cargo metadata` has no `workspace_root` where one was expected",
        );
        let json = r#"{"workspace_root": "/w", "packages": [{}]}"#;
        check(json, "the answer of `cargo metadata` has no `name` where one was expected");
    }

    #[test]
    fn this_package_is_found() {
        let packages = read(crate::root()).unwrap();
        let xtask = packages.iter().find(|package| package.name == "xtask").unwrap();
        assert_eq!(xtask.manifest, "xtask/Cargo.toml");
        assert_eq!(xtask.targets[0].source, "xtask/src/main.rs");
    }

    #[track_caller]
    fn check(json: &str, expected: &str) {
        assert_eq!(parse(json.as_bytes()).unwrap_err().to_string(), expected, "{json}");
    }
}
