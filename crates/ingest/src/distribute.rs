//! Rows of a strip go to the slabs of their buckets, a column at a time.
//!
//! - M1. A row's place is a slab that the worker owns and a row below that slab's capacity; it is
//!   given out once.
//! - M2. Columns of a slab do not overlap and are aligned (Y1), and a strip's values have the width
//!   of their column, so every store lands in its column.

#![expect(unsafe_code, reason = "stores through slab pointers, one a value")]

use std::sync::Arc;

use crate::bucket::{Buckets, HeldSlab};
use crate::layout::{ColumnLayout, INTERNED, NULL_SLOT, Slab, TEXT_PAGES_MAX};
use crate::strip::{Cell, CellKind, Place, STRIP_ROWS, Strip, StripColumn, Values};

/// A worker's side of the buckets: the slabs it is filling.
#[derive(Debug)]
pub(crate) struct Distributor {
    buckets: Arc<Buckets>,
    worker: u32,
    /// How many slabs were begun.
    begun: u64,
    /// For each bucket, the slab of `slabs` it is filling.
    current: Vec<Option<usize>>,
    slabs: Vec<Filling>,
    /// Unused places in `slabs`.
    vacant: Vec<usize>,
    places: Vec<RowTarget>,
    full: Vec<usize>,
    bases: Vec<Base>,
}

#[derive(Debug)]
struct Filling {
    bucket: usize,
    held: Option<HeldSlab>,
    /// Text bytes that are counted in `held`.
    counted: usize,
}

/// Where a row goes: `slab` is an index of `Distributor::slabs`.
#[derive(Debug, Clone, Copy)]
struct RowTarget {
    slab: u32,
    row: u32,
}

/// The memory of a slab.
#[derive(Debug, Clone, Copy)]
struct Base {
    pointer: *mut u8,
    capacity: usize,
}

// SAFETY: the pointers are filled and used within one call of `distribute`; between calls they are
// not used at all.
unsafe impl Send for Base {}

impl Distributor {
    pub(crate) fn new(buckets: Arc<Buckets>, worker: u32) -> Distributor {
        let current = vec![None; buckets.count()];
        Distributor {
            buckets,
            worker,
            begun: 0,
            current,
            slabs: Vec::new(),
            vacant: Vec::new(),
            places: Vec::with_capacity(STRIP_ROWS),
            full: Vec::new(),
            bases: Vec::new(),
        }
    }

    /// Copies every row of the strip that is not dead to its bucket. `text` is the piece that its
    /// cells point into. Returns how many rows that were.
    pub(crate) fn distribute(&mut self, strip: &Strip, text: &[u8]) -> usize {
        self.place_rows(strip);
        if self.places.is_empty() {
            return 0;
        }
        self.bases.clear();
        for filling in &mut self.slabs {
            self.bases.push(match &mut filling.held {
                Some(held) => {
                    Base { pointer: held.slab.fixed.as_mut_ptr(), capacity: held.slab.capacity }
                }
                None => Base { pointer: std::ptr::null_mut(), capacity: 0 },
            });
        }
        let live = LiveRows { rows: strip.rows, dead: &strip.dead };
        let buckets = Arc::clone(&self.buckets);
        for (index, (layout, column)) in
            buckets.layout.columns.iter().zip(&strip.columns).enumerate()
        {
            match &column.values {
                Values::W1(values) => self.scatter(values, &live, layout),
                Values::W2(values) => self.scatter(values, &live, layout),
                Values::W4(values) => self.scatter(values, &live, layout),
                Values::W8(values) => self.scatter(values, &live, layout),
                Values::W16(values) => self.scatter(values, &live, layout),
                Values::Text(cells) => self.scatter_text(cells, strip, text, layout),
            }
            if !column.nulls.is_empty() {
                self.scatter_nulls(column, &live, index);
            }
        }
        let rows = self.places.len();
        self.retire_full();
        rows
    }

    /// Gives every slab that has rows to its bucket.
    pub(crate) fn finish(mut self) {
        for index in 0..self.slabs.len() {
            self.retire(index);
        }
    }

    /// A place for each live row (M1).
    fn place_rows(&mut self, strip: &Strip) {
        self.places.clear();
        let live = LiveRows { rows: strip.rows, dead: &strip.dead };
        let buckets = Arc::clone(&self.buckets);
        let timestamps = buckets.layout.timestamp.map(|column| &strip.columns[column].values);
        // The bucket of the row before, and its range: neighbours are often of one bucket.
        let mut near = (i64::MAX, i64::MIN, 0);
        live.each(|row| {
            let bucket = match timestamps {
                Some(Values::W8(values)) => {
                    let ts = values[row].cast_signed();
                    if !(near.0 <= ts && ts < near.1) {
                        let bucket = buckets.plan.bucket(ts);
                        let (start, end) = buckets.plan.range(bucket);
                        near = (start, end, bucket);
                    }
                    near.2
                }
                _ => 0,
            };
            let target = self.place(bucket, strip.order);
            self.places.push(target);
        });
    }

    #[inline]
    fn place(&mut self, bucket: usize, order: u64) -> RowTarget {
        let index = match self.current[bucket] {
            Some(index) => index,
            None => self.open(bucket),
        };
        let slab = self.slabs[index].slab_mut();
        slab.mark(order);
        let row = u32::try_from(slab.rows).expect("a slab is small");
        slab.rows += 1;
        if slab.rows == slab.capacity {
            self.current[bucket] = None;
            self.full.push(index);
        }
        RowTarget { slab: u32::try_from(index).expect("few slabs"), row }
    }

