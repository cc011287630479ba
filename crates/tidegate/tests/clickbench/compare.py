"""Runs the 43 queries of ClickBench in Tidegate and in DuckDB, on the same rows, and compares rows and times.

    compare.py --db DIR --csv hits.csv [--table hits] [--tidegate PROGRAM] [--duckdb FILE]
               [--queries 0,7,20] [--repeat 3] [--explain 5] [--json OUT] [--no-times] [--no-rows]

The table must be in the Tidegate database already, imported from the same CSV without header; DuckDB loads it
once into FILE (default: hits.duckdb beside the database) with the columns that Tidegate names.
Needs a Python that has duckdb and pyarrow. Exits with 1 if a query fails or any rows differ.

Rows are compared twice:
 - whole: the query without LIMIT and OFFSET, and with a HAVING bound that a small table reaches. Both engines
   must give the same multiset of rows; floats agree to 1e-9 of their size.
 - limited: the query as it is. Ties may be cut differently, so the columns of ORDER BY must be equal row by row,
   and the rows of Tidegate must be among those of the whole.
Columns of ORDER BY that are not selected are selected for this.

Times are milliseconds, the best of --repeat runs after one run to warm up, each inside its own process with
planning, all rows taken as Arrow batches. The ratio is Tidegate's time over DuckDB's: less than 1 is faster.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-9
HAVING_BOUND = 10
TYPES = {"SYMBOL": "VARCHAR", "TIMESTAMP_NS": "TIMESTAMP_NS", "UTINYINT": "UTINYINT", "IPV4": "UINTEGER"}


class Failed(Exception):
    """A query that an engine could not do."""


class Tidegate:
    def __init__(self, program, db):
        self.command = [program, "--db", str(db), "sql"]

    def call(self, *arguments):
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed("tidegate: " + done.stderr.strip())
        return done.stdout

    def rows(self, sql):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            self.call(sql, "--format", "parquet", "--output", str(path))
            return pyarrow.parquet.read_table(path)

    def milliseconds(self, sql, repeat):
        times = json.loads(self.call(sql, "--repeat", str(repeat + 1), "--timings"))["milliseconds"]
        return min(times[1:])

    def columns(self, table):
        shown = json.loads(self.call(f"SHOW COLUMNS FROM {table}", "--format", "json"))
        return [(column["column"], column["type"]) for column in shown]

    def explain(self, sql):
        lines = json.loads(self.call(f"EXPLAIN ANALYZE {sql}", "--format", "json"))
        return [line["QUERY PLAN"] for line in lines]


class DuckDB:
    def __init__(self, file):
        self.connection = duckdb.connect(str(file))

    def load(self, table, columns, csv):
        names = [row[0] for row in self.connection.execute("SHOW TABLES").fetchall()]
        if table.lower() in [name.lower() for name in names]:
            return
        columns = ", ".join(f'"{name}" {TYPES.get(ty, ty)}' for name, ty in columns)
        self.connection.execute(f'CREATE TABLE "{table}" ({columns})')
        # A quoted empty field is an empty text, as in Tidegate.
        options = "HEADER false, DELIMITER ',', QUOTE '\"', ESCAPE '\"', ALLOW_QUOTED_NULLS false"
        self.connection.execute(f"COPY \"{table}\" FROM '{csv}' ({options})")

    def rows(self, sql):
        try:
            return self.connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise Failed(f"duckdb: {error}") from error

    def milliseconds(self, sql, repeat):
        times = []
        for _ in range(repeat + 1):
            start = time.perf_counter()
            self.rows(sql)
            times.append((time.perf_counter() - start) * 1e3)
        return min(times[1:])


def split_list(text):
    """The parts of a list, whose commas in brackets and quotes separate nothing."""
    parts, depth, in_quotes, part = [], 0, False, ""
    for character in text:
        in_quotes ^= character == "'"
        if not in_quotes:
            depth += (character == "(") - (character == ")")
        if character == "," and depth == 0 and not in_quotes:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    return [*parts, part.strip()]


class Query:
    """A query of the suite, and what is asked instead to compare its rows."""

    def __init__(self, number, sql):
        self.number, self.sql = number, sql
        found = re.fullmatch(r"SELECT (?P<list>.+?) FROM (?P<rest>.+?)(?: ORDER BY (?P<order>.+?))?(?P<limit> LIMIT .+)?", sql)
        # `extract(minute FROM ..)` has a FROM of its own.
        while found["list"].count("(") != found["list"].count(")"):
            at = found.end("list") + len(" FROM ")
            found = re.fullmatch(rf"SELECT (?P<list>.{{{at - len('SELECT ')},}}?) FROM (?P<rest>.+?)(?: ORDER BY (?P<order>.+?))?(?P<limit> LIMIT .+)?", sql)
        selected = split_list(found["list"])
        names = {}
        for position, expression in enumerate(selected):
            for name in re.split(r" AS ", expression):
                names.setdefault(name, position)
        order = [re.sub(r" (ASC|DESC)$", "", key) for key in split_list(found["order"])] if found["order"] else []
        missing = [key for key in order if key not in names and selected != ["*"]]
        for key in missing:
            names[key] = len(selected)
            selected.append(key)
        #: Positions in the answer, or names of columns, that ORDER BY looks at.
        self.order = [names.get(key, key) for key in order]
        head = f"SELECT {', '.join(selected)} FROM "
        order_by = f" ORDER BY {found['order']}" if found["order"] else ""
        self.limited = head + found["rest"] + order_by + (found["limit"] or "")
        rest = re.sub(r"HAVING COUNT\(\*\) > \d+", f"HAVING COUNT(*) > {HAVING_BOUND}", found["rest"])
        self.whole = head + rest


def normal(table):
    """The same values under one type each: int64, float64, text, days and microseconds."""
    arrays = []
    for column in table.columns:
        ty = column.type
        if pyarrow.types.is_integer(ty) or (pyarrow.types.is_decimal(ty) and ty.scale == 0):
            ty = pyarrow.int64()
        elif pyarrow.types.is_floating(ty) or pyarrow.types.is_decimal(ty):
            ty = pyarrow.float64()
        elif pyarrow.types.is_timestamp(ty):
            ty = pyarrow.timestamp("us")
        elif pyarrow.types.is_date(ty):
            ty = pyarrow.date32()
        else:
            ty = pyarrow.large_string()
        arrays.append(column.cast(ty))
    return arrays


def comparable(left, right):
    """Both answers with equal types; where one has floats, so has the other."""
    left, right = normal(left), normal(right)
    if len(left) != len(right):
        raise Failed(f"{len(left)} columns against {len(right)}")
    for at, (one, other) in enumerate(zip(left, right)):
        if one.type != other.type and {one.type, other.type} == {pyarrow.int64(), pyarrow.float64()}:
            left[at], right[at] = one.cast(pyarrow.float64()), other.cast(pyarrow.float64())
        elif one.type != other.type:
            raise Failed(f"column {at}: {one.type} against {other.type}")
    names = [str(at) for at in range(len(left))]
    return pyarrow.table(left, names=names), pyarrow.table(right, names=names)


def column_difference(one, other):
    """The first row at which two columns differ; None if they do not."""
    if pyarrow.types.is_floating(one.type):
        pairs = enumerate(zip(one.to_pylist(), other.to_pylist()))
        close = lambda a, b: a == b or (None not in (a, b) and math.isclose(a, b, rel_tol=TOLERANCE))
        return next((row for row, (a, b) in pairs if not close(a, b)), None)
    if one.equals(other):
        return None
    pairs = enumerate(zip(one.to_pylist(), other.to_pylist()))
    return next((row for row, (a, b) in pairs if a != b), None)


def sorted_rows(table):
    """In an order that both engines' rows have if they are the same: floats last, as they may differ a little."""
    names = sorted(table.column_names, key=lambda name: pyarrow.types.is_floating(table.schema.field(name).type))
    return table.sort_by([(name, "ascending") for name in names])


