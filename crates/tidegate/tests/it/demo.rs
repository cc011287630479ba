//! The README's first command.

use std::fs;

use crate::world::World;

fn demo(world: &World) -> String {
    world.run(&["demo", "--rows", "20000"]).succeeds()
}

#[test]
fn the_demo_makes_imports_asks_and_cleans_up_and_can_be_run_again() {
    let world = World::new();
    for _ in 0..2 {
        let text = demo(&world);
        for part in
            ["1. Wrote", "2. Imported", "20,000 rows", "30 partitions", "3. Ran", "shop.example"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("tidegate --db db sql"), "{text}");
    }
    assert_eq!(world.ask("SELECT count(*) FROM visits"), "20000");
    let left: Vec<String> = fs::read_dir(world.path(""))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(left, ["db"], "nothing is left but the database");
}

#[test]
fn the_demo_leaves_a_foreign_table_alone() {
    let world = World::new();
    world.run(&["sql", "CREATE TABLE Visits (time TIMESTAMP, x INT)"]).succeeds();
    world.run(&["demo", "--rows", "100"]).fails(1, &["visits", "already"]);
    assert_eq!(world.ask("SELECT count(x) FROM visits"), "0");
}

#[test]
fn the_file_is_kept_and_placed_on_demand() {
    let world = World::new();
    fs::create_dir(world.path("place")).expect("a folder");
    world.run(&["demo", "--rows", "1000", "--keep", "--dir", "place"]).succeeds();
    let mut kept = fs::read_dir(world.path("place")).expect("a folder");
    let folder = kept.next().expect("one folder").expect("an entry").path();
    let csv = fs::read_to_string(folder.join("visits.csv")).expect("the file");
    assert_eq!(csv.lines().count(), 1_001);
}

#[test]
fn a_demo_that_does_not_fit_says_so_at_once() {
    let world = World::new();
    let run = world.run(&["demo", "--rows", "100000000000000"]);
    run.fails(1, &["needed", "free", "--rows for fewer rows"]);
    world.run(&["demo", "--dir", "nowhere"]).fails(1, &["nowhere", "no such file"]);
}
