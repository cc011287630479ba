//! The memory of all queries of an engine: a pool for all, and one for each statement.
//!
//! - memory-1. A consumer that can spill (a sort, the hash table of an aggregate) has a fair share
//!   of what the others leave, and all of them together at most three quarters of the pool. So
//!   those that cannot, above all the merge of spilled rows, find a quarter even when the others
//!   have taken their shares.
//! - memory-2. Each merge of a sort has at most one thread's share of three quarters. A merge would
//!   take all free memory, to read as many files at a time as it can, but works with less; so the
//!   merge above it, of the rows of all threads, finds memory, too.
//!
//! - memory-3. In the pool of all queries a consumer may have its share, or more if that is at most
//!   half of the free memory: consumers that have little and want nothing more (cursors that wait
//!   for their clients) leave the memory to the others.
//! - memory-4. The statements of one user have at most seven eighths of the memory of all together,
//!   so that those of other users find some.
//!
//! - memory-5. Rows that scans read ahead have at most an eighth of a pool: a scan works without
//!   them.
//! - memory-6. Uncommitted rows and temporary tables of all sessions have at most half of the pool
//!   of all queries (`UncommittedMemory`), those of one user three quarters of that, and count to
//!   the user's statements, too: sessions that are idle leave memory to statements.
//!
//! - memory-8. Dictionaries of SYMBOL columns are in memory as long as their tables: what they have
//!   is missing in the pool of all queries, of which they leave at least a half.
//!
//! DataFusion's own fair pool lets sorts take everything, and leaves nothing for their merges.
//!
//! - memory-7. The memory of one statement is counted by a pool of its own (`StatementMemory`),
//!   which has a limit, and shares it among the statement's operators as the pool of all shares
//!   everything among all. So one statement alone spills, or fails, at its limit, and others
//!   continue.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};
use tidegate_model::ByteCount;
use tidegate_storage::MemoryBudget;

use crate::options::EngineOptions;

/// The stack size of threads on which statements are planned and run: deeply nested plans are
/// processed by recursion. Only the used part takes memory.
pub const STACK_BYTES: usize = 64 << 20;

/// The name of the memory of rows that scans read ahead (memory-5).
pub(crate) const READ_AHEAD: &str = "ReadAhead";

/// The divisor of the part for them.
const AHEAD: usize = 8;

/// memory-1. The divisor of the part that is kept for consumers that cannot spill.
const KEPT: usize = 4;

/// The divisor of a thread's share of memory that its sorts keep back for merging.
const SORT_RESERVES: usize = 8;
/// More than this makes no merge faster: it is enough to read dozens of files at a time.
const MERGE_BYTES_MAX: usize = 10 << 20;

/// The prefix of DataFusion's name for the merge of a sort.
const MERGE: &str = "ExternalSorterMerge";

/// The level of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The pool of all queries.
    All,
    /// The pool of one statement, a part of that of all (memory-7).
    Statement,
    /// The pool of uncommitted rows, a part of that of all (memory-6).
    Uncommitted,
}

/// The size of a pool, and the number of threads that share it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) bytes_max: usize,
    pub(crate) threads: usize,
    /// The least share of a merge, however many there are (memory-2): as much as its sort reserves
    /// from the start.
    pub(crate) merge_bytes_min: usize,
}

impl Shape {
    /// The shape for all queries of an engine.
    pub(crate) fn of_all(engine: &EngineOptions) -> Shape {
        Shape::of(engine, engine.memory_max)
    }

    /// The shape for one of its statements.
    pub(crate) fn of_one(engine: &EngineOptions) -> Shape {
        Shape::of(engine, engine.statement_memory_max)
    }

    fn of(engine: &EngineOptions, bytes_max: ByteCount) -> Shape {
        let bytes_max = usize::try_from(bytes_max.0).unwrap_or(usize::MAX);
        let (threads, merge_bytes_min) = (engine.threads.get(), merge_bytes(engine));
        Shape { bytes_max, threads, merge_bytes_min }
    }
}

/// A thread's share of memory.
pub(crate) fn share(engine: &EngineOptions) -> usize {
    let bytes = engine.memory_max.min(engine.statement_memory_max).0;
    usize::try_from(bytes).unwrap_or(usize::MAX) / engine.threads.get()
}