def whole_difference(left, right):
    left, right = comparable(left, right)
    if left.num_rows != right.num_rows:
        return f"{left.num_rows} rows against {right.num_rows}"
    left, right = sorted_rows(left), sorted_rows(right)
    for name in left.column_names:
        row = column_difference(left[name], right[name])
        if row is not None:
            return f"column {name}: {left[name][row].as_py()!r} against {right[name][row].as_py()!r}"
    return None


def limited_difference(query, left, right, whole):
    """What is wrong with limited rows of Tidegate (left), given those of DuckDB and all of Tidegate's own."""
    names = [name.lower() for name in left.column_names]
    keys = [key if isinstance(key, int) else names.index(key.lower()) for key in query.order]
    left, right = comparable(left, right)
    whole, _ = comparable(whole, left)
    if left.num_rows != right.num_rows:
        return f"limited: {left.num_rows} rows against {right.num_rows}"
    for key in keys:
        row = column_difference(left[key], right[key])
        if row is not None:
            return f"limited, row {row}: {left[key][row].as_py()!r} against {right[key][row].as_py()!r}"
    exact = [name for name in left.column_names if not pyarrow.types.is_floating(left.schema.field(name).type)]
    for row in range(left.num_rows):
        rest = whole
        for name in exact:
            value = left[name][row]
            rest = rest.filter(pc.is_null(rest[name]) if not value.is_valid else pc.equal(rest[name], value))
        if rest.num_rows == 0:
            return f"limited, row {row}: not among all rows"
    return None


