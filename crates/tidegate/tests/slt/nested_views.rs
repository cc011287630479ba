//! Views that read views: limits on their depth, and on the number of tables they read in all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use tidegate_model::limits;
use tidegate_platform::{SimClock, SimDisk};
use tidegate_query::{Answer, Engine, EngineOptions};
use tidegate_storage::{Database, OpenOptions};

use super::{MEMORY_MAX, THREADS, TestError, cells};

fn engine() -> Engine {
    let options = OpenOptions::new(Arc::new(SimClock::new(1)));
    let database =
        Database::open(Arc::new(SimDisk::new(7)), Path::new("/db"), &options).expect("opens");
    let options = EngineOptions::standard(THREADS, MEMORY_MAX, PathBuf::from("/spill"));
    Engine::new(database, &options).expect("begins")
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
    let Answer::Rows { stream, .. } = engine.execute(sql).await? else {
        panic!("{sql} gives rows");
    };
    let batches = stream.try_collect::<Vec<_>>().await.map_err(tidegate_query::Error::from)?;
    let mut found = Vec::new();
    for batch in &batches {
        found.extend(cells(batch)?.into_iter().flatten().flatten());
    }
    assert_eq!(found.len(), 1, "{sql}");
    Ok(found.remove(0))
}

pub(super) async fn views_read_views_to_a_bounded_depth() -> Result<(), TestError> {
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
    Ok(())
}

pub(super) async fn views_of_a_statement_read_a_bounded_number_of_tables() -> Result<(), TestError>
{
    let engine = engine();
    let twice = |inner: &str| format!("SELECT a.x + b.x AS x FROM {inner} AS a, {inner} AS b");
    let (at, error) = refused(&engine, twice).await;
    assert!(error.ends_with("views of a statement read more than 100 tables in all"), "{error}");
    let last = format!("SELECT x FROM v{}", at - 1);
    assert_eq!(answer(&engine, &last).await?, (2 << (at - 1)).to_string());
    Ok(())
}
