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
        "CAST('01:02:03.5' AS TIME), make_array(make_array(1, 2), make_array(3, 4))").fetchone()
    assert found == (datetime.timedelta(days=2, hours=1, milliseconds=500),
                     datetime.time(1, 2, 3, 500000), [[1, 2], [3, 4]]), found
    # A length and a time of day, which are sent in binary form.
    for length in (datetime.timedelta(days=2, hours=3, microseconds=6),
                   datetime.timedelta(microseconds=-1), datetime.timedelta(0)):
        found = cursor.execute("SELECT %s, %s::interval", (length, length)).fetchone()
        assert found == (length, length), found
    found = cursor.execute("SELECT %s", (datetime.time(1, 2, 3, 500000),)).fetchone()
    assert found == (datetime.time(1, 2, 3, 500000),), found
    hour = datetime.timedelta(hours=1)
    assert cursor.execute("SELECT now() - %s < now()", (hour,)).fetchone() == (True,)
    found = cursor.execute("SELECT s FROM t WHERE ts > %s - %s AND ts < %s + %s",
                           (row[0], hour, row[0], hour)).fetchall()
    assert found == [('oslo',)], found
    # A text has no declared type.
    found = cursor.execute("SELECT %s + ts, ntile(%s) OVER (ORDER BY ts) FROM t WHERE s = 'oslo'",
                           ('1 hour', '2')).fetchone()
    assert found == (row[0] + hour, 1), found
    found = cursor.execute("SELECT %s, %s", (row[0], row[4])).fetchone()
    assert found == (row[0], row[4]), found
    # One parameter has a type, and one has none: the column is called after the value of the first.
    found = cursor.execute("SELECT %s, %s", (5, 'x')).fetchone()
    assert found == (5, 'x'), found
    found = cursor.execute("SELECT v + %s FROM t WHERE s <> %s AND v > %s", (5, 'x', 0)).fetchone()
    assert found == (1e300,), found
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
# A transaction sees what it changes, and another session does not.
other = psycopg.connect(conninfo, password=password, autocommit=True)
count = "SELECT count(*) FROM t WHERE s LIKE 'own%'"
with db.transaction():
    db.execute("INSERT INTO t (ts, s, n) VALUES ('2026-01-01', 'own', 1), ('2026-01-02', 'own', 2)")
    assert db.execute(count).fetchone() == (2,)
    found = db.execute("UPDATE t SET n = n + %s WHERE s = 'own' RETURNING n", (10,)).fetchall()
    assert sorted(found) == [(11,), (12,)], found
    try:
        with db.transaction():
            db.execute("DELETE FROM t WHERE n = 11")
            raise KeyError
    except KeyError:
        pass
    cursor = db.execute("DELETE FROM t WHERE s = 'own' AND n = 12 RETURNING s, n")
    assert cursor.fetchall() == [('own', 12)] and cursor.rowcount == 1
    assert other.execute(count).fetchone() == (0,)
assert other.execute(count).fetchone() == (1,)
assert db.execute("DELETE FROM t WHERE s LIKE 'own%'").rowcount == 1
# What alters a table is part of the transaction.
with db.transaction(force_rollback=True):
    db.execute("INSERT INTO t (ts, s, n) VALUES ('2026-01-03', 'own', 3)")
    db.execute("ALTER TABLE t ADD COLUMN more INT")
    db.execute("INSERT INTO t (ts, s, n, more) VALUES ('2026-01-04', 'own', 4, 5)")
    assert db.execute("SELECT more FROM t WHERE s = 'own' ORDER BY ts").fetchall() == [(None,), (5,)]
    assert other.execute(count).fetchone() == (0,)
assert other.execute(count).fetchone() == (0,)
assert "more" not in [column.name for column in db.execute("SELECT * FROM t LIMIT 0").description]
# Tables of one session.
db.execute("CREATE TEMP TABLE t (k VARCHAR, n INT)")
db.execute("INSERT INTO t VALUES ('a', 1), ('b', %s)", (2,))
assert db.execute("SELECT * FROM t ORDER BY k").fetchall() == [('a', 1), ('b', 2)]
found = db.execute("SELECT relname FROM pg_class WHERE oid = 'pg_temp.t'::regclass").fetchall()
assert found == [('t',)], found
assert other.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'pg_temp'").fetchone() == (0,)
with db.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
    copy.write_row(("copied", 7))
assert db.execute("SELECT n FROM t WHERE k = 'copied'").fetchone() == (7,)
db.execute("DISCARD TEMP")
# A cursor that outlives its transaction.
with db.transaction():
    db.execute("DECLARE held CURSOR WITH HOLD FOR SELECT x FROM long_sequence(5)")
    assert db.execute("FETCH 2 FROM held").fetchall() == [(1,), (2,)]
