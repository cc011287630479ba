//! Quotes that are text: the lines that they enclose are imported, or are noted.

use tidegate_ingest::{ImportOptions, Quote};
use tidegate_model::Value;

use super::guesses::{import, shown};
use crate::world::read_rejects;

/// The header `id,text,v` and rows, some of them with another text.
fn rows(count: usize, texts: &[(usize, &str)]) -> String {
    let mut text = "id,text,v\n".to_owned();
    for row in 0..count {
        let other = texts.iter().find(|(at, _)| *at == row).map(|(_, other)| *other);
        text.push_str(&format!("{row},{},{row}.5\n", other.unwrap_or("plain")));
    }
    text
}

/// Rows behind the sample, in a compressed file that begins with rows without these texts.
fn behind_the_sample(count: usize, texts: &[(usize, &str)]) -> Vec<u8> {
    let mut text = "id,text,v\n".to_owned();
    for row in 0..120_000 {
        text.push_str(&format!("{row},some text that fills the sample,{row}.5\n"));
    }
    assert!(text.len() > 3 << 20, "more than the head");
    text.push_str(rows(count, texts).split_once('\n').expect("a header").1);
    zstd::encode_all(text.as_bytes(), 1).unwrap()
}

const OPEN_AND_CLOSED: [(usize, &str); 2] = [(500, "\"open"), (900, "say hi\"")];
const OPEN_AND_STRAY: [(usize, &str); 2] = [(500, "\"open"), (900, "say \"hi\" you")];

// Two stray quotes far apart made one value of 401 rows, or one reject of which 4,096 bytes were
// listed, without a note.
#[test]
fn quotes_that_enclose_records_of_the_sample_are_text() {
    for texts in [OPEN_AND_CLOSED, OPEN_AND_STRAY] {
        let text = rows(2_000, &texts);
        let (world, outcome) = import(&[text.as_bytes()], |_| {});
        let summary = outcome.unwrap();
        let counts = (summary.rows_imported, summary.rows_rejected, summary.headers);
        assert_eq!(counts, (2_000, 0, 1), "{texts:?}");
        assert_eq!(world.rows()[500][1], Value::Bytes(b"\"open".to_vec()));
        assert!(summary.notes[0].contains("`\"` is read as text"), "{:?}", summary.notes);
    }
    let mut text = String::new();
    for row in 0..200 {
        let (open, close) =
            (if row % 40 == 5 { "\"" } else { "" }, ["", "\""][usize::from(row % 40 == 25)]);
        text.push_str(&format!("{row}\tword\t{open}text{close}\n"));
    }
    let (_, outcome) = import(&[text.as_bytes()], |_| {});
    assert_eq!(outcome.unwrap().rows_imported, 200);
}

#[test]
fn quotes_around_lines_of_text_are_quotes() {
    for text in [
        "id,text\n1,\"hello\nworld, bye\"\n2,\"foo\"\n3,bar\n",
        "id,text\n1,\"a\n2,b\"\n2,\"c\"\n3,d\n",
        "id,text\n1,\"a, b\nc, d\ne, f\ng, h\ni, j\"\n2,\"c\"\n3,d\n",
    ] {
        let (world, outcome) = import(&[text.as_bytes()], |_| {});
        let summary = outcome.unwrap();
        assert_eq!(summary.rows_imported, 3, "{}", shown(&world, &summary));
    }
    // A value may be a list of records.
    let (_, outcome) = import(&[b"id,text\n1,\"a\n2,b\n3,c\n4,d\"\n"], |_| {});
    let summary = outcome.unwrap();
    assert_eq!(summary.rows_imported, 1);
    assert!(
        summary.notes[0].contains("a quoted value has 4 lines that look"),
        "{:?}",
        summary.notes
    );
    // An option says that the quotes quote.
    let quotes = |options: &mut ImportOptions| options.dialect.quote = Quote::Byte(b'"');
    let (_, outcome) = import(&[rows(2_000, &OPEN_AND_CLOSED).as_bytes()], quotes);
    let summary = outcome.unwrap();
    assert_eq!((summary.rows_imported, summary.notes.as_slice()), (1_600, &[][..]));
}

#[test]
fn quotes_that_enclose_later_records_are_noted() {
    let (_, outcome) = import(&[&behind_the_sample(2_000, &OPEN_AND_CLOSED)], |_| {});
    let notes = outcome.unwrap().notes;
    let wanted = "/a.csv, line 120502, column `text`: a quoted value has 401 lines that look like \
                  records: --quote none";
    assert!(notes[0].starts_with(wanted), "{notes:?}");
    let (world, outcome) = import(&[&behind_the_sample(2_000, &OPEN_AND_STRAY)], |_| {});
    let summary = outcome.unwrap();
    assert_eq!(summary.rows_rejected, 1);
    assert!(summary.notes[0].starts_with(wanted), "{:?}", summary.notes);
    assert!(
        summary.notes[1].contains("the rejected records have 401 lines"),
        "{:?}",
        summary.notes
    );
    let list = String::from_utf8(world.disk.read(&world.rejects()).unwrap()).unwrap();
    assert!(list.contains(",\"line\":120502,\"byte\":"), "{list}");
    assert!(list.contains(",\"lines\":401,\"column\":\"text\""), "{list}");
    assert_eq!(read_rejects(&*world.disk, &world.rejects()).len(), 1);
}

#[test]
fn quotes_that_enclose_much_of_a_file_fail_the_import() {
    let texts = [(500, "\"open"), (29_900, "closed\"")];
    let (_, outcome) = import(&[&behind_the_sample(30_000, &texts)], |_| {});
    let error = outcome.unwrap_err().to_string();
    let wanted = "quotes enclose 29400 line ends after which a record seems to begin, in 120600 \
                  records; the first such value, in column `text`, begins in line 120502";
    assert!(error.contains(wanted), "{error}");
}
