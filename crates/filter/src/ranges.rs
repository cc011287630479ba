//! Sets of values as ranges, and the truth of a condition on one column for every value.
//!
//! - ranges-1. Ranges are half-open, ascending, and neither touch nor overlap.
//! - ranges-2. A `Truth` has every value at most once: where it is TRUE or where it is FALSE; for
//!   all others it is NULL.
//!
//! Keys are numbers with the order of the values, or the bytes of texts.

use std::borrow::Borrow;

use crate::interpret::Node;
use crate::ir::CompareOp;
use crate::scalar::Scalar;

/// A type whose values form ranges.
pub(crate) trait Key: Ord + Clone {
    /// The least key.
    fn least() -> Self;
    /// The next key above this one; `None` if there is none.
    fn above(&self) -> Option<Self>;
}

impl Key for i128 {
    fn least() -> i128 {
        i128::MIN
    }

    fn above(&self) -> Option<i128> {
        self.checked_add(1)
    }
}

impl Key for Vec<u8> {
    fn least() -> Vec<u8> {
        Vec::new()
    }

    fn above(&self) -> Option<Vec<u8>> {
        let mut above = self.clone();
        above.push(0);
        Some(above)
    }
}

/// A set of keys (ranges-1). `None` as the end of a range means that it is unbounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranges<K>(Vec<(K, Option<K>)>);

impl<K: Key> Ranges<K> {
    pub(crate) fn none() -> Ranges<K> {
        Ranges(Vec::new())
    }

    pub(crate) fn all() -> Ranges<K> {
        Ranges(vec![(K::least(), None)])
    }

    /// The keys from `start` up to `end`.
    pub(crate) fn between(start: K, end: Option<K>) -> Ranges<K> {
        if end.as_ref().is_some_and(|end| *end <= start) {
            return Ranges::none();
        }
        Ranges(vec![(start, end)])
    }

    /// The keys for which the comparison with `key` holds.
    pub(crate) fn comparing(op: CompareOp, key: &K) -> Ranges<K> {
        let below = || Ranges::between(K::least(), Some(key.clone()));
        let above = || key.above().map_or_else(Ranges::none, |above| Ranges::between(above, None));
        match op {
            CompareOp::Eq => Ranges::between(key.clone(), key.above()),
            CompareOp::Ne => Ranges::comparing(CompareOp::Eq, key).complement(),
            CompareOp::Lt => below(),
            CompareOp::Le => above().complement(),
            CompareOp::Gt => above(),
            CompareOp::Ge => below().complement(),
        }
    }

    /// The union of the sets.
    pub(crate) fn union_all(sets: impl IntoIterator<Item = Ranges<K>>) -> Ranges<K> {
        let mut ranges: Vec<_> = sets.into_iter().flat_map(|set| set.0).collect();
        ranges.sort();
        let mut joined: Vec<(K, Option<K>)> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match joined.last_mut() {
                Some((_, None)) => break,
                Some((_, Some(last))) if start <= *last => {
                    match end {
                        Some(end) if end <= *last => {}
                        end => joined.last_mut().expect("there is one").1 = end,
                    };
                }
                _ => joined.push((start, end)),
            }
        }
        Ranges(joined)
    }

    /// The keys that are not in the set.
    pub(crate) fn complement(&self) -> Ranges<K> {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut from = Some(K::least());
        for (start, end) in &self.0 {
            if let Some(from) = from.take().filter(|from| from < start) {
                gaps.push((from, Some(start.clone())));
            }
            from.clone_from(end);
        }
        if let Some(from) = from {
            gaps.push((from, None));
        }
        Ranges(gaps)
    }

    /// The intersection of the sets.
    pub(crate) fn intersect_all(sets: impl IntoIterator<Item = Ranges<K>>) -> Ranges<K> {
        Ranges::union_all(sets.into_iter().map(|set| set.complement())).complement()
    }

    pub(crate) fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let behind = self.0.partition_point(|(start, _)| start.borrow() <= key);
        let Some((_, end)) = behind.checked_sub(1).map(|at| &self.0[at]) else { return false };
        end.as_ref().is_none_or(|end| key < end.borrow())
    }

    /// Returns true if a key from `least` to `greatest` is in the set; `None` is above all keys.
    pub(crate) fn overlaps(&self, least: &K, greatest: Option<&K>) -> bool {
        let first = self.0.partition_point(|(_, end)| end.as_ref().is_some_and(|end| end <= least));
        self.0
            .get(first)
            .is_some_and(|(start, _)| greatest.is_none_or(|greatest| start <= greatest))
    }

    /// Returns true if every key from `least` to `greatest` is in the set; `None` is above all
    /// keys.
    pub(crate) fn covers(&self, least: &K, greatest: Option<&K>) -> bool {
        let behind = self.0.partition_point(|(start, _)| start <= least);
        let Some((_, end)) = behind.checked_sub(1).map(|at| &self.0[at]) else { return false };
        end.as_ref().is_none_or(|end| greatest.is_some_and(|greatest| greatest < end))
    }

    /// The ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, Option<K>)> {
        self.0.iter()
    }
}

