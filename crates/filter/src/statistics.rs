//! Statistics about the evaluation of filters: pass rates, by which the conjuncts of a filter are
//! ordered, and the counters that EXPLAIN ANALYZE shows.

/// The method by which a conjunct was evaluated for a zone, in the order from fast to slow. If the
/// parts of a conjunct were evaluated by several methods, the slowest one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// The bounds of the zone showed that no row matches.
    Skipped,
    /// The bounds of the zone showed that every row matches.
    Whole,
    /// A kernel tested the codes or values.
    Kernel,
    /// Compiled code evaluated every row.
    Compiled,
    /// The interpreter evaluated the rows that passed the conjuncts before.
    Interpreted,
}

/// The counters of one conjunct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConjunctStatistics {
    /// Zones whose bounds showed that no row matches.
    pub zones_skipped: u64,
    /// Zones whose bounds showed that every row matches.
    pub zones_whole: u64,
    /// Zones that a kernel tested.
    pub zones_kernel: u64,
    /// Zones that compiled code evaluated.
    pub zones_compiled: u64,
    /// Zones that the interpreter evaluated.
    pub zones_interpreted: u64,
    /// Rows that the conjuncts before this one passed.
    pub rows_in: u64,
    /// Rows that this conjunct passed.
    pub rows_out: u64,
}

impl ConjunctStatistics {
    /// Adds the counters of another worker.
    pub fn merge(&mut self, other: &ConjunctStatistics) {
        self.zones_skipped += other.zones_skipped;
        self.zones_whole += other.zones_whole;
        self.zones_kernel += other.zones_kernel;
        self.zones_compiled += other.zones_compiled;
        self.zones_interpreted += other.zones_interpreted;
        self.rows_in += other.rows_in;
        self.rows_out += other.rows_out;
    }
}

/// The statistics of one worker about the conjuncts of a filter, across page frames.
#[derive(Debug, Clone, Default)]
pub struct AdaptiveOrder {
    conjuncts: Vec<ConjunctHistory>,
}

#[derive(Debug, Clone, Copy)]
struct ConjunctHistory {
    /// The recent share of rows that pass.
    pass_rate: f64,
    statistics: ConjunctStatistics,
}

/// The weight of the newest zone in the moving average: about the last sixteen zones count.
const NEWEST_WEIGHT: f64 = 1.0 / 16.0;

impl Default for ConjunctHistory {
    fn default() -> ConjunctHistory {
        // Before any statistics exist, the cheapest conjunct goes first.
        ConjunctHistory { pass_rate: 0.5, statistics: ConjunctStatistics::default() }
    }
}

impl AdaptiveOrder {
    /// Creates empty statistics.
    #[must_use]
    pub fn new() -> AdaptiveOrder {
        AdaptiveOrder::default()
    }

    /// The counters of each conjunct up to the last one that was run, in the order of
    /// `Filter::describe`.
    pub fn statistics(&self) -> impl Iterator<Item = &ConjunctStatistics> {
        self.conjuncts.iter().map(|history| &history.statistics)
    }

    /// Returns the counters and sets them to 0; the pass rates stay.
    pub fn take_statistics(&mut self) -> Vec<ConjunctStatistics> {
        let take = |history: &mut ConjunctHistory| std::mem::take(&mut history.statistics);
        self.conjuncts.iter_mut().map(take).collect()
    }

    /// The rank of a conjunct: the cost for each row that it removes. The lowest rank runs first.
    pub(crate) fn rank(&self, conjunct: usize, cost: f64) -> f64 {
        let pass_rate = self.conjuncts.get(conjunct).map_or(0.5, |history| history.pass_rate);
        cost / (1.001 - pass_rate)
    }

    pub(crate) fn record(&mut self, conjunct: usize, method: Method, before: usize, after: usize) {
        if self.conjuncts.len() <= conjunct {
            self.conjuncts.resize(conjunct + 1, ConjunctHistory::default());
        }
        let ConjunctHistory { pass_rate, statistics } = &mut self.conjuncts[conjunct];
        statistics.rows_in += before as u64;
        statistics.rows_out += after as u64;
        let zones = match method {
            Method::Skipped => &mut statistics.zones_skipped,
            Method::Whole => &mut statistics.zones_whole,
            Method::Kernel => &mut statistics.zones_kernel,
            Method::Compiled => &mut statistics.zones_compiled,
            Method::Interpreted => &mut statistics.zones_interpreted,
        };
        *zones += 1;
        *pass_rate += (after as f64 / before as f64 - *pass_rate) * NEWEST_WEIGHT;
    }
}
