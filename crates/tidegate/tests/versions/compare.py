"""Compares two binaries of Tidegate in turns, so that a noisy machine slows both alike.

    compare.py --old OLD --new NEW --data DIR --folder DIR [--parts import,queries,tsbs,server] [--turns 5]

DIR of --data has hits.csv, hits.sql (its CREATE TABLE), taxi.parquet and readings.parquet; --folder is emptied.
Parts:
- import   hits.csv, taxi.parquet, readings.parquet, each into a new database; seconds of wall time and of CPU time
- queries  the 43 queries of ClickBench and three filters, on the databases of `import`; best of --repeat runs in
           each turn, milliseconds inside the process
- tsbs     generation and loading of cpu-only, seconds of CPU time; by `tidegate-bench` beside each binary, or by the
           binary itself if it is one that still has the suite
- server   small queries over HTTP, one connection, median of 500 requests; rows a second of line protocol

Prints a table: minimum and median of old and new, and the ratio new / old of the minima and of the medians of the
pairs. Values are times, so a ratio above 1 says that the new binary is slower.
"""

import argparse
import http.client
import json
import math
import os
import resource
import shutil
import socket
import statistics
import subprocess
import time
import urllib.parse
from pathlib import Path

CLICKBENCH = Path(__file__).resolve().parent.parent / "clickbench" / "queries.sql"
FILTERS = {
    "filter 1": "SELECT * FROM readings WHERE velocity > 90.0 AND latitude >= 7.75 AND latitude <= 7.80"
    " AND longitude >= 14.90 AND longitude <= 14.95",
    "filter 2": "SELECT * FROM readings WHERE velocity > 75.0 AND fuel_consumption < 10.0 LIMIT -10",
    "filter 3": "SELECT count(*) FROM readings WHERE velocity > 75.0 AND fuel_consumption < 10.0",
    "sample by": "SELECT timestamp, avg(velocity), max(grade) FROM readings SAMPLE BY 1h",
    "latest on": "SELECT * FROM readings LATEST ON timestamp PARTITION BY name",
}
SMALL = {
    "select 1": "SELECT 1",
    "last rows": "SELECT * FROM readings LIMIT -5",
    "point, new text": "SELECT velocity FROM readings WHERE timestamp = '2016-01-01T00:00:{:02}Z' LIMIT 1",
    "count of a minute": "SELECT count(*), max(velocity) FROM readings WHERE timestamp IN '2016-01-01T00:{:02}'",
}
IMPORTS = {
    "import hits.csv": ("hits", "hits.csv", ["--no-header"]),
    "import taxi.parquet": (
        "taxi",
        "taxi.parquet",
        ["--timestamp", "tpep_pickup_datetime", "--partition-by", "day"],
    ),
    "import readings.parquet": (
        "readings",
        "readings.parquet",
        ["--timestamp", "timestamp", "--partition-by", "day"]
        + ["--symbols", "name,fleet,driver,model,device_version"],
    ),
}


