//! Schemas of the use cases of TSBS: tags, measurements and their fields, in the order in which
//! every format writes them.
//!
//! - tsbs_schema-1. The simulator gives each row `slots` numbers, its states. The cells of the row
//!   are computed from these states alone (`Measurement::cells`), so any thread can format a row.
//!
//! Not here: the changes of states (`simulate`) and the text of cells (`format`).

use std::borrow::Cow;

use super::options::UseCase;

/// Bytes of a disk of `devops`.
const DISK_BYTES: i64 = 1 << 40;
/// Bytes of that disk for each inode.
const INODE_BYTES: i64 = 4_096;

/// A tag of every host or truck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Key of the tag.
    pub(crate) name: &'static str,
    /// Kind of its values.
    pub(crate) kind: TagKind,
}

/// Kind of the values of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagKind {
    /// Text.
    Text,
    /// 32-bit floats, which line protocol has as fields and not as tags.
    Float32,
}

/// A measurement, which becomes a table.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// Name of the measurement.
    pub(crate) name: &'static str,
    /// Tags that follow those of the host.
    pub(crate) extra_tags: &'static [&'static str],
    /// Names of the fields.
    pub(crate) fields: Vec<Cow<'static, str>>,
    shape: Shape,
}

/// The rule that computes the cells of a row from its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Each cell is its state, truncated.
    Integers,
    /// One state, the free bytes, determines all cells.
    Disk,
    /// Four states determine all cells: total, used, cached and buffered bytes.
    Memory,
    /// Each cell is its state, rounded by the rule with the same index.
    Numbers(&'static [Number]),
}

/// The rule that rounds a state to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// An integer, truncated.
    Integer,
    /// A float, truncated to this many decimal places.
    Decimal(u8),
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// No value.
    Nil,
    /// An integer.
    Integer(i64),
    /// A float that is `scaled / 10^places`.
    Decimal {
        /// The digits.
        scaled: i64,
        /// The number of decimal places.
        places: u8,
    },
    /// Any float.
    Float(f64),
}

/// The tags and measurements of a use case.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    /// The tags of every host or truck.
    pub(crate) tags: &'static [Tag],
    /// The measurements, in the order of their rows.
    pub(crate) measurements: Vec<Measurement>,
}

impl Schema {
    /// Returns the schema of a use case; `metrics` is the number of metrics of `devops-generic`.
    pub(crate) fn new(use_case: UseCase, metrics: usize) -> Schema {
        let (tags, measurements) = match use_case {
            UseCase::CpuOnly => (HOST_TAGS, vec![cpu()]),
            UseCase::CpuSingle => {
                let mut single = cpu();
                single.fields.truncate(1);
                (HOST_TAGS, vec![single])
            }
            UseCase::Devops => (HOST_TAGS, devops()),
            UseCase::DevopsGeneric => (HOST_TAGS, vec![generic(metrics)]),
            UseCase::Iot => (TRUCK_TAGS, vec![readings(), diagnostics()]),
        };
        Schema { tags, measurements }
    }
}

impl Measurement {
    /// Returns the number of states of a row (tsbs_schema-1): fewer than cells, if some are
    /// computed.
    pub(crate) fn slots(&self) -> usize {
        match self.shape {
            Shape::Disk => 1,
            Shape::Memory => 4,
            Shape::Integers | Shape::Numbers(_) => self.fields.len(),
        }
    }

    /// Returns true if a field is an integer.
    pub(crate) fn is_integer(&self, field: usize) -> bool {
        match self.shape {
            Shape::Integers | Shape::Disk => true,
            Shape::Memory => field < 6,
            Shape::Numbers(numbers) => numbers[field] == Number::Integer,
        }
    }

    /// Returns true if each cell is its state, truncated.
    pub(crate) fn is_all_integers(&self) -> bool {
        self.shape == Shape::Integers
    }

