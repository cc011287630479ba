//! What evaluation has learned of a filter: to order its conjuncts, and for EXPLAIN ANALYZE.

/// How a conjunct was answered for a zone, from fast to slow; of one with parts, the slowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// The bounds of the zone said that no row matches.
    Skipped,
    /// The bounds of the zone said that every row matches.
    Whole,
    /// A kernel looked at the codes or values.
    Kernel,
    /// Compiled code looked at every row.
    Compiled,
    /// The interpreter looked at the rows that were left.
    Interpreted,
}

/// How a conjunct has fared so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConjunctStatistics {
    /// Zones that bounds excluded.
    pub zones_skipped: u64,
    /// Zones that bounds took as a whole.
    pub zones_whole: u64,
    /// Zones that a kernel looked at.
    pub zones_kernel: u64,
    /// Zones that compiled code looked at.
    pub zones_compiled: u64,
    /// Zones that the interpreter looked at.
    pub zones_interpreted: u64,
    /// Rows that earlier conjuncts had left.
    pub rows_in: u64,
    /// Rows that this one left.
    pub rows_out: u64,
}

impl ConjunctStatistics {
    /// Adds what another worker has counted.
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

/// What one worker has learned of a filter's conjuncts. It lives across page frames.
#[derive(Debug, Clone, Default)]
pub struct Adapt {
    conjuncts: Vec<Learned>,
}

#[derive(Debug, Clone, Copy)]
struct Learned {
    /// The share of rows that pass, of late.
    pass: f64,
    statistics: ConjunctStatistics,
}

/// How much the newest zone counts: about the last sixteen are remembered.
const NEWEST: f64 = 1.0 / 16.0;

impl Default for Learned {
    fn default() -> Learned {
        // Before anything is known, what costs least goes first.
        Learned { pass: 0.5, statistics: ConjunctStatistics::default() }
    }
}

impl Adapt {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Adapt {
        Adapt::default()
    }

    /// One for each conjunct that was run, in the order of `Filter::describe`; later ones were not.
    pub fn statistics(&self) -> impl Iterator<Item = &ConjunctStatistics> {
        self.conjuncts.iter().map(|learned| &learned.statistics)
    }

    /// What was counted, which is 0 from then on; what was learned stays.
    pub fn take_statistics(&mut self) -> Vec<ConjunctStatistics> {
        let take = |learned: &mut Learned| std::mem::take(&mut learned.statistics);
        self.conjuncts.iter_mut().map(take).collect()
    }

    /// The least goes first: bytes touched for each row that is removed.
    pub(crate) fn rank(&self, conjunct: usize, cost: f64) -> f64 {
        let pass = self.conjuncts.get(conjunct).map_or(0.5, |learned| learned.pass);
        cost / (1.001 - pass)
    }

    pub(crate) fn note(&mut self, conjunct: usize, method: Method, before: usize, after: usize) {
        if self.conjuncts.len() <= conjunct {
            self.conjuncts.resize(conjunct + 1, Learned::default());
        }
        let Learned { pass, statistics } = &mut self.conjuncts[conjunct];
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
        *pass += (after as f64 / before as f64 - *pass) * NEWEST;
    }
}
