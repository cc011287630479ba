//! The configuration as `SHOW PARAMETERS` lists it: the value of each key and its source.

use tidegate_query::ConfigEntry;

use super::{Config, KEYS, Key};

/// The source of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File,
    /// A variable of the environment.
    Environment,
    /// The command line.
    Arguments,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Environment => "env",
            Source::Arguments => "command line",
        }
    }
}

impl Config {
    /// Returns all keys with their values, as `SHOW PARAMETERS` lists them.
    #[must_use]
    pub fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &Key| ConfigEntry {
            property_path: key.name.to_owned(),
            env_var_name: Some(key.variable()),
            value: (key.show)(self),
            value_source: self.sources.get(key.name).map_or("default", |source| source.name()),
            is_sensitive: key.is_secret(),
            is_reloadable: key.name == "log.level",
        };
        KEYS.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::ByteCount;

    use super::*;

    #[test]
    fn the_source_of_each_value_is_shown() {
        let mut config = Config::standard(ByteCount(10 << 30));
        config.set("ilp.tcp.commit_interval", "1500ms").unwrap();
        config.set_from("http.max_header_bytes", "8192", Source::Environment).unwrap();
        let entries = config.entries();
        let value_and_source = |name: &str| {
            let entry = entries.iter().find(|entry| entry.property_path == name).unwrap();
            (entry.value.as_str(), entry.value_source)
        };
        assert_eq!(value_and_source("ilp.tcp.commit_interval"), ("1500ms", "command line"));
        assert_eq!(value_and_source("http.max_header_bytes"), ("8KiB", "env"));
        assert_eq!(value_and_source("http.idle_timeout"), ("5m", "default"));
        assert_eq!(value_and_source("ilp.tcp.idle_timeout"), ("0", "default"));
        assert_eq!(value_and_source("http.admin_listen"), ("none", "default"));
    }
}
