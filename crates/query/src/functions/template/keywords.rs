//! The keywords of PostgreSQL's patterns of times.

/// The meaning of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    /// `AM`, `a.m.` and similar words, with points or without.
    Meridiem,
    Era,
    Century,
    DayName,
    DayShort,
    DayOfYear,
    IsoDayOfYear,
    Day,
    /// 1 for Sunday.
    DayOfWeek,
    /// 1 for Monday.
    IsoDayOfWeek,
    /// A number of digits of a fraction.
    Fraction(u32),
    Hour12,
    Hour24,
    IsoWeek,
    /// The last so many digits of the year.
    IsoYear(u32),
    Julian,
    Minute,
    Month,
    MonthName,
    MonthShort,
    Millis,
    Micros,
    Offset,
    Quarter,
    RomanMonth,
    Second,
    SecondOfDay,
    ZoneHours,
    ZoneMinutes,
    ZoneName,
    WeekOfMonth,
    WeekOfYear,
    /// `Y,YYY`
    YearWithComma,
    Year(u32),
}

use Keyword::{
    Century, Day, DayName, DayOfWeek, DayOfYear, DayShort, Era, Fraction, Hour12, Hour24,
    IsoDayOfWeek, IsoDayOfYear, IsoWeek, IsoYear, Julian, Meridiem, Micros, Millis, Minute, Month,
    MonthName, MonthShort, Offset, Quarter, RomanMonth, Second, SecondOfDay, WeekOfMonth,
    WeekOfYear, Year, YearWithComma, ZoneHours, ZoneMinutes, ZoneName,
};

/// The keywords, longer ones before their prefixes.
const KEYWORDS: [(&str, Keyword); 105] = [
    ("A.D.", Era),
    ("A.M.", Meridiem),
    ("AD", Era),
    ("AM", Meridiem),
    ("B.C.", Era),
    ("BC", Era),
    ("CC", Century),
    ("DAY", DayName),
    ("DDD", DayOfYear),
    ("DD", Day),
    ("DY", DayShort),
    ("Day", DayName),
    ("Dy", DayShort),
    ("D", DayOfWeek),
    ("FF1", Fraction(1)),
    ("FF2", Fraction(2)),
    ("FF3", Fraction(3)),
    ("FF4", Fraction(4)),
    ("FF5", Fraction(5)),
    ("FF6", Fraction(6)),
    ("HH24", Hour24),
    ("HH12", Hour12),
    ("HH", Hour12),
    ("IDDD", IsoDayOfYear),
    ("ID", IsoDayOfWeek),
    ("IW", IsoWeek),
    ("IYYY", IsoYear(4)),
    ("IYY", IsoYear(3)),
    ("IY", IsoYear(2)),
    ("I", IsoYear(1)),
    ("J", Julian),
    ("MI", Minute),
    ("MM", Month),
    ("MONTH", MonthName),
    ("MON", MonthShort),
    ("MS", Millis),
    ("Month", MonthName),
    ("Mon", MonthShort),
    ("OF", Offset),
    ("P.M.", Meridiem),
    ("PM", Meridiem),
    ("Q", Quarter),
    ("RM", RomanMonth),
    ("SSSSS", SecondOfDay),
    ("SSSS", SecondOfDay),
    ("SS", Second),
    ("TZH", ZoneHours),
    ("TZM", ZoneMinutes),
    ("TZ", ZoneName),
    ("US", Micros),
    ("WW", WeekOfYear),
    ("W", WeekOfMonth),
    ("Y,YYY", YearWithComma),
    ("YYYY", Year(4)),
    ("YYY", Year(3)),
    ("YY", Year(2)),
    ("Y", Year(1)),
    ("a.d.", Era),
    ("a.m.", Meridiem),
    ("ad", Era),
    ("am", Meridiem),
    ("b.c.", Era),
    ("bc", Era),
    ("cc", Century),
    ("day", DayName),
    ("ddd", DayOfYear),
    ("dd", Day),
    ("dy", DayShort),
    ("d", DayOfWeek),
    ("ff1", Fraction(1)),
    ("ff2", Fraction(2)),
    ("ff3", Fraction(3)),
    ("ff4", Fraction(4)),
    ("ff5", Fraction(5)),
    ("ff6", Fraction(6)),
    ("hh24", Hour24),
    ("hh12", Hour12),
    ("hh", Hour12),
    ("iddd", IsoDayOfYear),
    ("id", IsoDayOfWeek),
    ("iw", IsoWeek),
    ("iyyy", IsoYear(4)),
    ("iyy", IsoYear(3)),
    ("iy", IsoYear(2)),
    ("i", IsoYear(1)),
    ("j", Julian),
    ("mi", Minute),
    ("mm", Month),
    ("month", MonthName),
    ("mon", MonthShort),
    ("ms", Millis),
    ("of", Offset),
    ("p.m.", Meridiem),
    ("pm", Meridiem),
    ("q", Quarter),
    ("rm", RomanMonth),
    ("sssss", SecondOfDay),
    ("ssss", SecondOfDay),
    ("ss", Second),
    ("tzh", ZoneHours),
    ("tzm", ZoneMinutes),
    ("tz", ZoneName),
    ("us", Micros),
    ("ww", WeekOfYear),
    ("w", WeekOfMonth),
];

/// The keywords of years in small letters.
const YEARS: [(&str, Keyword); 5] = [
    ("y,yyy", YearWithComma),
    ("yyyy", Year(4)),
    ("yyy", Year(3)),
    ("yy", Year(2)),
    ("y", Year(1)),
];

/// Returns the keyword at the start of a pattern.
pub(crate) fn keyword_at(pattern: &str) -> Option<(Keyword, &'static str)> {
    let begins = |(word, _): &&(&'static str, Keyword)| pattern.starts_with(word);
    let found = KEYWORDS.iter().chain(&YEARS).find(begins)?;
    Some((found.1, found.0))
}

impl Keyword {
    /// Returns true if its value is written in digits.
    pub(super) fn is_digits(self) -> bool {
        !matches!(
            self,
            Meridiem
                | Era
                | DayName
                | DayShort
                | MonthName
                | MonthShort
                | Offset
                | RomanMonth
                | ZoneHours
                | ZoneName
        )
    }
}

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The names of the days, from Sunday.
pub(crate) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The months from December on, so that none begins with one before it.
pub(crate) const ROMAN: [&str; 12] =
    ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];

/// The Julian day of 1970-01-01 (`J`).
pub(crate) const JULIAN_OF_1970: i64 = 2_440_588;
