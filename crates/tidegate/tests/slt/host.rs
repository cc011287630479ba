//! A host for the engine under test, with one secret parameter.

use tidegate_query::{ConfigEntry, LineConnection, MemoryUse, ServerInfo};

#[derive(Debug)]
pub(crate) struct TestHost;

impl ServerInfo for TestHost {
    fn parameters(&self) -> Vec<ConfigEntry> {
        let entry = |path: &str, value: &str, is_sensitive| ConfigEntry {
            property_path: path.to_owned(),
            env_var_name: Some(path.replace('.', "_").to_uppercase()),
            value: value.to_owned(),
            value_source: "default",
            is_sensitive,
            is_reloadable: is_sensitive,
        };
        vec![entry("http.listen", "127.0.0.1:9000", false), entry("auth.password", "Geheim!", true)]
    }

    fn memory(&self) -> Vec<MemoryUse> {
        vec![MemoryUse { tag: "ingest", bytes: 7 }]
    }

    fn line_connections(&self) -> Vec<LineConnection> {
        vec![LineConnection {
            peer: "127.0.0.1:5".to_owned(),
            user: None,
            since: 1_735_689_600_000_000,
            bytes: 100,
            rows_committed: 3,
            rows_pending: 2,
            rows_rejected: 1,
            last_error: Some("line 4: why".to_owned()),
        }]
    }
}