def row_difference(query, tidegate, peer):
    try:
        whole = tidegate.rows(query.whole)
        difference = whole_difference(whole, peer.rows(query.whole))
        # A higher bound of HAVING leaves fewer rows, which are among those of the lower one.
        return difference or limited_difference(query, tidegate.rows(query.limited), peer.rows(query.limited), whole)
    except Failed as failed:
        return str(failed)


def read_queries(wanted, table):
    lines = (HERE / "queries.sql").read_text().splitlines()
    lines = [re.sub(r"\bFROM hits\b", f"FROM {table}", line.rstrip(";")) for line in lines]
    return [Query(number, sql) for number, sql in enumerate(lines) if wanted is None or number in wanted]


def measure(query, tidegate, peer, repeat):
    try:
        return tidegate.milliseconds(query.sql, repeat), peer.milliseconds(query.sql, repeat)
    except Failed:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True, type=Path)
    parser.add_argument("--csv", required=True, type=Path)
    parser.add_argument("--table", default="hits")
    parser.add_argument("--tidegate", default="tidegate")
    parser.add_argument("--duckdb", type=Path)
    parser.add_argument("--queries", type=lambda text: {int(number) for number in text.split(",")})
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--explain", type=int, default=0, help="show the plans of so many queries with the worst ratios")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--no-rows", action="store_true")
    options = parser.parse_args()
    tidegate = Tidegate(options.tidegate, options.db)
    peer = DuckDB(options.duckdb or options.db.parent / "hits.duckdb")
    peer.load(options.table, tidegate.columns(options.table), options.csv)
    print(f"duckdb {duckdb.__version__}\n query  tidegate ms  duckdb ms   ratio  rows")
    results, differences = [], 0
    for query in read_queries(options.queries, options.table):
        difference = None if options.no_rows else row_difference(query, tidegate, peer)
        times = None if options.no_times else measure(query, tidegate, peer, options.repeat)
        differences += difference is not None
        shown = "           -          -       -" if times is None else f"{times[0]:12.1f} {times[1]:10.1f} {times[0] / times[1]:7.2f}"
        verdict = "not compared" if options.no_rows else f"DIFFERENT: {difference}" if difference else "same"
        print(f"{query.number:6} {shown}  {verdict}", flush=True)
        results.append({"query": query.number, "times": times, "difference": difference})
    timed = [result for result in results if result["times"]]
    if timed:
        mean = lambda values: math.exp(sum(math.log(value) for value in values) / len(values))
        ours, theirs = (mean([result["times"][engine] for result in timed]) for engine in (0, 1))
        print(f"  mean {ours:12.1f} {theirs:10.1f} {ours / theirs:7.2f}  geometric, of {len(timed)} queries")
    worst = sorted(timed, key=lambda result: result["times"][1] / result["times"][0])[: options.explain]
    texts = {query.number: query.sql for query in read_queries(None, options.table)}
    for result in worst:
        print(f"\n-- {result['query']}: {texts[result['query']]}")
        print("\n".join(tidegate.explain(texts[result["query"]])))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