    /// Returns the rule for each state, if each state is a field of its own kind.
    pub(crate) fn numbers(&self) -> Option<&'static [Number]> {
        match self.shape {
            Shape::Numbers(numbers) => Some(numbers),
            Shape::Integers | Shape::Disk | Shape::Memory => None,
        }
    }

    /// Replaces the content of `cells` by the cells of a row.
    #[inline]
    pub(crate) fn cells(&self, states: &[f64], cells: &mut Vec<Cell>) {
        cells.clear();
        match self.shape {
            Shape::Integers => {
                cells.extend(states.iter().map(|&state| Cell::Integer(truncated(state))));
            }
            Shape::Disk => cells.extend(disk_cells(truncated(states[0]))),
            Shape::Memory => {
                let [total, used, cached, buffered] = [0, 1, 2, 3].map(|i| truncated(states[i]));
                cells.extend(memory_cells(total, used, cached, buffered));
            }
            Shape::Numbers(numbers) => {
                cells.extend(states.iter().zip(numbers).map(|(&state, number)| match *number {
                    Number::Integer => Cell::Integer(truncated(state)),
                    Number::Decimal(places) => {
                        Cell::Decimal { scaled: scaled(state, places), places }
                    }
                }));
            }
        }
    }
}

fn disk_cells(free: i64) -> [Cell; 7] {
    let used = DISK_BYTES - free;
    let used_percent = truncated(100.0 * (used as f64 / DISK_BYTES as f64));
    let inodes_total = DISK_BYTES / INODE_BYTES;
    let inodes_free = free / INODE_BYTES;
    let inodes_used = inodes_total - inodes_free;
    [DISK_BYTES, free, used, used_percent, inodes_total, inodes_free, inodes_used]
        .map(Cell::Integer)
}

fn memory_cells(total: i64, used: i64, cached: i64, buffered: i64) -> [Cell; 9] {
    let available = total - used;
    let float = |bytes: i64| bytes as f64;
    [
        Cell::Integer(total),
        Cell::Integer(available),
        Cell::Integer(used),
        Cell::Integer(available),
        Cell::Integer(cached),
        Cell::Integer(buffered),
        Cell::Float(100.0 * (float(used) / float(total))),
        Cell::Float(100.0 * (float(available) / float(total))),
        // The order of operations, and so the last digit, is that of the original.
        Cell::Float((100.0 * float(buffered)) / float(total)),
    ]
}

/// Returns `state * 10^places`, truncated.
#[inline]
pub(crate) fn scaled(state: f64, places: u8) -> i64 {
    const POWERS: [f64; 6] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];
    truncated(state * POWERS[usize::from(places)])
}

/// Truncates toward zero.
#[expect(clippy::cast_possible_truncation, reason = "states lie far within 2^63")]
#[inline]
pub(crate) fn truncated(state: f64) -> i64 {
    state as i64
}

const fn text(name: &'static str) -> Tag {
    Tag { name, kind: TagKind::Text }
}

const fn float32(name: &'static str) -> Tag {
    Tag { name, kind: TagKind::Float32 }
}

const HOST_TAGS: &[Tag] = &[
    text("hostname"),
    text("region"),
    text("datacenter"),
    text("rack"),
    text("os"),
    text("arch"),
    text("team"),
    text("service"),
    text("service_version"),
    text("service_environment"),
];

const TRUCK_TAGS: &[Tag] = &[
    text("name"),
    text("fleet"),
    text("driver"),
    text("model"),
    text("device_version"),
    float32("load_capacity"),
    float32("fuel_capacity"),
    float32("nominal_fuel_consumption"),
];

/// Creates a measurement; `fields` has the names, separated by blanks.
fn measurement(
    name: &'static str,
    extra_tags: &'static [&'static str],
    shape: Shape,
    fields: &'static str,
) -> Measurement {
    let fields = fields.split_whitespace().map(Cow::Borrowed).collect();
    Measurement { name, extra_tags, fields, shape }
}

fn cpu() -> Measurement {
    measurement(
        "cpu",
        &[],
        Shape::Integers,
        "usage_user usage_system usage_idle usage_nice usage_iowait usage_irq usage_softirq \
         usage_steal usage_guest usage_guest_nice",
    )
}

