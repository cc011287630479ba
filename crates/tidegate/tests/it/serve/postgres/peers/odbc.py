# psqlODBC, as Tableau and Power BI use it: the kinds of fetching, the catalog, temporary tables.
import datetime as dt
import sys
from glob import glob

import pyodbc

port, password = sys.argv[1:3]
drivers = glob("/usr/lib/*/odbc/psqlodbcw.so")
if not drivers:
    print("done: psqlODBC is not installed")
    sys.exit()
server = f"DRIVER={drivers[0]};SERVER=127.0.0.1;PORT={port};DATABASE=test;UID=admin;PWD={{{password}}}"
for options in ("", ";UseDeclareFetch=1;Fetch=7", ";UseServerSidePrepare=0", ";Protocol=7.4-1"):
    db = pyodbc.connect(server + options, autocommit=False)
    cursor = db.cursor()
    cursor.execute("DROP TABLE IF EXISTS od")
    cursor.execute("CREATE TABLE od (ts TIMESTAMP, s VARCHAR, v DOUBLE PRECISION, n INT, b BOOLEAN, "
                   "d NUMERIC(10,2)) TIMESTAMP(ts) PARTITION BY DAY")
    db.commit()
    first = (dt.datetime(2025, 1, 1, 1, 2, 3, 456000), "\u00e4", 1.5, 2, True, "3.25")
    cursor.execute("INSERT INTO od VALUES (?, ?, ?, ?, ?, ?)", *first)
    for fast in (False, True):
        cursor.fast_executemany = fast
        more = [(dt.datetime(2025, 1, 2 + fast, 0, 0, i), "x", i) for i in range(50)]
        cursor.executemany("INSERT INTO od(ts, s, n) VALUES (?, ?, ?)", more)
    db.commit()
    read = cursor.execute("SELECT * FROM od ORDER BY ts").fetchall()
    assert len(read) == 101 and tuple(read[0])[:4] == first[:4], (options, read[0])
    counted = cursor.execute("SELECT count(*) FROM od WHERE ts >= ? AND s = ?", dt.datetime(2025, 1, 3), "x")
    assert counted.fetchone()[0] == 50, options
    assert "od" in [row[2] for row in cursor.tables(tableType="TABLE")]
    assert [row[3] for row in cursor.columns("od")] == ["ts", "s", "v", "n", "b", "d"]
    assert list(cursor.primaryKeys("od")) == [] and list(cursor.foreignKeys("od")) == []
    assert 10 < len(list(cursor.getTypeInfo()))
    list(cursor.statistics("od")), list(cursor.procedures()), list(cursor.rowIdColumns("od"))
    cursor.execute("SELECT s, n + 1 AS x, avg(v) OVER () FROM od")
    assert [column[0] for column in cursor.description][:2] == ["s", "x"]
    cursor.fetchall()
    # What Tableau tries first, and one of its aggregates.
    cursor.execute('CREATE LOCAL TEMPORARY TABLE "#Tableau" (a INTEGER) ON COMMIT PRESERVE ROWS')
    cursor.execute('INSERT INTO "#Tableau" VALUES (1)')
    db.commit()
    assert cursor.execute('SELECT a FROM "#Tableau"').fetchone()[0] == 1, options
    cursor.execute('DROP TABLE "#Tableau"')
    db.commit()
    found = cursor.execute('SELECT "od"."s" AS "s", SUM("od"."n") AS "sum:n:ok" FROM "public"."od" "od" '
                           "GROUP BY 1 ORDER BY 1 ASC NULLS FIRST").fetchall()
    assert ("x", 2450) in [tuple(row) for row in found], found
    found = cursor.execute("SELECT DATE_TRUNC('MONTH', CAST(\"od\".\"ts\" AS TIMESTAMP)) AS \"tmn\" "
                           'FROM "public"."od" "od" GROUP BY 1').fetchall()
    assert [tuple(row) for row in found] == [(dt.datetime(2025, 1, 1),)], found
    db.close()
print("done")
