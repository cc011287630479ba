import sys, datetime
from urllib.parse import quote
from sqlalchemy import (TIMESTAMP, Column, Float, MetaData, String, Table, create_engine, func,
                        inspect, select, text)

port, password = sys.argv[1:3]
try:
    import psycopg
    driver = 'psycopg'
except ImportError:
    driver = 'psycopg2'
engine = create_engine(f"postgresql+{driver}://admin:{quote(password)}@127.0.0.1:{port}/test")
with engine.begin() as db:
    db.execute(text("INSERT INTO t (ts, s, v) VALUES (:ts, :s, :v)"),
               [dict(ts=datetime.datetime(2025, 3, 1, 0, 0, n), s='a', v=n / 2) for n in range(5)])
names = inspect(engine).get_table_names()
assert names == ['t'], names
assert inspect(engine).has_table('t') and not inspect(engine).has_table('nope')
table = Table('t', MetaData(), Column('ts', TIMESTAMP), Column('s', String), Column('v', Float))
with engine.connect() as db:
    found = db.execute(select(func.count(), func.sum(table.c.v)).where(table.c.s == 'a')).one()
    assert tuple(found) == (5, 5.0), found
print("done")
