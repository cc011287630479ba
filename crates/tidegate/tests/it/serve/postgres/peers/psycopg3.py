import sys, datetime, decimal, uuid
import psycopg
from psycopg import errors

port, password = sys.argv[1:3]
conninfo = f"host=127.0.0.1 port={port} user=admin dbname=test"
db = psycopg.connect(conninfo, password=password, autocommit=True)
row = (datetime.datetime(2025, 3, 1, 1, 2, 3, 4), 'oslo', 1e300, -5, decimal.Decimal('12.500'),
       uuid.UUID(int=5), b'\x00\x01\xff', True, datetime.date(2025, 2, 28))
for binary in (False, True):
    cursor = db.cursor(binary=binary)
    cursor.execute("TRUNCATE TABLE t")
    cursor.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", row)
    cursor.execute("INSERT INTO t (ts, s, v) VALUES (%b, %b, %b)",
                   (datetime.datetime(2025, 3, 2), 'rome', None))
    assert cursor.rowcount == 1
    found = cursor.execute("SELECT * FROM t WHERE v > %s", (1,)).fetchall()
    assert found == [row], found
    found = cursor.execute("SELECT * FROM t WHERE ts = %s AND s = %s", (row[0], 'oslo')).fetchall()
    assert found == [row], found
    assert cursor.execute("SELECT d FROM t WHERE d = %s", (row[4],)).fetchone() == (row[4],)
    found = cursor.execute("SELECT s, v FROM t WHERE s = %s", ('rome',)).fetchone()
    assert found == ('rome', None), found
    found = cursor.execute("SELECT array_agg(x) FROM long_sequence(3)").fetchone()
    assert found == ([1, 2, 3],), found
    found = cursor.execute(
        "SELECT '2025-03-03T01:00:00.5'::timestamp - '2025-03-01'::timestamp, "
        "CAST('01:02:03.5' AS TIME), make_array(make_array(1, 2), make_array(3))").fetchone()
    assert found == (datetime.timedelta(days=2, hours=1, milliseconds=500),
                     datetime.time(1, 2, 3, 500000), '{"{1,2}","{3}"}'), found
    found = cursor.execute("SELECT %s, %s", (row[0], row[4])).fetchone()
    assert found == (row[0], row[4]), found
    many = [(datetime.datetime(2025, 4, 1, 0, 0, n), 'many', n) for n in range(50)]
    cursor.executemany("INSERT INTO t (ts, s, n) VALUES (%s, %s, %s)", many)
    assert cursor.execute("SELECT count(*) FROM t WHERE s = 'many'").fetchone() == (50,)
    for n in range(10):
        assert cursor.execute("SELECT n FROM t WHERE n = %s", (n,), prepare=True).fetchone() == (n,)
try:
    db.execute("SELECT nope FROM t")
except errors.UndefinedColumn as error:
    assert error.diag.statement_position == '8', error.diag.statement_position
else:
    raise Exception("a column was found")
with db.transaction():
    with db.cursor("far") as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT x FROM long_sequence(1000) WHERE x > %s", (500,))
        assert sum(x for (x,) in cursor) == sum(range(501, 1001))
try:
    with db.transaction():
        db.execute("INSERT INTO t (ts, s) VALUES ('2026-01-01', 'gone')")
        raise KeyError
except KeyError:
    pass
assert db.execute("SELECT count(*) FROM t WHERE s = 'gone'").fetchone() == (0,)
with db.pipeline():
    cursors = [db.execute("SELECT %s::int", (n,)) for n in range(20)]
assert [cursor.fetchone() for cursor in cursors] == [(n,) for n in range(20)]
assert db.info.parameter_status('server_version') == '16.0'
db.close()
print("done")