/// The truth of a condition on one column for each of its values (ranges-2).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Truth<K> {
    /// The values for which it is TRUE.
    pub(crate) yes: Ranges<K>,
    /// The values for which it is FALSE.
    pub(crate) no: Ranges<K>,
    /// The truth for NULL.
    pub(crate) on_null: Option<bool>,
}

impl<K: Key> Truth<K> {
    fn always(truth: Option<bool>) -> Truth<K> {
        let if_it = |wanted| if truth == Some(wanted) { Ranges::all() } else { Ranges::none() };
        Truth { yes: if_it(true), no: if_it(false), on_null: truth }
    }

    /// TRUE in `yes`, FALSE elsewhere, NULL for NULL.
    fn of_values(yes: Ranges<K>) -> Truth<K> {
        Truth { no: yes.complement(), yes, on_null: None }
    }

    fn negated(self) -> Truth<K> {
        Truth { yes: self.no, no: self.yes, on_null: self.on_null.map(|truth| !truth) }
    }

    fn all_of(parts: Vec<Truth<K>>) -> Truth<K> {
        let mut on_null = Some(true);
        for part in &parts {
            on_null = match (on_null, part.on_null) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
        }
        Truth {
            yes: Ranges::intersect_all(parts.iter().map(|part| part.yes.clone())),
            no: Ranges::union_all(parts.into_iter().map(|part| part.no)),
            on_null,
        }
    }

    fn any_of(parts: Vec<Truth<K>>) -> Truth<K> {
        Truth::all_of(parts.into_iter().map(Truth::negated).collect()).negated()
    }

