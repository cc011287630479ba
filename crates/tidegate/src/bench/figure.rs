//! A measured figure, and its output as a table or as JSON.

use std::fmt::Write as _;

use crate::text::elapsed;

/// The best time of a measurement, with the bytes and operations it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) what: &'static str,
    pub(super) threads: usize,
    /// Bytes that all threads together read, copied or wrote.
    pub(super) bytes: u64,
    /// Equal operations in the measured time; 1 if the time is that of a whole run.
    pub(super) operations: u64,
    pub(super) nanos: u64,
}

impl Figure {
    /// Returns the throughput; bytes per nanosecond equal gigabytes per second.
    fn gigabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.nanos as f64
    }

    fn nanos_per_operation(&self) -> u64 {
        self.nanos / self.operations.max(1)
    }
}

/// Formats the figures as a table for people.
pub(super) fn as_table(machine: &[(&str, String)], figures: &[Figure]) -> String {
    let mut text = String::new();
    for (name, value) in machine {
        writeln!(text, "{name:15} {value}").expect("a String takes everything");
    }
    let head = ("what", "threads", "GB/s", "per operation");
    writeln!(text, "\n{:44} {:>7} {:>8} {:>14}", head.0, head.1, head.2, head.3)
        .expect("a String takes everything");
    for figure in figures {
        let each = match figure.operations {
            1 => String::new(),
            _ => elapsed(figure.nanos_per_operation()),
        };
        let line = format!(
            "{:44} {:>7} {:>8.2} {each:>14}",
            figure.what,
            figure.threads,
            figure.gigabytes_per_second()
        );
        writeln!(text, "{}", line.trim_end()).expect("a String takes everything");
    }
    text
}

/// Formats the figures as one JSON object, with times in nanoseconds.
pub(super) fn as_json(machine: &[(&str, String)], figures: &[Figure]) -> String {
    let mut text = String::from("{");
    for (name, value) in machine {
        write!(text, "\"{name}\":\"{value}\",").expect("a String takes everything");
    }
    text.push_str("\"figures\":[");
    for (position, figure) in figures.iter().enumerate() {
        let Figure { what, threads, bytes, operations, nanos } = figure;
        let comma = if position > 0 { "," } else { "" };
        let speed = figure.gigabytes_per_second();
        write!(
            text,
            "{comma}\n{{\"what\":\"{what}\",\"threads\":{threads},\"bytes\":{bytes},\
             \"operations\":{operations},\"nanoseconds\":{nanos},\
             \"gigabytes_per_second\":{speed:.3}}}"
        )
        .expect("a String takes everything");
    }
    text.push_str("\n]}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> [Figure; 2] {
        let sum = Figure { what: "sum", threads: 1, bytes: 3_000, operations: 1, nanos: 200 };
        let read = Figure { what: "read", threads: 2, bytes: 4_096, operations: 4, nanos: 8_192 };
        [sum, read]
    }

    #[test]
    fn the_table_has_speeds_and_times_of_operations() {
        let text = as_table(&[("cores", "2".to_owned())], &figures());
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let lines = lines.collect::<Vec<_>>();
        let head = "what threads GB/s per operation";
        assert_eq!(lines, ["cores 2", "", head, "sum 1 15.00", "read 2 0.50 2.05 us"]);
    }

    #[test]
    fn json_has_what_was_measured() {
        let text = as_json(&[("io", "io_uring".to_owned())], &figures());
        assert!(
            text.starts_with("{\"io\":\"io_uring\",\"figures\":[\n{\"what\":\"sum\""),
            "{text}"
        );
        assert!(text.contains("\"nanoseconds\":200,\"gigabytes_per_second\":15.000},\n"), "{text}");
        assert!(
            text.ends_with(
                "\"operations\":4,\"nanoseconds\":8192,\"gigabytes_per_second\":0.500}\n]}\n"
            ),
            "{text}"
        );
    }
}
