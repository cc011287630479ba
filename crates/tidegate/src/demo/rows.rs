//! The rows of the demo: page views of a few web sites in a month, as a log collector would have
//! written them.
//!
//! - demo_rows-1. A row is a function of its number and of the number of rows, so the file is the
//!   same however it is divided among threads.
//! - demo_rows-2. Rows are in the order of arrival. Most arrive within seconds, some after
//!   minutes, and a few after up to two days, so the file is not in order of its timestamps.

use std::io::Write;

use tidegate_model::time::CivilDate;

/// The columns, as CREATE TABLE writes them.
pub(super) const COLUMNS: &str = "time TIMESTAMP, site SYMBOL, country SYMBOL, device SYMBOL, \
     page SYMBOL, visitor BIGINT, status SMALLINT, duration_ms INT, bytes BIGINT, revenue DOUBLE";

pub(super) const HEADER: &str =
    "time,site,country,device,page,visitor,status,duration_ms,bytes,revenue\n";

/// Approximate bytes of a row, with its line end.
pub(super) const ROW_BYTES: u64 = 76;

const DAYS: u64 = 30;
const SECOND_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600 * SECOND_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
/// 2025-06-01T00:00:00Z.
const START_MS: u64 = 1_748_736_000_000;

/// Weight of each hour of a day: its share of the visits.
const HOURS: [u64; 24] =
    [4, 3, 2, 2, 2, 3, 5, 8, 11, 13, 14, 14, 15, 14, 13, 13, 14, 15, 17, 19, 20, 17, 12, 7];

/// Values with their weights.
const SITES: [(&str, u64); 6] = [
    ("shop.example", 45),
    ("news.example", 30),
    ("docs.example", 12),
    ("blog.example", 8),
    ("forum.example", 4),
    ("status.example", 1),
];
const COUNTRIES: [(&str, u64); 12] = [
    ("US", 28),
    ("DE", 16),
    ("IN", 14),
    ("GB", 9),
    ("FR", 8),
    ("BR", 7),
    ("JP", 6),
    ("PL", 4),
    ("NG", 3),
    ("KE", 2),
    ("NZ", 2),
    ("IS", 1),
];
const DEVICES: [(&str, u64); 4] = [("mobile", 58), ("desktop", 34), ("tablet", 6), ("tv", 2)];
const STATUSES: [(&str, u64); 6] =
    [("200", 940), ("304", 30), ("404", 18), ("302", 8), ("500", 3), ("503", 1)];
const PAGES: [(&str, u64); 6] =
    [("/item/", 60), ("/", 15), ("/search", 12), ("/login", 6), ("/cart", 5), ("/checkout", 2)];
const ITEMS: u64 = 2_000;
const VISITORS: u64 = 250_000;

/// Appends row `row` of `rows` rows.
pub(super) fn push(row: u64, rows: u64, line: &mut Vec<u8>) {
    let mut random = Random(row);
    let time_ms = START_MS + arrival_ms(row, rows).saturating_sub(delay_ms(&mut random));
    push_time(time_ms, line);
    let site = random.choose(&SITES);
    let country = random.choose(&COUNTRIES);
    let device = random.choose(&DEVICES);
    let page = random.choose(&PAGES);
    let item = random.skewed(ITEMS);
    let visitor = random.skewed(VISITORS);
    let status = random.choose(&STATUSES);
    let duration_ms = 5 + random.skewed(800) + if status.starts_with('5') { 3_000 } else { 0 };
    let bytes = if status == "200" { 500 + random.skewed(180_000) } else { 0 };
    write!(line, ",{site},{country},{device},{page}").expect(IN_MEMORY);
    if page == "/item/" {
        write!(line, "{item}").expect(IN_MEMORY);
    }
    write!(line, ",{visitor},{status},{duration_ms},{bytes},").expect(IN_MEMORY);
    if page == "/checkout" && status == "200" {
        let cents = 499 + random.skewed(40_000);
        write!(line, "{}.{:02}", cents / 100, cents % 100).expect(IN_MEMORY);
    }
    line.push(b'\n');
}

const IN_MEMORY: &str = "a Vec takes everything";