    /// The truth of a condition on one column, if it only compares the column itself with
    /// constants; `key` gives the keys of the constants.
    pub(crate) fn of(node: &Node, key: &impl Fn(&Scalar<'_>) -> Option<K>) -> Option<Truth<K>> {
        let each = |list: &[Node]| -> Option<Vec<Truth<K>>> {
            list.iter().map(|part| Truth::of(part, key)).collect()
        };
        match node {
            Node::Literal(_, value) => Some(Truth::always(match Scalar::of(value) {
                Scalar::Null => None,
                value => Some(value.truth()?),
            })),
            Node::Column(_) => {
                Some(Truth::of_values(Ranges::comparing(CompareOp::Eq, &key(&Scalar::Bit(true))?)))
            }
            Node::And(list) => Some(Truth::all_of(each(list)?)),
            Node::Or(list) => Some(Truth::any_of(each(list)?)),
            Node::Not(expr) => Some(Truth::of(expr, key)?.negated()),
            Node::IsNull(expr) => match &**expr {
                Node::Column(_) => {
                    Some(Truth { yes: Ranges::none(), no: Ranges::all(), on_null: Some(true) })
                }
                _ => None,
            },
            Node::Compare { op, left, right } => match (&**left, &**right) {
                (Node::Column(_), Node::Literal(_, value)) => {
                    Truth::comparing(*op, &Scalar::of(value), key)
                }
                (Node::Literal(_, value), Node::Column(_)) => {
                    Truth::comparing(op.flipped(), &Scalar::of(value), key)
                }
                _ => None,
            },
            Node::In { expr, list } => match &**expr {
                Node::Column(_) => {
                    let equal = |part: &Node| match part {
                        Node::Literal(_, value) => {
                            Truth::comparing(CompareOp::Eq, &Scalar::of(value), key)
                        }
                        _ => None,
                    };
                    Some(Truth::any_of(list.iter().map(equal).collect::<Option<_>>()?))
                }
                _ => None,
            },
            Node::Like { expr, pattern } => match (&**expr, pattern.as_prefix(), pattern.as_text())
            {
                (Node::Column(_), Some(prefix), _) => {
                    let first = key(&Scalar::Bytes(prefix.into()))?;
                    let end = match behind_prefix(prefix) {
                        Some(end) => Some(key(&Scalar::Bytes(end.into()))?),
                        None => None,
                    };
                    Some(Truth::of_values(Ranges::between(first, end)))
                }
                (Node::Column(_), _, Some(text)) => {
                    Truth::comparing(CompareOp::Eq, &Scalar::Bytes(text.into()), key)
                }
                _ => None,
            },
            Node::Arithmetic { .. }
            | Node::Negate { .. }
            | Node::Cast { .. }
            | Node::Case { .. } => None,
        }
    }

    fn comparing(
        op: CompareOp,
        value: &Scalar<'_>,
        key: &impl Fn(&Scalar<'_>) -> Option<K>,
    ) -> Option<Truth<K>> {
        match value {
            Scalar::Null => Some(Truth::always(None)),
            value => Some(Truth::of_values(Ranges::comparing(op, &key(value)?))),
        }
    }
}

/// The least text above all texts that begin with `prefix`.
pub(crate) fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(i128, i128)]) -> Ranges<i128> {
        Ranges::union_all(ranges.iter().map(|&(start, end)| Ranges::between(start, Some(end))))
    }

    #[test]
    fn sets_are_what_their_keys_say() {
        let (a, b) = (set(&[(0, 3), (3, 5), (9, 12)]), set(&[(4, 10), (20, 21), (8, 9)]));
        assert_eq!(a, set(&[(0, 5), (9, 12)]), "ranges-1");
        let union = Ranges::union_all([a.clone(), b.clone()]);
        let both = Ranges::intersect_all([a.clone(), b.clone()]);
        for key in -2..25 {
            assert_eq!(union.contains(&key), a.contains(&key) || b.contains(&key));
            assert_eq!(both.contains(&key), a.contains(&key) && b.contains(&key));
            assert_eq!(a.complement().contains(&key), !a.contains(&key));
            for greatest in key..25 {
                let mut keys = key..=greatest;
                assert_eq!(
                    a.overlaps(&key, Some(&greatest)),
                    keys.clone().any(|key| a.contains(&key))
                );
                assert_eq!(a.covers(&key, Some(&greatest)), keys.all(|key| a.contains(&key)));
            }
        }
        assert_eq!(Ranges::<i128>::all().complement(), Ranges::none());
        assert_eq!(Ranges::comparing(CompareOp::Le, &i128::MAX), Ranges::all());
        assert_eq!(Ranges::comparing(CompareOp::Gt, &i128::MAX), Ranges::none());
    }

    #[test]
    fn prefixes_end_before_the_next_text() {
        assert_eq!(behind_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind_prefix(&[b'a', 255]), Some(vec![b'b']));
        assert_eq!(behind_prefix(&[255, 255]), None);
        assert_eq!(behind_prefix(b""), None);
    }
}
