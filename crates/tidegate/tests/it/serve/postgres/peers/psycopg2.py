import sys, datetime, decimal
import psycopg2
from psycopg2 import errors

port, password = sys.argv[1:3]
db = psycopg2.connect(host='127.0.0.1', port=port, user='admin', password=password, dbname='test')
cursor = db.cursor()
at = datetime.datetime(2025, 3, 1, 1, 2, 3, 4)
cursor.execute("INSERT INTO t (ts, s, v, d) VALUES (%s, %s, %s, %s)",
               (at, "it's", 0.5, decimal.Decimal('1.250')))
db.commit()
cursor.execute("SELECT ts, s, v, d FROM t WHERE s = %s", ("it's",))
assert cursor.fetchall() == [(at, "it's", 0.5, decimal.Decimal('1.250'))]
far = db.cursor('far')
far.itersize = 10
far.execute("SELECT x FROM long_sequence(100)")
assert sum(x for (x,) in far) == 5050
far.close()
try:
    cursor.execute("SELECT 1/0")
except errors.DivisionByZero:
    db.rollback()
else:
    raise Exception("a quotient was found")
cursor.execute("INSERT INTO t (ts, s) VALUES ('2025-03-02', 'gone')")
db.rollback()
cursor.execute("SELECT count(*) FROM t")
assert cursor.fetchone() == (1,)
db.close()
print("done")