assert db.execute("FETCH ALL FROM held").fetchall() == [(3,), (4,), (5,)]
db.execute("CLOSE held")
# COPY, which waits for the end of its transaction.
types = ['timestamp', 'varchar', 'float8', 'int4', 'numeric', 'uuid', 'bytea', 'bool', 'date']
empty = (datetime.datetime(2025, 3, 2),) + (None,) * 8
odd = (datetime.datetime(1969, 12, 31, 23, 59, 59), 'a\tb\n\\N "c"') + row[2:]
for form in ('TEXT', 'BINARY'):
    db.execute("TRUNCATE TABLE t")
    with db.transaction():
        db.execute("INSERT INTO t (ts, s) VALUES ('2025-01-01', 'inserted')")
        with db.cursor().copy(f"COPY t FROM STDIN (FORMAT {form})") as copy:
            copy.set_types(types)
            for one in (row, empty, odd):
                copy.write_row(one)
        assert db.execute("SELECT count(*) FROM t").fetchone() == (4,)
    assert db.execute("SELECT count(*) FROM t").fetchone() == (4,)
    found = db.execute("SELECT * FROM t WHERE s IS NULL OR s <> 'inserted'").fetchall()
    assert found == [odd, row, empty], found
    with db.cursor().copy(f"COPY (SELECT * FROM t) TO STDOUT (FORMAT {form})") as copy:
        copy.set_types(types)
        copied = [one for one in copy.rows() if one[1] != 'inserted']
    assert copied == [odd, row, empty], copied
    with db.cursor().copy(f"COPY (SELECT * FROM t WHERE v = 7) TO STDOUT (FORMAT {form})") as copy:
        copy.set_types(types)
        assert list(copy.rows()) == []
    try:
        with db.transaction():
            with db.cursor().copy(f"COPY t (ts, s) FROM STDIN (FORMAT {form})") as copy:
                copy.set_types(types[:2])
                copy.write_row((row[0], 'gone'))
            raise KeyError
    except KeyError:
        pass
    with db.transaction():
        with db.cursor().copy(f"COPY t (ts, s) FROM STDIN (FORMAT {form})") as copy:
            copy.set_types(types[:2])
            copy.write_row((row[0], 'kept'))
        try:
            with db.transaction():
                with db.cursor().copy(f"COPY t (ts, s) FROM STDIN (FORMAT {form})") as copy:
                    copy.set_types(types[:2])
                    copy.write_row((row[0], 'gone'))
                raise KeyError
        except KeyError:
            pass
    found = db.execute("SELECT s FROM t WHERE s IN ('kept', 'gone')").fetchall()
    assert found == [('kept',)], found
def refused(work, error):
    before = db.execute("SELECT count(*) FROM t").fetchone()
    try:
        with db.transaction():
            work()
    except error as refusal:
        assert db.execute("SELECT count(*) FROM t").fetchone() == before
        return refusal.diag
    raise Exception(f"{error} was expected")
def too_many():
    with db.cursor().copy("COPY t (ts, s) FROM STDIN") as copy:
        for n in range(7000):
            copy.write("2025-01-01\t" + chr(65 + n % 26) * 10_000 + "\n")
refused(too_many, errors.ProgramLimitExceeded)
def no_number():
    with db.cursor().copy("COPY t (ts, n) FROM STDIN") as copy:
        copy.write("2025-01-01\tx\n")
refused(no_number, errors.InvalidTextRepresentation)
def no_number_and_much_behind_it():
    with db.cursor().copy("COPY t (ts, n) FROM STDIN") as copy:
        copy.write("2025-01-01\tx\n")
        for n in range(2000):
            copy.write("2025-01-01\t1\n" * 1000)
refused(no_number_and_much_behind_it, errors.InvalidTextRepresentation)
def too_wide():
    with db.cursor().copy("COPY t (ts, n) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(['timestamp', 'int8'])
        copy.write_row((row[0], 1))
diag = refused(too_wide, errors.InvalidBinaryRepresentation)
assert (diag.context, diag.column_name) == ('COPY, row 1, column n', 'n'), diag.context
def too_few():
    with db.cursor().copy("COPY t (ts, n) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(['timestamp'])
        copy.write_row((row[0],))
refused(too_few, errors.BadCopyFileFormat)
def no_table():
    with db.cursor().copy("COPY nope FROM STDIN") as copy:
        copy.write("1\n")
refused(no_table, errors.UndefinedTable)
with db.pipeline():
    cursors = [db.execute("SELECT %s::int", (n,)) for n in range(20)]
assert [cursor.fetchone() for cursor in cursors] == [(n,) for n in range(20)]
assert db.info.parameter_status('server_version') == '16.0'
db.close()
print("done")