    #[cold]
    fn open(&mut self, bucket: usize) -> usize {
        let mut held = self.buckets.new_slab(self.worker);
        held.slab.sequence = self.begun;
        self.begun += 1;
        let held = Some(held);
        let filling = Filling { bucket, held, counted: 0 };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.slabs[index] = filling;
                index
            }
            None => {
                self.slabs.push(filling);
                self.slabs.len() - 1
            }
        };
        self.current[bucket] = Some(index);
        index
    }

    fn scatter<T: Word>(&self, values: &[T], live: &LiveRows<'_>, layout: &ColumnLayout) {
        assert_eq!(size_of::<T>(), layout.width, "M2");
        assert_eq!(values.len(), live.rows, "Z1");
        let start = layout.start;
        let mut places = self.places.iter();
        live.each(|row| {
            let place = places.next().expect("a place for each live row");
            let base = self.bases[place.slab as usize];
            // SAFETY: the column begins `start * capacity` bytes into the slab's memory and has
            // `capacity` aligned values (M2), and `row` is below it (M1).
            unsafe {
                let column = base.pointer.add(start * base.capacity).cast::<T>();
                column.add(place.row as usize).write(values[row].le());
            }
        });
    }

    fn scatter_text(&mut self, cells: &[Cell], strip: &Strip, text: &[u8], layout: &ColumnLayout) {
        let live = LiveRows { rows: strip.rows, dead: &strip.dead };
        let mut next = 0;
        live.each(|row| {
            let place = self.places[next];
            next += 1;
            let slot = match cells[row].kind() {
                CellKind::Null => NULL_SLOT,
                CellKind::Interned(number) => INTERNED | number,
                CellKind::At(at) => {
                    let text = match at {
                        Place::Piece(start, length) => &text[start..start + length],
                        Place::Unescaped(start, length) => &strip.unescaped[start..start + length],
                    };
                    self.slabs[place.slab as usize].slab_mut().texts.push(text)
                }
            };
            let base = self.bases[place.slab as usize];
            // SAFETY: as in `scatter`; slots have four bytes.
            unsafe {
                let slots = base.pointer.add(layout.start * base.capacity).cast::<u32>();
                slots.add(place.row as usize).write(slot.le());
            }
        });
    }

    #[cold]
    fn scatter_nulls(&mut self, column: &StripColumn, live: &LiveRows<'_>, index: usize) {
        let (mut nulls, mut next) = (column.nulls.iter().peekable(), 0);
        live.each(|row| {
            let place = self.places[next];
            next += 1;
            while nulls.next_if(|&&null| (null as usize) < row).is_some() {}
            if nulls.next_if(|&&null| null as usize == row).is_some() {
                let slab = self.slabs[place.slab as usize].slab_mut();
                slab.set_null(index, place.row as usize);
            }
        });
    }

    fn retire_full(&mut self) {
        while let Some(index) = self.full.pop() {
            self.retire(index);
        }
    }

    /// Counts the memory of texts, and gives slabs whose text has grown too large to their buckets.
    pub(crate) fn settle(&mut self) {
        for index in 0..self.slabs.len() {
            let filling = &mut self.slabs[index];
            let Some(held) = &mut filling.held else { continue };
            let text = held.slab.text_bytes();
            if text > filling.counted {
                held.held.grow((text - filling.counted) as u64);
                filling.counted = text;
            }
            if held.slab.texts.pages.len() > TEXT_PAGES_MAX {
                self.current[filling.bucket] = None;
                self.retire(index);
            }
        }
    }

    fn retire(&mut self, index: usize) {
        let filling = &mut self.slabs[index];
        let Some(mut held) = filling.held.take() else { return };
        let text = held.slab.text_bytes();
        held.held.grow(text.saturating_sub(filling.counted) as u64);
        if self.current[filling.bucket] == Some(index) {
            self.current[filling.bucket] = None;
        }
        self.vacant.push(index);
        if held.slab.rows > 0 {
            self.buckets.add(filling.bucket, held);
        } else {
            self.buckets.recycle(held.slab.fixed);
        }
    }
}

impl Filling {
    #[inline]
    fn slab_mut(&mut self) -> &mut Slab {
        &mut self.held.as_mut().expect("a place of a slab that is being filled").slab
    }
}

/// A value as slabs hold it: little-endian.
trait Word: Copy {
    fn le(self) -> Self;
}

macro_rules! word {
    ($($ty:ty),*) => {
        $(impl Word for $ty {
            #[inline]
            fn le(self) -> $ty {
                self.to_le()
            }
        })*
    };
}

word!(u8, u16, u32, u64, u128);

/// The rows of a strip that were not rejected.
struct LiveRows<'a> {
    rows: usize,
    dead: &'a [u32],
}

impl LiveRows<'_> {
    /// Calls `step` with every live row, ascending.
    #[inline]
    fn each(&self, mut step: impl FnMut(usize)) {
        let mut first = 0;
        for &dead in self.dead {
            (first..dead as usize).for_each(&mut step);
            first = dead as usize + 1;
        }
        (first..self.rows).for_each(step);
    }
}
