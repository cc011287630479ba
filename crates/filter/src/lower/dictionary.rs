//! Translation of conditions into codes of a dictionary, by binary search or by evaluating every
//! value once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_model::frame::Dictionary;
use tidegate_model::{Codes, Encoded};

use super::like_of;
use crate::code_automaton::CodeAutomaton;
use crate::code_set::{CodeSet, RangeBuilder, code_width};
use crate::column::Column;
use crate::error::{Error, Result};
use crate::filter::Conjunct;
use crate::kernel::CodeRange;
use crate::ranges::Ranges;
use crate::scalar::Scalar;
use crate::text::{Entries, Texts};

/// The sets of codes that were computed for the dictionaries of one segment and one filter.
///
/// Threads may share it. A cache belongs to one filter, and to memory that does not change: the key
/// of a dictionary is its address.
#[derive(Debug, Default)]
pub struct LowerCache {
    sets: Mutex<HashMap<CacheKey, Arc<Slot>>>,
}

/// The maximum number of cached sets: three widths for each of many conjuncts. Further sets are
/// computed every time.
const SETS_MAX: usize = 1_024;

type Slot = OnceLock<Result<Arc<CodeSet>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CacheKey {
    conjunct: usize,
    /// The address of the dictionary, its number of values, the bytes of a code.
    address: usize,
    count: usize,
    width: usize,
}

impl LowerCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new() -> LowerCache {
        LowerCache::default()
    }

    /// The set of a conjunct for the dictionary of a column. It is computed once; threads that need
    /// it meanwhile wait for it.
    pub(super) fn get_or_find(
        &self,
        conjunct: usize,
        column: &Column<'_>,
        find: impl FnOnce() -> Result<Vec<CodeRange>>,
    ) -> Result<Arc<CodeSet>> {
        let Encoded::Dictionary { codes, dictionary } = &column.slice.encoded else {
            return Err(Error::FrameShape { column: column.position, ty: column.slice.ty });
        };
        let width = code_width(codes);
        let find = || find().map(|ranges| Arc::new(CodeSet::new(width, ranges)));
        let address = match dictionary {
            Dictionary::Strings(strings) => strings.offsets.as_ptr().addr(),
            Dictionary::Symbols(ids) => ids.as_ptr().addr(),
        };
        let key = CacheKey { conjunct, address, count: dictionary.count(), width };
        match self.slot(key) {
            Some(slot) => slot.get_or_init(find).clone(),
            None => find(),
        }
    }

    fn slot(&self, key: CacheKey) -> Option<Arc<Slot>> {
        // The map is consistent even if a thread panicked: slots are only added.
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.len() >= SETS_MAX && !sets.contains_key(&key) {
            return None;
        }
        Some(Arc::clone(sets.entry(key).or_default()))
    }
}

/// The codes and the dictionary of a column, if it has one.
pub(super) fn of<'c, 'a>(column: &'c Column<'a>) -> Option<(Codes<'a>, &'c Entries<'a>)> {
    match &column.slice.encoded {
        Encoded::Dictionary { codes, .. } => Some((*codes, column.entries()?)),
        _ => None,
    }
}

/// The codes whose texts are in the set; codes ascend with their texts.
pub(super) fn ranges_of_texts(
    entries: &Entries<'_>,
    yes: &Ranges<Vec<u8>>,
) -> Result<Vec<CodeRange>> {
    let count = entries.count() as u64;
    let mut scratch = Vec::new();
    // The first code whose text is at least `text`, and not below `from`.
    let mut first_at = |text: &[u8], from: u64| -> Result<u64> {
        let (mut low, mut high) = (from, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if entries.at(middle, &mut scratch)? < text {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    };
    let mut ranges = RangeBuilder::default();
    let mut from = 0;
    for (start, end) in yes.iter() {
        let first = first_at(start, from)?;
        let behind = end.as_ref().map_or(Ok(count), |end| first_at(end, first))?;
        if first < behind {
            ranges.push(first, behind - 1);
        }
        from = behind;
    }
    Ok(ranges.0)
}

/// The codes for whose values the conjunct is TRUE.
pub(super) fn ranges_of_values(
    entries: &Entries<'_>,
    conjunct: &Conjunct,
) -> Result<Vec<CodeRange>> {
    let pattern = like_of(conjunct);
    if let (Some((pattern, negated)), Some(texts)) = (pattern, entries.texts())
        && let Some(automaton) = CodeAutomaton::of(pattern, texts)
    {
        return Ok(ranges_matching(texts, &automaton, negated));
    }
    let mut ranges = RangeBuilder::default();
    let mut scratch = Vec::new();
    for code in 0..entries.count() as u64 {
        let text = entries.at(code, &mut scratch)?;
        let matches = match pattern {
            Some((pattern, negated)) => pattern.matches(text) != negated,
            None => conjunct.selects_value(&Scalar::Bytes(text.to_vec().into()))?,
        };
        if matches {
            ranges.push(code, code);
        }
    }
    Ok(ranges.0)
}

/// The codes whose compressed texts match a pattern.
fn ranges_matching(texts: &Texts<'_>, automaton: &CodeAutomaton, negated: bool) -> Vec<CodeRange> {
    let mut selected = vec![false; texts.count()];
    let stored = (0..texts.count()).map(|code| (code, texts.stored(code)));
    automaton.match_all(stored, |code, matches| selected[code] = matches != negated);
    let mut ranges = RangeBuilder::default();
    for (code, _) in (0_u64..).zip(selected).filter(|(_, is_selected)| *is_selected) {
        ranges.push(code, code);
    }
    ranges.0
}