/// The bytes that a sort keeps back for merging its spilled rows.
pub(crate) fn merge_bytes(engine: &EngineOptions) -> usize {
    (share(engine) / SORT_RESERVES).min(MERGE_BYTES_MAX)
}

/// A pool of `bytes_max` bytes.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    scope: Scope,
    bytes_max: usize,
    threads: usize,
    merge_bytes_min: usize,
    used: Mutex<Used>,
    /// The dictionaries, which take a part of the pool of all queries (memory-8).
    symbols: Option<Arc<MemoryBudget>>,
}

#[derive(Debug, Default)]
struct Used {
    /// The number of consumers that can spill.
    spillers: usize,
    /// The number of merges.
    merges: usize,
    /// Bytes of consumers that can spill.
    spillable: usize,
    /// Bytes of the other consumers.
    fixed: usize,
    /// The part of them for rows that are read ahead (memory-5).
    ahead: usize,
}

impl Used {
    fn grow(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        if consumer.can_spill() {
            self.spillable += bytes;
            return;
        }
        self.fixed += bytes;
        if consumer.name() == READ_AHEAD {
            self.ahead += bytes;
        }
    }

    fn shrink(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        if consumer.can_spill() {
            self.spillable -= bytes;
            return;
        }
        self.fixed -= bytes;
        if consumer.name() == READ_AHEAD {
            self.ahead -= bytes;
        }
    }
}

impl QueryMemory {
    pub(crate) fn new(scope: Scope, shape: Shape) -> QueryMemory {
        let Shape { bytes_max, threads, merge_bytes_min } = shape;
        let (used, symbols) = (Mutex::default(), None);
        QueryMemory { scope, bytes_max, threads, merge_bytes_min, used, symbols }
    }

    /// The pool of all queries, beside the dictionaries of their database.
    pub(crate) fn of_all(symbols: &Arc<MemoryBudget>, engine: &EngineOptions) -> QueryMemory {
        let pool = QueryMemory::new(Scope::All, Shape::of_all(engine));
        QueryMemory { symbols: Some(Arc::clone(symbols)), ..pool }
    }

    /// The bytes of the pool at this time.
    fn bytes_max(&self) -> usize {
        let symbols = self.symbols.as_ref().map_or(0, |symbols| symbols.used_bytes());
        beside_symbols(self.bytes_max, symbols)
    }

