//! The line protocol against its slow reader, on random lines: valid ones, damaged ones, split
//! anywhere. Single values are tested in the module itself.

use crate::fuzz::targets::line;
use crate::import::random::Random;

/// Appends a random line of a client, with every feature of the grammar.
fn push_line(random: &mut Random, text: &mut Vec<u8>) {
    let names = ["t", "t", "t", "u", "cpu", "a\\ b", "\u{e9}", "T"];
    let keys =
        ["a", "b", "B", "c", "d\\,e", "a_key_of_more_than_thirty_two_bytes_is_long", "ts", "x"];
    text.extend_from_slice(random.choose(&names).as_bytes());
    for _ in 0..random.index(4) {
        let texts = [
            "x",
            "y",
            "",
            "a\\ b",
            "c\\\\",
            "10.0.0.1",
            "\"",
            "long\\ text\\ that\\ repeats",
            "\\\n",
        ];
        let tag = format!(",{}={}", random.choose(&keys), random.choose(&texts));
        text.extend_from_slice(tag.as_bytes());
    }
    let mut separator = random.choose(&[" ", " ", "  "]);
    for _ in 0..random.index(6) {
        let number = random.below(1_000).pow(u32::try_from(random.below(7)).unwrap());
        let value = match random.below(16) {
            0..4 => format!("{number}i"),
            4 => format!("-{number}i"),
            5 => format!("{number}u"),
            6 | 7 => format!("{}.{:02}", number % 100_000, number % 100),
            8 => format!("-{number}.{number}"),
            9 => format!("{number}e-3"),
            10 => format!("{}.{:03}d", number, number % 1_000),
            11 => random.choose(&["t", "False", "T", "f"]).to_owned(),
            12 => random
                .choose(&["\"a\"", "\"\"", "\"1.5\"", "\"a\nb\"", "\"a\\\r\\\n\"", "\"\\\"\\\\\""])
                .to_owned(),
            13 => format!("{number}{}", random.choose(&["n", "t", "m"])),
            14 => random.choose(&["", "NaN", "0x1fi", "\"1970-01-01T00:00:00Z\""]).to_owned(),
            _ => random.choose(&["1,5", "=x", "'a'", "1..2", "\"open", "x"]).to_owned(),
        };
        text.extend_from_slice(format!("{separator}{}={value}", random.choose(&keys)).as_bytes());
        separator = ",";
    }
    let time = match random.below(6) {
        0 => String::new(),
        1 => format!(" {}", random.below(1_000_000)),
        2 => format!(" -{}m", random.below(1_000_000)),
        _ => format!(" {}", 1_451_606_400_000_000_000 + random.below(1_000_000)),
    };
    text.extend_from_slice(time.as_bytes());
    text.extend_from_slice(random.choose(&["\n", "\n", "\n", "\r\n", " \n"]).as_bytes());
}

fn damage(random: &mut Random, text: &mut Vec<u8>) {
    for _ in 0..random.index(4) {
        let at = random.index(text.len());
        let byte = *random
            .choose(&[b" ", b",", b"=", b"\"", b"\\", b"\n", b"\r", b"1", b"\0", b"\xFF"])
            .first()
            .unwrap();
        match random.below(3) {
            0 => text[at] = byte,
            1 => text.insert(at, byte),
            _ => drop(text.remove(at)),
        }
        if text.is_empty() {
            text.push(b'\n');
        }
    }
}

#[test]
fn lines_are_read_as_the_slow_reader_reads_them() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut input: Vec<u8> = (0..6).map(|_| random.one_of(&[0, 1, 3, 4, 5, 6, 133])).collect();
        if random.percent(60) {
            input[3] = 0; // lines of any length
            input[4] = 0;
        }
        let mut text = Vec::new();
        for _ in 0..1 + random.index(1 + usize::try_from(seed / 15).unwrap().min(20)) {
            push_line(&mut random, &mut text);
            if random.percent(30) {
                let again = text.clone();
                text.extend_from_slice(&again[again.len() / 2..]);
            }
        }
        if random.percent(50) {
            damage(&mut random, &mut text);
        }
        for _ in 0..2 {
            let cut = u16::try_from(random.index(text.len() + 1).min(60_000)).unwrap();
            input.extend_from_slice(&cut.to_le_bytes());
        }
        input.extend_from_slice(&text);
        let shown = format!("seed {seed}: {}", String::from_utf8_lossy(&text));
        let result = std::panic::catch_unwind(|| line::check(&input));
        if let Err(panic) = result {
            let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("{message}\n{shown}");
        }
    }
}