fn devops() -> Vec<Measurement> {
    vec![
        cpu(),
        measurement(
            "diskio",
            &["serial"],
            Shape::Integers,
            "reads writes read_bytes write_bytes read_time write_time io_time",
        ),
        measurement(
            "disk",
            &["path", "fstype"],
            Shape::Disk,
            "total free used used_percent inodes_total inodes_free inodes_used",
        ),
        measurement(
            "kernel",
            &[],
            Shape::Integers,
            "boot_time interrupts context_switches processes_forked disk_pages_in disk_pages_out",
        ),
        measurement(
            "mem",
            &[],
            Shape::Memory,
            "total available used free cached buffered used_percent available_percent \
             buffered_percent",
        ),
        measurement(
            "net",
            &["interface"],
            Shape::Integers,
            "bytes_sent bytes_recv packets_sent packets_recv err_in err_out drop_in drop_out",
        ),
        measurement(
            "nginx",
            &["port", "server"],
            Shape::Integers,
            "accepts active handled reading requests waiting writing",
        ),
        postgresl(),
        redis(),
    ]
}

fn postgresl() -> Measurement {
    measurement(
        "postgresl",
        &[],
        Shape::Integers,
        "numbackends xact_commit xact_rollback blks_read blks_hit tup_returned tup_fetched \
         tup_inserted tup_updated tup_deleted conflicts temp_files temp_bytes deadlocks \
         blk_read_time blk_write_time",
    )
}

fn redis() -> Measurement {
    measurement(
        "redis",
        &["port", "server"],
        Shape::Integers,
        "uptime_in_seconds total_connections_received expired_keys evicted_keys keyspace_hits \
         keyspace_misses instantaneous_ops_per_sec instantaneous_input_kbps \
         instantaneous_output_kbps connected_clients used_memory used_memory_rss \
         used_memory_peak used_memory_lua rdb_changes_since_last_save sync_full \
         sync_partial_ok sync_partial_err pubsub_channels pubsub_patterns latest_fork_usec \
         connected_slaves master_repl_offset repl_backlog_active repl_backlog_size \
         repl_backlog_histlen mem_fragmentation_ratio used_cpu_sys used_cpu_user \
         used_cpu_sys_children used_cpu_user_children",
    )
}

fn generic(metrics: usize) -> Measurement {
    let fields = (0..metrics).map(|i| Cow::Owned(format!("metric_{i}"))).collect();
    Measurement { name: "generic_metrics", extra_tags: &[], fields, shape: Shape::Integers }
}

fn readings() -> Measurement {
    measurement(
        "readings",
        &[],
        Shape::Numbers(&[
            Number::Decimal(5),
            Number::Decimal(5),
            Number::Decimal(0),
            Number::Decimal(0),
            Number::Decimal(0),
            Number::Decimal(0),
            Number::Decimal(1),
        ]),
        "latitude longitude elevation velocity heading grade fuel_consumption",
    )
}

fn diagnostics() -> Measurement {
    let numbers = Shape::Numbers(&[Number::Decimal(1), Number::Decimal(0), Number::Integer]);
    measurement("diagnostics", &[], numbers, "fuel_state current_load status")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_devops_have_the_slots_of_the_simulator() {
        let slots: Vec<usize> = devops().iter().map(Measurement::slots).collect();
        assert_eq!(slots, [10, 7, 1, 6, 4, 8, 7, 16, 31], "tsbs_schema-1");
    }

    #[test]
    fn derived_cells_add_up() {
        let mut cells = Vec::new();
        let measurements = devops();
        measurements[2].cells(&[(DISK_BYTES / 4) as f64 + 0.9], &mut cells);
        assert_eq!(cells[1..4], [DISK_BYTES / 4, DISK_BYTES / 4 * 3, 75].map(Cell::Integer));
        measurements[4].cells(&[8.0, 2.0, 1.0, 4.5], &mut cells);
        assert_eq!(cells[6..], [25.0, 75.0, 50.0].map(Cell::Float));
        for measurement in &measurements {
            measurement.cells(&vec![1.5; measurement.slots()], &mut cells);
            assert_eq!(cells.len(), measurement.fields.len(), "{}", measurement.name);
            for (field, cell) in cells.iter().enumerate() {
                assert_eq!(matches!(cell, Cell::Integer(_)), measurement.is_integer(field));
            }
        }
    }
}