    /// The part of the free memory for a consumer that has more than its share (memory-3).
    /// Operators of one statement have their shares only.
    fn unclaimed(&self, free: usize) -> usize {
        match self.scope {
            Scope::All => free / 2,
            Scope::Statement | Scope::Uncommitted => 0,
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Used) -> T) -> T {
        work(&mut self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The bytes that dictionaries leave of a pool (memory-8).
fn beside_symbols(bytes_max: usize, symbols: u64) -> usize {
    bytes_max - usize::try_from(symbols).unwrap_or(usize::MAX).min(bytes_max / 2)
}

/// The memory that the statements of each user have together (memory-4).
#[derive(Debug)]
pub(crate) struct UserMemories {
    bytes_max: usize,
    users: Mutex<HashMap<String, Weak<UserMemory>>>,
}

/// The memory that the statements of one user have together.
#[derive(Debug)]
pub(crate) struct UserMemory {
    bytes_max: usize,
    used: AtomicUsize,
}

impl UserMemories {
    /// The divisor of the part of the memory of all that is left to other users.
    const OTHERS: usize = 8;
    /// The number of users from which on those without statements are removed.
    const KNOWN: usize = 64;

    /// The memories of the users' statements (memory-4).
    pub(crate) fn of_statements(engine: &EngineOptions) -> UserMemories {
        let (all, one) = (Shape::of_all(engine).bytes_max, Shape::of_one(engine).bytes_max);
        UserMemories::new((all - all / Self::OTHERS).max(one))
    }

    fn new(bytes_max: usize) -> UserMemories {
        UserMemories { bytes_max, users: Mutex::default() }
    }

    /// The memory of a user by its name.
    pub(crate) fn of(&self, user: &str) -> Arc<UserMemory> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = users.get(user).and_then(Weak::upgrade) {
            return known;
        }
        if Self::KNOWN <= users.len() {
            users.retain(|_, memory| 0 < memory.strong_count());
        }
        let memory = Arc::new(UserMemory { bytes_max: self.bytes_max, used: AtomicUsize::new(0) });
        users.insert(user.to_owned(), Arc::downgrade(&memory));
        memory
    }
}

impl UserMemory {
    fn try_grow(&self, consumer: &str, bytes: usize) -> Result<()> {
        let grown = |used: usize| used.checked_add(bytes).filter(|&used| used <= self.bytes_max);
        let Err(used) = self.used.fetch_update(Relaxed, Relaxed, grown) else { return Ok(()) };
        Err(DataFusionError::ResourcesExhausted(format!(
            "{consumer} wants {} more, and the statements of its user have {} of the {} that one \
             user may have together",
            human_readable_size(bytes),
            human_readable_size(used),
            human_readable_size(self.bytes_max),
        )))
    }

    fn grow(&self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
    }

    fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

fn is_merge(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(MERGE)
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = human_readable_size(self.bytes_max());
        match self.scope {
            Scope::All => write!(f, "query memory of {bytes}"),
            Scope::Statement => write!(f, "{bytes} of a statement (query.memory_limit)"),
            Scope::Uncommitted => {
                write!(f, "{bytes} of uncommitted rows and temporary tables of all sessions")
            }
        }
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &'static str {
        "query memory"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.with(|used| {
            used.spillers += usize::from(consumer.can_spill());
            used.merges += usize::from(is_merge(consumer));
        });
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.with(|used| {
            used.spillers -= usize::from(consumer.can_spill());
            used.merges -= usize::from(is_merge(consumer));
        });
    }

    fn grow(&self, reservation: &MemoryReservation, bytes: usize) {
        self.with(|used| used.grow(reservation.consumer(), bytes));
    }

    fn shrink(&self, reservation: &MemoryReservation, bytes: usize) {
        self.with(|used| used.shrink(reservation.consumer(), bytes));
    }

    fn try_grow(&self, reservation: &MemoryReservation, bytes: usize) -> Result<()> {
        let can_spill = reservation.consumer().can_spill();
        let bytes_max = self.bytes_max();
        let left = self.with(|used| {
            // memory-1.
            let free = if can_spill {
                let all = bytes_max.saturating_sub(used.fixed);
                let all = all.min(bytes_max - bytes_max / KEPT);
                let share = all / used.spillers.max(1);
                let share = share.saturating_sub(reservation.size());
                match self.scope {
                    Scope::All => {
                        let free = all.saturating_sub(used.spillable);
                        free.min(share.max(self.unclaimed(free)))
                    }
                    Scope::Statement | Scope::Uncommitted => share,
                }
            } else {
                let mut free = bytes_max.saturating_sub(used.fixed + used.spillable);
                if is_merge(reservation.consumer()) {
                    // memory-2.
                    let shared = bytes_max - bytes_max / KEPT;
                    let share = shared / used.merges.max(self.threads);
                    let share = share.max(self.merge_bytes_min);
                    let share = share.saturating_sub(reservation.size());
                    free = free.min(share.max(self.unclaimed(free)));
                }
                if reservation.consumer().name() == READ_AHEAD {
                    // memory-5.
                    let ahead = bytes_max / AHEAD;
                    free = free.min(ahead.saturating_sub(used.ahead));
                }
                free
            };
            if bytes <= free {
                used.grow(reservation.consumer(), bytes);
                return None;
            }
            Some(free)
        });
        let Some(left) = left else { return Ok(()) };
        Err(DataFusionError::ResourcesExhausted(format!(
            "{} has {} and wants {} more, of which {} are left in the {self}",
            reservation.consumer().name(),
            human_readable_size(reservation.size()),
            human_readable_size(bytes),
            human_readable_size(left),
        )))
    }

    fn reserved(&self) -> usize {
        self.with(|used| used.spillable + used.fixed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes_max())
    }
}

/// The memory of uncommitted rows and temporary tables of all sessions (memory-6).
#[derive(Debug)]
pub(crate) struct UncommittedMemory {
    pool: Arc<dyn MemoryPool>,
    shape: Shape,
    users: UserMemories,
}

impl UncommittedMemory {
    /// The divisor of the part of the memory of all.
    const PART: usize = 2;
    /// The divisor of that part which one user leaves to others.
    const OTHERS: usize = 4;

    pub(crate) fn new(all: &Arc<dyn MemoryPool>, engine: &EngineOptions) -> UncommittedMemory {
        let mut shape = Shape::of_all(engine);
        shape.bytes_max /= Self::PART;
        let own = QueryMemory::new(Scope::Uncommitted, shape);
        let pool = Arc::new(StatementMemory { all: Arc::clone(all), user: None, own });
        let users = UserMemories::new(shape.bytes_max - shape.bytes_max / Self::OTHERS);
        UncommittedMemory { pool, shape, users }
    }

    /// The pool of the sessions of a user; of that of all if the user has no name.
    pub(crate) fn of(&self, user: Option<(&str, Arc<UserMemory>)>) -> Arc<dyn MemoryPool> {
        let Some((name, statements)) = user else { return Arc::clone(&self.pool) };
        let part = |all: &Arc<dyn MemoryPool>, user| -> Arc<dyn MemoryPool> {
            let own = QueryMemory::new(Scope::Uncommitted, self.shape);
            Arc::new(StatementMemory { all: Arc::clone(all), user: Some(user), own })
        };
        part(&part(&self.pool, self.users.of(name)), statements)
    }
}

/// The memory of one statement: a part of that of all, with its own limit (memory-7).
#[derive(Debug)]
pub(crate) struct StatementMemory {
    all: Arc<dyn MemoryPool>,
    /// The memory of its user; `None` if the user has no name.
    user: Option<Arc<UserMemory>>,
    own: QueryMemory,
}

impl StatementMemory {
    pub(crate) fn new(
        all: &Arc<dyn MemoryPool>,
        user: Option<Arc<UserMemory>>,
        shape: Shape,
    ) -> StatementMemory {
        let own = QueryMemory::new(Scope::Statement, shape);
        StatementMemory { all: Arc::clone(all), user, own }
    }

    /// The bytes that it has reserved.
    pub(crate) fn bytes(&self) -> u64 {
        self.own.reserved() as u64
    }
}

impl fmt::Display for StatementMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own.fmt(f)
    }
}

