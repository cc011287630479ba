# ADBC's driver for PostgreSQL: Arrow in and out, the catalog, and what polars does with it.
import datetime as dt
import sys
from urllib.parse import quote

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

port, password = sys.argv[1:3]
url = f"postgresql://admin:{quote(password)}@127.0.0.1:{port}/test"
times = [dt.datetime(2025, 1, 1), dt.datetime(2025, 1, 2, 0, 0, 0, 250)]
table = pa.table({
    "ts": pa.array(times, pa.timestamp("us")), "n": pa.array([1, 2], pa.int64()), "s": ["a", None],
    "v": [1.5, -0.0], "ok": [True, False], "day": pa.array([dt.date(2025, 1, 1)] * 2),
})
with adbc.connect(url) as db, db.cursor() as cursor:
    for mode, rows in (("create", 2), ("append", 4), ("replace", 2), ("create_append", 4)):
        assert cursor.adbc_ingest("arrows", table, mode=mode) == 2, mode
        db.commit()
        cursor.execute("SELECT count(*) FROM arrows")
        assert cursor.fetchone() == (rows,), mode
    cursor.execute("SELECT DISTINCT * FROM arrows ORDER BY ts")
    read = cursor.fetch_arrow_table()
    assert read.to_pylist() == table.to_pylist(), read
    assert read.schema.field("ts").type == pa.timestamp("us"), read.schema
    cursor.execute("SELECT DISTINCT n, s FROM arrows WHERE n = $1", (2,))
    assert cursor.fetchall() == [(2, None)]
    later = [(dt.datetime(2025, 1, 3), 3, "x"), (dt.datetime(2025, 1, 4), 4, "y")]
    cursor.executemany("INSERT INTO arrows(ts, n, s) VALUES ($1, $2, $3)", later)
    db.commit()
    cursor.execute("SELECT n FROM arrows WHERE ts >= '2025-01-03' ORDER BY ts")
    assert cursor.fetchall() == [(3,), (4,)]
    assert db.adbc_get_table_schema("arrows").names == table.schema.names
    assert "view" in db.adbc_get_table_types()
    objects = db.adbc_get_objects(depth="all").read_all().to_pylist()
    schemas = {s["db_schema_name"]: s for c in objects for s in c["catalog_db_schemas"] or []}
    known = {t["table_name"]: t for t in schemas["public"]["db_schema_tables"]}
    columns = [column["column_name"] for column in known["arrows"]["table_columns"]]
    # The driver asks for them in no order.
    assert sorted(columns) == sorted(table.schema.names), columns
with adbc.connect(url) as db, db.cursor() as cursor:
    # Into a temporary table, which only its session sees.
    assert cursor.adbc_ingest("own", table, mode="create", temporary=True) == 2
    assert cursor.adbc_ingest("own", table, mode="append", temporary=True) == 2
    cursor.execute("SELECT count(*), sum(n) FROM own")
    assert cursor.fetchone() == (4, 6)
    db.commit()
with adbc.connect(url) as db, db.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM pg_class WHERE relname = 'own'")
    assert cursor.fetchone() == (0,)
try:
    import connectorx
    import polars
except ImportError:
    polars = None
if polars:
    query = "SELECT ts, n, v FROM arrows WHERE n < 3 ORDER BY ts, n"
    for engine in ("adbc", "connectorx"):
        frame = polars.read_database_uri(query, url, engine=engine)
        assert frame["n"].to_list() == [1, 1, 2, 2], (engine, frame)
    parts = connectorx.read_sql(url, "SELECT n, v FROM arrows", partition_on="n", partition_num=2)
    assert len(parts) == 6, parts
    frame = polars.DataFrame({"ts": times, "x": [1, 2]})
    frame.write_database("frames", url, engine="adbc", if_table_exists="replace")
    assert polars.read_database_uri("SELECT sum(x) AS x FROM frames", url, engine="adbc")["x"][0] == 3
print("done")
