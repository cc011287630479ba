# ibis: its expressions as SQL, its tables and views, and frames of pandas beside them.
import datetime as dt
import sys

import ibis

port, password = sys.argv[1:3]
db = ibis.postgres.connect(host="127.0.0.1", port=int(port), user="admin", password=password, database="test")


def run(sql):
    with db.begin() as cursor:
        cursor.execute(sql)


run("CREATE TABLE ib (ts TIMESTAMP, s SYMBOL, v DOUBLE, n INT) TIMESTAMP(ts) PARTITION BY DAY")
run("INSERT INTO ib VALUES ('2025-01-01', 'a', 1.5, 1), ('2025-01-01T01:00:00', 'b', 2.5, 2), "
    "('2025-01-02', 'a', 3.5, 3)")
assert set(db.list_tables()) >= {"ib", "t"}
t = db.table("ib")
assert t.schema()["v"].is_float64() and t.schema()["ts"].is_timestamp(), t.schema()


def rows(expression):
    return expression.execute().values.tolist()


assert len(t.head(2).execute()) == 2
found = rows(t.group_by("s").agg(m=t.v.mean(), c=t.count(), md=t.v.median()).order_by("s"))
assert found == [["a", 2.5, 2, 2.5], ["b", 2.5, 1, 2.5]], found
assert rows(t.group_by(h=t.ts.truncate("D")).agg(x=t.v.sum()).order_by("h").select("x")) == [[4.0], [3.5]]
before = t.v.lag().over(ibis.window(group_by="s", order_by="ts"))
found = rows(t.mutate(l=before).filter(ibis._.s == "a").order_by("ts").select("l"))
assert found[1:] == [[1.5]], found
assert t.filter(t.s.isin(["a"]) & (t.ts > dt.datetime(2025, 1, 1))).count().execute() == 1
assert t.join(t.view(), "s").count().execute() == 5
assert t.filter(t.n.isin(t.filter(t.v > 2).n)).count().execute() == 2
assert rows(t.order_by("ts").select(x=t.ts.strftime("%Y-%m-%d %H")))[1] == ["2025-01-01 01"]
assert rows(t.order_by("ts").select(y=t.ts.year(), w=t.ts.week_of_year(), e=t.ts.epoch_seconds()))[0] \
    == [2025, 1, 1735689600]
assert t.v.quantile(0.5).execute() == 2.5 and t.s.mode().execute() == "a"
assert {"s", "v", "n"} <= set(t.describe().execute()["name"])
# Without an order of its own, a list may have its rows in any order (docs/sql.md).
assert sorted(t.v.collect().execute()) == [1.5, 2.5, 3.5]
assert t.to_pyarrow().num_rows == 3
pivot = t.pivot_wider(names_from="s", values_from="v", names=["a", "b"])
assert pivot.columns == ("ts", "n", "a", "b") and pivot.count().execute() == 3
# Tables, temporary tables, frames, views.
db.create_table("ib2", t.head(2), overwrite=True)
assert db.table("ib2").count().execute() == 2
db.create_view("ibv", t.filter(t.v > 2), overwrite=True)
assert db.table("ibv").count().execute() == 2
db.drop_view("ibv")
db.drop_table("ib2")
assert not {"ib2", "ibv"} & set(db.list_tables())
assert db.create_table("ib4", t.head(1), temp=True).count().execute() == 1
side = ibis.memtable({"s": ["a"], "z": [1]})
assert t.join(side, "s").count().execute() == 2
assert db.sql("SELECT count(*) AS c FROM ib").execute()["c"][0] == 3
# A query as a table: a temporary view.
asked = db.sql("SELECT s, sum(v) AS total FROM ib GROUP BY s")
assert rows(asked.filter(asked.s == "a").select("total")) == [[5.0]]
assert db.create_view("ibv2", t.filter(t.v > 2), overwrite=True).count().execute() == 2
db.drop_view("ibv2")
print("done")
