# dbt: seeds, a table, a view, an incremental model, tests and docs, twice over.
import os
import sys
import tempfile
from pathlib import Path

port, password = sys.argv[1:3]
os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
from dbt.cli.main import dbtRunner

FILES = {
    "dbt_project.yml": "name: tg\nversion: '1.0'\nprofile: tg\nmodel-paths: [models]\nseed-paths: [seeds]\n",
    "profiles.yml": f"""tg:
  target: dev
  outputs:
    dev: {{type: postgres, host: 127.0.0.1, port: {port}, user: admin, password: '{password}', dbname: test,
           schema: public, threads: 1}}
""",
    "seeds/raw.csv": "ts,s,v\n2025-01-01 00:00:00,a,1.5\n2025-01-02 00:00:00,b,2.5\n",
    "models/tab.sql": "{{ config(materialized='table') }} select s, avg(v) m from {{ ref('raw') }} group by s",
    "models/vw.sql": "select * from {{ ref('raw') }} where v > 2",
    "models/above.sql": "select count(*) as n from {{ ref('vw') }}",
    "models/inc.sql": "{{ config(materialized='incremental', unique_key='ts') }} select ts, s, v from "
    "{{ ref('raw') }} {% if is_incremental() %} where ts >= (select max(ts) from {{ this }}) {% endif %}",
    "models/schema.yml": """version: 2
models:
  - name: tab
    description: a table
    columns:
      - name: s
        description: a name
        data_tests: [not_null, unique]
""",
}
home = Path(tempfile.mkdtemp())
for name, text in FILES.items():
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).write_text(text)
for command in ("debug", "seed", "run", "test", "docs generate", "seed", "run", "run --full-refresh", "test"):
    places = ["--project-dir", str(home), "--profiles-dir", str(home), "--quiet"]
    done = dbtRunner().invoke([*command.split(), *places])
    assert done.success, (command, done.exception, done.result)
import psycopg2

db = psycopg2.connect(host="127.0.0.1", port=port, user="admin", password=password, dbname="test")
with db, db.cursor() as cursor:
    for query, expected in (("SELECT count(*) FROM vw", 1), ("SELECT n FROM above", 1), ("SELECT count(*) FROM inc", 2), ("SELECT count(*) FROM tab", 2)):
        cursor.execute(query)
        assert cursor.fetchone() == (expected,), query
print("done")
