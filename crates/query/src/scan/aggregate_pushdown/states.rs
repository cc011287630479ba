//! The states of a pushed aggregate, one of each fold for each group.

use std::ops::Range;

use tidegate_filter::aggregate::Accumulator;

use super::plan::PushedAggregate;

/// The states of all slots.
pub(super) struct States {
    /// The number of rows of each.
    pub(super) rows: Vec<u64>,
    pub(super) folds: Vec<Accumulator>,
}

impl States {
    pub(super) fn new(plan: &PushedAggregate) -> States {
        let folds = plan.folds.iter().map(|&fold| Accumulator::new(fold, plan.slots));
        States { rows: vec![0; plan.slots], folds: folds.collect() }
    }

    /// Adds slots without rows, until there are so many.
    pub(super) fn grow(&mut self, slots: usize) {
        if self.rows.len() < slots {
            self.rows.resize(slots, 0);
            self.folds.iter_mut().for_each(|fold| fold.grow(slots));
        }
    }

    /// Returns the bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        let folds = self.folds.iter().map(Accumulator::bytes).sum::<usize>();
        self.rows.capacity() * size_of::<u64>() + folds
    }

    /// Merges states of another worker, which are of other rows, into one slot each.
    pub(super) fn merge_groups(&mut self, slots: &[u32], other: &States, from: Range<usize>) {
        for (&slot, rows) in slots.iter().zip(&other.rows[from.clone()]) {
            self.rows[slot as usize] += rows;
        }
        for (fold, other) in self.folds.iter_mut().zip(&other.folds) {
            fold.merge_groups(slots, other, from.start);
        }
    }

    /// Returns the states of these slots.
    pub(super) fn gathered(&self, slots: &[u32]) -> States {
        let rows = slots.iter().map(|&slot| self.rows[slot as usize]).collect();
        States { rows, folds: self.folds.iter().map(|fold| fold.gathered(slots)).collect() }
    }

    /// Removes all slots, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.folds.iter_mut().for_each(Accumulator::clear);
    }

    /// Merges the states of another worker, which are of other rows.
    pub(super) fn merge(&mut self, other: &States) {
        for (rows, other) in self.rows.iter_mut().zip(&other.rows) {
            *rows += other;
        }
        for (fold, other) in self.folds.iter_mut().zip(&other.folds) {
            fold.merge(other);
        }
    }
}
