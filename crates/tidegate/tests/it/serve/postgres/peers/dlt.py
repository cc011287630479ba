# dlt: a pipeline of rows with lists within them, appended, then replaced.
import datetime as dt
import os
import sys
import tempfile
from urllib.parse import quote

port, password = sys.argv[1:3]
url = f"postgresql://admin:{quote(password)}@127.0.0.1:{port}/test"
home = tempfile.mkdtemp()
os.environ.update(DESTINATION__POSTGRES__CREDENTIALS=url, RUNTIME__DLTHUB_TELEMETRY="false", DLT_DATA_DIR=home)
import dlt
import psycopg2

pipeline = dlt.pipeline("tg", destination="postgres", dataset_name="public", pipelines_dir=home)
rows = [
    {"ts": dt.datetime(2025, 1, 1, n, tzinfo=dt.timezone.utc), "s": "a", "v": n * 1.5, "tags": ["x", "y"]}
    for n in range(5)
]


def count(table):
    with psycopg2.connect(url) as db, db.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        return cursor.fetchone()[0]


for mode, expected in (("append", 5), ("append", 10), ("replace", 5)):
    pipeline.run(rows, table_name="ev", write_disposition=mode).raise_on_failed_jobs()
    assert (count("ev"), count("ev__tags")) == (expected, 2 * expected), mode
# A column that comes later.
pipeline.run([dict(rows[0], extra=1)], table_name="ev").raise_on_failed_jobs()
assert count("ev WHERE extra = 1") == 1
print("done")
