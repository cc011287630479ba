//! `tidegate bench roofline`, on little memory and a small file: it prints its figures and leaves
//! no file behind.

use crate::world::World;

#[test]
fn a_roofline_measures_memory_and_disk_and_leaves_nothing() {
    let world = World::new();
    std::fs::create_dir(world.path("disk")).expect("a folder");
    let small = ["--memory", "4MiB", "--file", "4MiB", "--dir", "disk", "--threads", "2"];
    let json = world.run(&[&["bench", "roofline", "--json"], &small[..]].concat()).succeeds();
    for what in [
        "sum of 8-byte words",
        "count of 1-byte codes in a range",
        "count of 2-byte codes in a range",
        "memcpy, bytes copied",
        "structural index of a CSV",
    ] {
        for threads in [1, 2] {
            let figure = format!("{{\"what\":\"{what}\",\"threads\":{threads},\"bytes\":");
            assert_eq!(json.matches(&figure).count(), 1, "{figure}: {json}");
        }
    }
    for what in ["sequential write", "sequential read", "random reads", "fdatasync"] {
        assert!(json.contains(what), "{what}: {json}");
    }
    assert!(json.starts_with("{\"cores\":") && !json.contains(":0.000}"), "{json}");
    let table = world.run(&[&["bench", "roofline"], &small[..]].concat()).succeeds();
    assert!(table.contains("what") && table.contains("GB/s"), "{table}");
    assert_eq!(std::fs::read_dir(world.path("disk")).expect("a folder").count(), 0);
    let nowhere = world.run(&["bench", "roofline", "--memory", "1MiB", "--dir", "nowhere"]);
    nowhere.fails(1, &["tidegate: bench roofline: make a file: ", "no such file"]);
}
