//! The host of the engine in `tidegate sql`: its resources and their sources, for SHOW and system
//! functions.

use tidegate_platform::rss_anon_bytes;
use tidegate_query::{ConfigEntry, EngineOptions, LineConnection, MemoryUse, ServerInfo, Timeout};

use crate::args::ResourceArguments;

/// This program, as its engine sees it.
#[derive(Debug)]
pub(crate) struct Program {
    parameters: Vec<ConfigEntry>,
}

impl Program {
    /// Describes the options of the engine, each with its source: command line or default.
    pub(crate) fn new(
        options: &EngineOptions,
        resources: &ResourceArguments,
        timeout: Option<Timeout>,
    ) -> Program {
        let entry = |name: &str, value: String, is_typed: bool| ConfigEntry {
            property_path: name.to_owned(),
            env_var_name: None,
            value,
            value_source: if is_typed { "command line" } else { "default" },
            is_sensitive: false,
            is_reloadable: false,
        };
        let (threads, memory) = (options.threads.to_string(), options.memory_max.0.to_string());
        let spill = options.spill_dir.display().to_string();
        let time = match options.timeout {
            Timeout::Never => "0".to_owned(),
            Timeout::After(time) => format!("{}ms", time.as_millis()),
        };
        let parameters = vec![
            entry("query.memory_limit", memory, resources.memory.is_some()),
            entry("query.threads", threads, resources.threads.is_some()),
            entry("query.timeout", time, timeout.is_some()),
            entry("spill.dir", spill, false),
        ];
        Program { parameters }
    }
}

impl ServerInfo for Program {
    fn parameters(&self) -> Vec<ConfigEntry> {
        self.parameters.clone()
    }

    fn memory(&self) -> Vec<MemoryUse> {
        vec![MemoryUse { tag: "process", bytes: rss_anon_bytes() }]
    }

    fn line_connections(&self) -> Vec<LineConnection> {
        Vec::new()
    }
}