impl MemoryPool for StatementMemory {
    delegate! { own:
        fn reserved(&self) -> usize;
        fn memory_limit(&self) -> MemoryLimit;
    }

    fn name(&self) -> &'static str {
        "statement memory"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, bytes: usize) {
        self.own.grow(reservation, bytes);
        self.user.iter().for_each(|user| user.grow(bytes));
        self.all.grow(reservation, bytes);
    }

    fn shrink(&self, reservation: &MemoryReservation, bytes: usize) {
        self.own.shrink(reservation, bytes);
        self.user.iter().for_each(|user| user.shrink(bytes));
        self.all.shrink(reservation, bytes);
    }

    fn try_grow(&self, reservation: &MemoryReservation, bytes: usize) -> Result<()> {
        self.own.try_grow(reservation, bytes)?;
        let consumer = reservation.consumer().name();
        let mut granted = match &self.user {
            Some(user) => user.try_grow(consumer, bytes),
            None => Ok(()),
        };
        if granted.is_ok() {
            granted = self.all.try_grow(reservation, bytes);
            if granted.is_err() {
                self.user.iter().for_each(|user| user.shrink(bytes));
            }
        }
        if granted.is_err() {
            self.own.shrink(reservation, bytes);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_leave_at_least_half_of_the_pool() {
        for (symbols, left) in [(0, 1_000), (300, 700), (500, 500), (501, 500), (u64::MAX, 500)] {
            assert_eq!(beside_symbols(1_000, symbols), left, "memory-8");
        }
    }

    fn shape(bytes_max: usize, threads: usize, merge_bytes_min: usize) -> Shape {
        Shape { bytes_max, threads, merge_bytes_min }
    }

    #[test]
    fn operators_that_cannot_spill_have_a_quarter_of_the_memory() {
        let pool = QueryMemory::new(Scope::Statement, shape(1_000, 2, 1));
        let pool: Arc<dyn MemoryPool> = Arc::new(pool);
        let sorts = [0, 1].map(|number| {
            MemoryConsumer::new(format!("sort {number}")).with_can_spill(true).register(&pool)
        });
        for sort in &sorts {
            sort.try_grow(375).expect("half of three quarters");
            let error = sort.try_grow(1).unwrap_err().to_string();
            assert!(error.contains("has 375.0 B and wants 1.0 B more"), "memory-1: {error}");
        }
        let merge = MemoryConsumer::new("merge").register(&pool);
        merge.try_grow(250).expect("a quarter");
        assert!(merge.try_grow(1).is_err(), "memory-1");
        assert_eq!(pool.reserved(), 1_000);
        drop(sorts);
        merge.try_grow(700).expect("the sorts are gone");
        let late = MemoryConsumer::new("late").with_can_spill(true).register(&pool);
        late.try_grow(50).expect("what the others leave");
        assert!(late.try_grow(1).is_err(), "memory-1");
    }

    #[test]
    fn merges_share_the_memory_reserved_for_them() {
        let pool = QueryMemory::new(Scope::Statement, shape(1_000, 2, 60));
        let pool: Arc<dyn MemoryPool> = Arc::new(pool);
        let merge = |number| MemoryConsumer::new(format!("{MERGE}[{number}]")).register(&pool);
        let (first, second) = (merge(0), merge(1));
        first.try_grow(375).expect("half of three quarters");
        assert!(first.try_grow(1).is_err(), "memory-2");
        second.try_grow(375).expect("the other half");
        drop(second);
        assert!(first.try_grow(1).is_err(), "memory-2");
        drop(first);
        let many = (0..16).map(merge).collect::<Vec<_>>();
        let (few, others) = many.split_at(15);
        assert!(few.iter().all(|merge| merge.try_grow(60).is_ok()), "memory-2");
        assert!(few.iter().all(|merge| merge.try_grow(1).is_err()), "memory-2");
        assert!(others[0].try_grow(60).is_ok());
    }

    /// Four cursors that waited for their clients, and had next to nothing, made the merges of all
    /// other sorts fail.
    #[test]
    fn sharers_that_want_nothing_leave_the_memory_to_others() {
        let all: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(Scope::All, shape(1_600, 2, 1)));
        let idle = (0..100).map(|number| {
            let sort = MemoryConsumer::new(format!("sort {number}")).with_can_spill(true);
            (sort.register(&all), MemoryConsumer::new(format!("{MERGE}[{number}]")).register(&all))
        });
        let _idle = idle.collect::<Vec<_>>();
        let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&all);
        (0..6).for_each(|_| sort.try_grow(100).expect("memory-3: half of what is free"));
        assert!(sort.try_grow(400).is_err(), "memory-3: the rest is for others");
        let merge = MemoryConsumer::new(format!("{MERGE}[x]")).register(&all);
        (0..5).for_each(|_| merge.try_grow(100).expect("memory-3"));
        let other = MemoryConsumer::new("sort").with_can_spill(true).register(&all);
        other.try_grow(100).expect("memory-3");
    }

    #[test]
    fn the_statements_of_one_user_leave_some_memory_to_others() {
        let all: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(Scope::All, shape(800, 2, 1)));
        let users = UserMemories::new(700);
        let statement = |user: &str| -> Arc<dyn MemoryPool> {
            Arc::new(StatementMemory::new(&all, Some(users.of(user)), shape(400, 2, 1)))
        };
        let held = [statement("ann"), statement("ann")]
            .map(|memory| MemoryConsumer::new("held").register(&memory));
        held[0].try_grow(400).expect("its own");
        let error = held[1].try_grow(301).unwrap_err().to_string();
        let expected = "held wants 301.0 B more, and the statements of its user have 400.0 B";
        assert!(error.contains(expected), "memory-4: {error}");
        held[1].try_grow(300).expect("memory-4: seven eighths");
        let other = MemoryConsumer::new("held").register(&statement("bob"));
        assert!(other.try_grow(101).is_err());
        other.try_grow(100).expect("memory-4: the last eighth");
        drop(held);
        let later = MemoryConsumer::new("held").register(&statement("ann"));
        later.try_grow(400).expect("memory-4: all was given back");
        for number in 0..1_000 {
            drop(users.of(&number.to_string()));
        }
        assert!(users.users.lock().unwrap().len() <= UserMemories::KNOWN);
    }

    #[test]
    fn rows_read_ahead_have_an_eighth() {
        let pool = QueryMemory::new(Scope::All, shape(800, 2, 1));
        let pool: Arc<dyn MemoryPool> = Arc::new(pool);
        let [first, second] = [0, 1].map(|_| MemoryConsumer::new(READ_AHEAD).register(&pool));
        first.try_grow(60).expect("memory-5");
        assert!(second.try_grow(41).is_err(), "memory-5");
        second.try_grow(40).expect("memory-5: an eighth together");
        first.shrink(60);
        second.try_grow(60).expect("memory-5: it was given back");
        MemoryConsumer::new("held").register(&pool).try_grow(700).expect("the rest is for others");
    }

    /// Idle transactions of one user took nearly all memory, and statements were cancelled for it.
    #[test]
    fn uncommitted_rows_leave_half_of_the_memory_to_statements() {
        let all: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(Scope::All, shape(1_600, 2, 1)));
        let own = QueryMemory::new(Scope::Uncommitted, shape(800, 2, 1));
        let uncommitted = UncommittedMemory {
            pool: Arc::new(StatementMemory { all: Arc::clone(&all), user: None, own }),
            shape: shape(800, 2, 1),
            users: UserMemories::new(600),
        };
        let statements = UserMemories::new(1_400);
        let session = |user: &str| uncommitted.of(Some((user, statements.of(user))));
        let held = |pool: &Arc<dyn MemoryPool>| MemoryConsumer::new("rows").register(pool);
        let ann = [session("ann"), session("ann")].map(|pool| held(&pool));
        ann[0].try_grow(400).expect("memory-6");
        assert!(ann[1].try_grow(201).is_err(), "memory-6: three quarters of the half");
        ann[1].try_grow(200).expect("memory-6");
        let bob = held(&session("bob"));
        assert!(bob.try_grow(201).is_err(), "memory-6: half of all");
        bob.try_grow(200).expect("memory-6");
        let of_ann = StatementMemory::new(&all, Some(statements.of("ann")), shape(1_600, 2, 1));
        let of_ann: Arc<dyn MemoryPool> = Arc::new(of_ann);
        let statement = held(&of_ann);
        assert!(statement.try_grow(801).is_err(), "memory-6: they count to the user's statements");
        statement.try_grow(800).expect("half of all");
        drop((ann, bob, statement));
        assert_eq!((all.reserved(), statements.of("ann").used.load(Relaxed)), (0, 0));
    }

    #[test]
    fn memory_is_counted_per_statement() {
        let all: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(Scope::All, shape(1_000, 2, 1)));
        let [ours, other] =
            [0, 1].map(|_| Arc::new(StatementMemory::new(&all, None, shape(1_000, 2, 1))));
        let pool: Arc<dyn MemoryPool> = Arc::clone(&ours) as _;
        let held = MemoryConsumer::new("held").register(&pool);
        held.try_grow(300).expect("there is enough");
        held.grow(50);
        assert!(held.try_grow(10_000).is_err());
        assert_eq!((ours.bytes(), other.bytes(), all.reserved()), (350, 0, 350));
        held.shrink(100);
        assert_eq!(ours.bytes(), 250);
        drop(held);
        assert_eq!((ours.bytes(), all.reserved()), (0, 0));
    }

    #[test]
    fn a_statement_has_no_more_than_its_limit_and_leaves_the_rest_to_others() {
        let all: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(Scope::All, shape(1_000, 2, 1)));
        let statement = || -> Arc<dyn MemoryPool> {
            Arc::new(StatementMemory::new(&all, None, shape(400, 2, 1)))
        };
        let (first, second) = (statement(), statement());
        let join = MemoryConsumer::new("HashJoinInput").register(&first);
        join.try_grow(400).expect("all that it may have");
        let error = join.try_grow(1).unwrap_err().to_string();
        let expected = "HashJoinInput has 400.0 B and wants 1.0 B more";
        assert!(
            error.contains(expected) && error.contains("query.memory_limit"),
            "memory-7: {error}"
        );
        assert_eq!((first.reserved(), all.reserved()), (400, 400));
        // A consumer that can spill has its share of the statement's memory, and not of that of
        // all.
        let sorts = [0, 1].map(|number| {
            MemoryConsumer::new(format!("sort {number}")).with_can_spill(true).register(&second)
        });
        for sort in &sorts {
            sort.try_grow(150).expect("half of three quarters");
            assert!(sort.try_grow(1).is_err(), "memory-7");
        }
        // A reservation that the pool of all refuses is not counted in the statement's either.
        let third = statement();
        let late = MemoryConsumer::new("late").register(&third);
        assert!(late.try_grow(350).is_err());
        assert_eq!((third.reserved(), all.reserved()), (0, 700));
        late.try_grow(300).expect("what the others leave");
    }
}