def run(command, **options):
    """Wall seconds, CPU seconds and output of a command that must succeed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr[-800:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


class Figures:
    def __init__(self):
        self.of = {}

    def add(self, name, side, value):
        self.of.setdefault(name, {"old": [], "new": []})[side].append(value)

    def table(self):
        yield "| figure | old, min | old, median | new, min | new, median | min / min | median of pairs |"
        yield "|---|---|---|---|---|---|---|"
        for name, sides in self.of.items():
            old, new = sides["old"], sides["new"]
            pairs = statistics.median(b / a for a, b in zip(old, new))
            cells = [min(old), statistics.median(old), min(new), statistics.median(new)]
            cells = [f"{cell:.4g}" for cell in cells] + [f"{min(new) / min(old):.3f}", f"{pairs:.3f}"]
            yield f"| {name} | " + " | ".join(cells) + " |"

    def geometric_mean(self, prefix):
        ratios = [min(s["new"]) / min(s["old"]) for n, s in self.of.items() if n.startswith(prefix)]
        return math.exp(statistics.mean(map(math.log, ratios))) if ratios else None


def imports(sides, options, figures):
    for turn in range(options.turns):
        for side, binary in order(sides, turn):
            for name, (table, file, arguments) in IMPORTS.items():
                db = options.folder / f"{side}-{table}"
                shutil.rmtree(db, ignore_errors=True)
                source = options.data / file
                if table == "hits":
                    run([binary, "--db", db, "sql", hits_table(options)])
                if turn == 0 and side == "old":
                    warm(source)
                command = [binary, "--db", db, "import", source, "--table", table, *arguments]
                wall, cpu, _ = run([*command, "--progress", "none"])
                figures.add(f"{name}, wall s", side, wall)
                figures.add(f"{name}, CPU s", side, cpu)


def warm(file):
    """Reads a file into the page cache."""
    with open(file, "rb") as opened:
        while opened.read(1 << 24):
            pass


def hits_table(options):
    text = (options.data / "hits.sql").read_text().strip().rstrip(";")
    return f"{text} TIMESTAMP(EventTime) PARTITION BY DAY"


def queries(sides, options, figures):
    clickbench = [line for line in CLICKBENCH.read_text().splitlines() if line.strip()]
    wanted = [(f"clickbench {n}", "hits", sql) for n, sql in enumerate(clickbench)]
    wanted += [(name, "readings", sql) for name, sql in FILTERS.items()]
    for turn in range(options.turns):
        for name, table, sql in wanted:
            for side, binary in order(sides, turn):
                command = [binary, "--db", options.folder / f"{side}-{table}", "sql", sql.rstrip(";")]
                _, _, out = run([*command, "--repeat", options.repeat, "--timings"])
                figures.add(f"{name}, ms", side, min(json.loads(out)["milliseconds"]))


def tsbs(sides, options, figures):
    data = ["--use-case", "cpu-only", "--seed", "123", "--scale", "4000"]
    data += ["--timestamp-end", "2016-01-01T02:00:00Z"]
    for turn in range(options.turns):
        for side, binary in order(sides, turn):
            command = [suite(binary), "tsbs", "generate", *data, "--format", "questdb"]
            file = options.folder / "cpu.ilp"
            figures.add("tsbs generate, CPU s", side, run([*command, "--file", file])[1])
            shutil.rmtree(options.folder / f"{side}-lines", ignore_errors=True)
            with Server(binary, options.folder / f"{side}-lines") as server:
                before = server.cpu()
                load = [suite(binary), "tsbs", "load", "questdb", "--file", file, "--workers", "2"]
                load += ["--protocol", "ilp-http", "--url", f"http://127.0.0.1:{server.http}"]
                wall, _, _ = run(load)
                figures.add("tsbs load, wall s", side, wall)
                figures.add("tsbs load, CPU s of the server", side, server.cpu() - before)


def suite(binary):
    """The program with the suite: beside the binary, or the binary of a version that had both."""
    beside = Path(binary).with_name("tidegate-bench")
    return beside if beside.exists() else binary


def small(sides, options, figures):
    for turn in range(options.turns):
        for side, binary in order(sides, turn):
            with Server(binary, options.folder / f"{side}-readings") as server:
                connection = http.client.HTTPConnection("127.0.0.1", server.http)
                for name, sql in SMALL.items():
                    times = [server.ask(connection, sql.format(n % 60)) for n in range(500)]
                    figures.add(f"{name}, ms over HTTP", side, statistics.median(times) * 1e3)


class Server:
    def __init__(self, binary, db):
        self.http, self.ilp = free_port(), free_port()
        command = [binary, "serve", "--db", db, "--http", f"127.0.0.1:{self.http}"]
        command += ["--ilp", f"127.0.0.1:{self.ilp}", "--set", "pg.listen=none"]
        self.process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.http)
                if self.answer(connection, "SELECT 1")[0] == 200:
                    return
            except OSError:
                pass
            # It does not listen yet, or its database is being opened.
            time.sleep(0.05)
        raise SystemExit("the server does not answer")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def answer(self, connection, sql):
        connection.request("GET", "/exec?" + urllib.parse.urlencode({"query": sql}))
        answer = connection.getresponse()
        return answer.status, answer.read()

    def ask(self, connection, sql):
        start = time.perf_counter()
        status, body = self.answer(connection, sql)
        if status != 200:
            raise SystemExit(f"{sql}: {body[:400]}")
        return time.perf_counter() - start

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def order(sides, turn):
    """Who is first changes from turn to turn."""
    return sides if turn % 2 == 0 else sides[::-1]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--parts", default="import,queries,tsbs,server")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    sides, figures = [("old", options.old), ("new", options.new)], Figures()
    parts = {"import": imports, "queries": queries, "tsbs": tsbs, "server": small}
    for part in options.parts.split(","):
        parts[part](sides, options, figures)
    print("\n".join(figures.table()))
    mean = figures.geometric_mean("clickbench")
    if mean:
        print(f"\nClickBench, geometric mean of new / old: {mean:.3f}")


if __name__ == "__main__":
    main()
