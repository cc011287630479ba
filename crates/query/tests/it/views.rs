//! Views that read views: limits on their depth, and on the number of tables they read in all.

use tidegate_model::limits;
use tidegate_platform::SimDisk;
use tidegate_query::Engine;

use crate::fixture::{TestError, engine_options, on_runtime, open, taken};

fn engine() -> Engine {
    Engine::new(open(&SimDisk::new(7)).expect("opens"), &engine_options()).expect("begins")
}

/// Creates views that each read the one before, until one is refused; returns its number and the
/// error.
async fn refused(engine: &Engine, query: impl Fn(&str) -> String) -> (usize, String) {
    engine.execute("CREATE OR REPLACE VIEW v0 AS SELECT 2 AS x").await.expect("is made");
    for at in 1..100 {
        let query = query(&format!("v{}", at - 1));
        let made = engine.execute(&format!("CREATE OR REPLACE VIEW v{at} AS {query}")).await;
        if let Err(error) = made {
            return (at, error.to_string());
        }
    }
    panic!("none is refused");
}

/// Returns the only value of an answer.
async fn answer(engine: &Engine, sql: &str) -> Result<String, TestError> {
    let rows = taken(engine.execute(sql).await?).await?.rows();
    assert_eq!(rows.len(), 1, "{sql}");
    Ok(rows.into_iter().flatten().collect())
}

#[test]
fn views_read_views_to_a_bounded_depth() {
    on_runtime(async {
        let engine = engine();
        let (at, error) = refused(&engine, |inner| format!("SELECT x + 1 AS x FROM {inner}")).await;
        assert_eq!(at, limits::VIEW_NESTING);
        assert!(error.ends_with("views read views more than 16 deep"), "{error}");
        let last = format!("SELECT x FROM v{}", at - 1);
        assert_eq!(answer(&engine, &last).await?, "17");
        // One more view below makes the others too deep, and the error of a query names it.
        engine.execute("CREATE VIEW below AS SELECT 2 AS x").await?;
        engine.execute("CREATE OR REPLACE VIEW v0 AS SELECT x FROM below").await?;
        let error = engine.execute(&last).await.expect_err("is refused").to_string();
        assert_eq!(error, "view `below`: views read views more than 16 deep");
        Ok::<(), TestError>(())
    });
}

#[test]
fn views_of_a_statement_read_a_bounded_number_of_tables() {
    on_runtime(async {
        let engine = engine();
        let twice = |inner: &str| format!("SELECT a.x + b.x AS x FROM {inner} AS a, {inner} AS b");
        let (at, error) = refused(&engine, twice).await;
        assert!(
            error.ends_with("views of a statement read more than 100 tables in all"),
            "{error}"
        );
        let last = format!("SELECT x FROM v{}", at - 1);
        assert_eq!(answer(&engine, &last).await?, (2 << (at - 1)).to_string());
        Ok::<(), TestError>(())
    });
}
