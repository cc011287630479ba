import asyncio, datetime, decimal, io, sys, uuid
import asyncpg

port, password = sys.argv[1:3]
row = (datetime.datetime(2025, 3, 1, 1, 2, 3, 4), 'oslo', 1e300, -5, decimal.Decimal('12.500'),
       uuid.UUID(int=5), b'\x00\x01\xff', True, datetime.date(2025, 2, 28))

async def main():
    where = dict(host='127.0.0.1', port=int(port), user='admin', password=password, database='test')
    pool = await asyncpg.create_pool(min_size=1, max_size=2, **where)
    async with pool.acquire() as db:
        insert = "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        await db.execute(insert, *row)
        found = await db.fetch("SELECT * FROM t WHERE v > $1 LIMIT $2", 1.0, 5)
        assert [tuple(r) for r in found] == [row], found
        found = await db.fetch("SELECT s FROM t WHERE ts = $1 AND g = $2", row[0], row[5])
        assert [tuple(r) for r in found] == [('oslo',)], found
        # A decimal is compared with all of its digits, not with those of the column.
        for op, digits, count in (('=', '12.5004', 0), ('<', '12.5004', 1), ('>', '12.5004', 0),
                                  ('<', '1e20', 1)):
            found = await db.fetchval(f"SELECT count(*) FROM t WHERE d {op} $1",
                                      decimal.Decimal(digits))
            assert found == count, (op, digits, found)
        found = await db.fetchval("SELECT d + $1 FROM t", decimal.Decimal('0.00001'))
        assert found == decimal.Decimal('12.50001'), found
        # Of what only expressions have, in the binary form too.
        found = await db.fetchrow(
            "SELECT '2025-03-03T01:00:00.5'::timestamp - '2025-03-01'::timestamp, "
            "CAST('01:02:03.5' AS TIME), make_array(make_array(1, 2), make_array(3, 4))")
        expected = (datetime.timedelta(days=2, hours=1, milliseconds=500),
                    datetime.time(1, 2, 3, 500000), [[1, 2], [3, 4]])
        assert tuple(found) == expected, found
        for length in (datetime.timedelta(days=2, hours=3, microseconds=6),
                       datetime.timedelta(microseconds=-1), datetime.timedelta(0)):
            found = await db.fetchval("SELECT $1::interval", length)
            assert found == length, found
        hour = datetime.timedelta(hours=1)
        assert await db.fetchval("SELECT now() - $1::interval < now()", hour)
        found = await db.fetchval("SELECT s FROM t WHERE ts > $1::timestamp - $2::interval",
                                  row[0], hour)
        assert found == 'oslo', found
        # Types of parameters as in PostgreSQL, without casts.
        for query, values, expected in (
                ("SELECT lag(n, $1, $2) OVER (ORDER BY ts) FROM t", (1, 7), 7),
                ("SELECT ntile($1) OVER (ORDER BY ts) FROM t", (2,), 1),
                ("SELECT sum(n) OVER (ORDER BY ts ROWS $1 PRECEDING) FROM t", (1,), -5),
                ("SELECT sum(n) OVER (ORDER BY ts RANGE $1 PRECEDING) FROM t", (hour,), -5),
                ("SELECT $1 || 'a'", ('b',), 'ba'),
                ("SELECT ts + $1 FROM t", (hour,), row[0] + hour),
                ("SELECT ts - $1 FROM t", (row[0] - hour,), hour),
                ("SELECT INTERVAL '1 hour' * $1", (2.5,), 2.5 * hour),
                ("SELECT max(value) FROM generate_series(1, $1) AS g (value)", (3,), 3),
                ("SELECT b FROM (VALUES ($1, 2), ('x', $2)) AS v (a, b) WHERE a = 'x'", ('y', 4), 4),
                ("SELECT CASE WHEN n < 0 THEN v ELSE $1 END FROM t", (0.5,), 1e300),
                ("SELECT coalesce($1, n) FROM t", (None,), -5),
                ("SELECT count(*) FROM t WHERE n IN ($1, $2)", (-5, 8), 1)):
            found = await db.fetchval(query, *values)
            assert found == expected, (query, found)
        found = await db.fetchval("SELECT to_timestamp($1) = '1970-01-01T00:00:01.5Z'", 1.5)
        assert found is True, found
        for query, error in (("SELECT $1 + $2", asyncpg.AmbiguousFunctionError),
                             ("SELECT $1 IS NULL", asyncpg.IndeterminateDatatypeError)):
            try:
                await db.prepare(query)
            except error:
                pass
            else:
                raise Exception(f"a type was found: {query}")
        # A time with a zone is none of TIMESTAMP, but an instant.
        aware = row[0].replace(tzinfo=datetime.timezone.utc).astimezone(datetime.timezone(hour))
        assert await db.fetchval("SELECT s FROM t WHERE ts = $1::timestamptz", aware) == 'oslo'
        try:
            await db.fetchval("SELECT s FROM t WHERE ts = $1", aware)
        except asyncpg.DataError:
            pass
        else:
            raise Exception("a time with a zone was taken for one without")
        await db.execute("INSERT INTO t (ts, s) VALUES ($1::timestamptz, $2)", aware, 'aware')
        assert await db.fetchval("SELECT ts FROM t WHERE s = 'aware'") == row[0]
        await db.execute("DELETE FROM t WHERE s = 'aware'")
        many = [(datetime.datetime(2025, 4, 1, 0, 0, n), 'many', n) for n in range(50)]
        await db.executemany("INSERT INTO t (ts, s, n) VALUES ($1, $2, $3)", many)
        assert await db.fetchval("SELECT count(*) FROM t WHERE s = $1", 'many') == 50
        assert await db.fetchval("UPDATE t SET n = $1 WHERE s = $2", 7, 'oslo') is None
        assert await db.fetchval("SELECT n FROM t WHERE s = 'oslo'") == 7
        async with db.transaction():
            seen = [r['x'] async for r in db.cursor("SELECT x FROM long_sequence(100)", prefetch=7)]
        assert seen == list(range(1, 101))
        try:
            await db.fetch("SELECT nope FROM t")
        except asyncpg.UndefinedColumnError:
            pass
        else:
            raise Exception("a column was found")
        # Arrays, as parameters and as results.
        for column, value in zip(('ts', 's', 'v', 'n', 'd', 'g', 'ok', 'day'),
                                 (row[0], 'oslo', 1e300, 7, row[4], row[5], True, row[8])):
            count = f"SELECT count(*) FROM t WHERE s = 'oslo' AND {column} = ANY($1)"
            assert await db.fetchval(count, [value]) == 1, column
            assert await db.fetchval(count, []) == 0, column
        found = await db.fetchval("SELECT count(*) FROM t WHERE n <> ALL($1::int[])", [7, 8])
        assert found == 48, found
        found = await db.fetchval("SELECT count(*) FROM t WHERE s IN $1", ['oslo', 'rome'])
        assert found == 1, found
        for kind, value in (('int', [1, -2]), ('bigint', [1 << 40]), ('text', ['a', 'b"c']),
                            ('double precision', [0.5]), ('timestamp', [row[0]]),
                            ('boolean', [True, False]), ('smallint', [3]), ('date', [row[8]])):
            found = await db.fetchval(f"SELECT $1::{kind}[]", value)
            assert found == value, (kind, found)
        assert await db.fetchval("SELECT array_agg(x) FROM long_sequence(3)") == [1, 2, 3]
        found = await db.fetch("SELECT unnest($1::int[])", [4, 5])
        assert [n for (n,) in found] == [4, 5], found
        # Rows by COPY, in binary form.
        copied = [(datetime.datetime(2025, 5, 1, 0, n // 60, n % 60),) + row[1:] for n in range(1000)]
        assert await db.copy_records_to_table('t', records=copied) == 'COPY 1000'
        async with db.transaction():
            records = [(datetime.datetime(2025, 5, 2), 'held')]
            await db.copy_records_to_table('t', columns=['ts', 's'], records=records)
        try:
            async with db.transaction():
                await db.copy_records_to_table('t', columns=['ts', 's'], records=records)
                raise KeyError
        except KeyError:
            pass
        assert await db.fetchval("SELECT count(*) FROM t WHERE s = 'held'") == 1
        for form in ('text', 'csv', 'binary'):
            out = io.BytesIO()
            query = "SELECT ts, s, n FROM t WHERE ts >= $1 AND s = 'oslo'"
            said = await db.copy_from_query(query, copied[0][0], output=out, format=form)
            assert said == 'COPY 1000', said
            out.seek(0)
            said = await db.copy_to_table('t', source=out, columns=['ts', 's', 'n'], format=form)
            assert said == 'COPY 1000', said
            await db.execute("DELETE FROM t WHERE day IS NULL AND s = 'oslo'")
        await db.fetch("SELECT * FROM t LIMIT 1")
        await db.execute("ALTER TABLE t ADD COLUMN more INT")
        found = await db.fetch("SELECT * FROM t LIMIT 1")
        assert 'more' in found[0].keys()
    async with pool.acquire() as db:
        assert await db.fetchval("SELECT current_database()") == 'test'
    await pool.close()

asyncio.run(main())
print("done")