/// Returns the arrival time of a row: days have equal shares, the hours of a day those of `HOURS`.
fn arrival_ms(row: u64, rows: u64) -> u64 {
    let weights: u64 = HOURS.iter().sum();
    // The product of rows and milliseconds may need more than 64 bits.
    let span = u128::from(DAYS * weights * HOUR_MS);
    let position = u128::from(row) * span / u128::from(rows);
    let position = u64::try_from(position).expect("less than the span");
    let (day, mut left) = (position / (weights * HOUR_MS), position % (weights * HOUR_MS));
    for (hour, weight) in (0..).zip(HOURS) {
        if left < weight * HOUR_MS {
            return day * DAY_MS + hour * HOUR_MS + left / weight;
        }
        left -= weight * HOUR_MS;
    }
    unreachable!("the hours make up the day")
}

/// Returns the delay of a row (demo_rows-2).
fn delay_ms(random: &mut Random) -> u64 {
    match random.below(1_000) {
        0..800 => random.below(2 * SECOND_MS),
        800..980 => random.below(300 * SECOND_MS),
        _ => random.below(2 * DAY_MS),
    }
}

fn push_time(time_ms: u64, line: &mut Vec<u8>) {
    let days = i64::try_from(time_ms / DAY_MS).expect("a day of this century");
    let CivilDate { year, month, day } = CivilDate::from_days(days);
    let (hour, minute) = (time_ms / HOUR_MS % 24, time_ms / 60_000 % 60);
    let (second, millis) = (time_ms / SECOND_MS % 60, time_ms % SECOND_MS);
    write!(line, "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
        .expect(IN_MEMORY);
}

/// The random generator SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators"). Every row has its own (demo_rows-1).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // Neighbouring rows are seeds; their sequences must not overlap, so a step is odd and
        // large.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a uniform number in `0..bound`, for bounds far below 2^32.
    fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }

    /// Returns a number in `0..bound`; small numbers are far more frequent than large ones.
    fn skewed(&mut self, bound: u64) -> u64 {
        let even = self.next() >> 40;
        let cubed = (u128::from(even) * u128::from(even) * u128::from(even)) >> 48;
        let skewed = (cubed * u128::from(bound)) >> 24;
        u64::try_from(skewed).expect("below the bound")
    }

    fn choose(&mut self, values: &[(&'static str, u64)]) -> &'static str {
        let weights = values.iter().map(|(_, weight)| weight).sum();
        let mut left = self.below(weights);
        for (value, weight) in values {
            if left < *weight {
                return value;
            }
            left -= weight;
        }
        unreachable!("the weights make up their sum")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: u64) -> String {
        let mut text = Vec::new();
        (0..count).for_each(|row| push(row, count, &mut text));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_first_rows_are_always_the_same() {
        let expected = [
            "2025-06-01T00:00:00.000Z,shop.example,NZ,mobile,/item/10,114822,200,695,11717,",
            "2025-06-10T23:59:58.509Z,forum.example,IN,mobile,/search,35777,200,405,12381,",
            "2025-06-20T23:59:58.502Z,news.example,BR,mobile,/item/766,100931,200,313,7542,",
            "",
        ];
        assert_eq!(rows(3), expected.join("\n"), "demo_rows-1");
    }

    #[test]
    fn every_row_has_all_fields_and_about_the_length_it_should() {
        let count = 50_000;
        let text = rows(count);
        let commas = HEADER.matches(',').count();
        assert!(text.lines().all(|line| line.matches(',').count() == commas));
        let mean = text.len() as u64 / count;
        assert!((ROW_BYTES - 3..=ROW_BYTES).contains(&mean), "{mean}");
    }

    #[test]
    fn times_are_out_of_order_and_within_the_month() {
        let text = rows(10_000);
        let times: Vec<&str> = text.lines().map(|line| &line[..24]).collect();
        let late = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(500 < late && late < 9_500, "demo_rows-2: {late}");
        assert!(times.iter().all(|time| time.starts_with("2025-06-")));
        let days: std::collections::BTreeSet<&str> = times.iter().map(|time| &time[..10]).collect();
        assert_eq!(days.len(), 30);
    }
}
