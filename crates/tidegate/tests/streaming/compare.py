#!/usr/bin/env python3
"""Streaming measured: the same lines into Tidegate and QuestDB, in one run, by the same loader.

Needs `tidegate` (--tidegate), `tidegate-bench` (--bench; by default the one beside it), Java and
the jar of QuestDB (--questdb). Both servers have their default settings, listen on loopback, and
begin each load with an empty directory. The parts:

- throughput: lines of TSBS over TCP by two connections, until all rows can be read.
- late: a tenth of the rows up to an hour late, beside the same rows in order; bytes written.
- idle: single rows over HTTP, one after the other, beside `fdatasync` of the same disk.
- tables: 1,000 tables by 10 connections. symbols: a million distinct ones, and a thousand.
- queries: queries of one table while another one is written at full speed.
"""

import argparse
import http.client
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from datetime import datetime, timedelta
from pathlib import Path

USE_CASES = {
    "iot": ["--use-case", "iot", "--scale", "1000"],
    "cpu-only": ["--use-case", "cpu-only", "--scale", "1000"],
}
HOURS = {"iot": 15, "cpu-only": 14}
QUERIES = {
    "count of a filter": "SELECT count() FROM cpu WHERE usage_user > 90 AND usage_system < 10",
    "by host": "SELECT hostname, avg(usage_user) FROM cpu GROUP BY hostname ORDER BY hostname LIMIT 10",
    "by hour": "SELECT timestamp, max(usage_user) FROM cpu SAMPLE BY 1h",
    "last rows": "SELECT * FROM cpu WHERE usage_user > 90 LIMIT -10",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server with an empty directory, its ports, and its process."""

    def __init__(self, command, folder, ready):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder, self.log = folder, open(folder.with_suffix(".log"), "wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{ready}", timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"{command[0]} did not start, see {self.log.name}")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def sql(self, text, **options):
        query = urllib.parse.urlencode({"query": text, **options})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/exec?{query}", timeout=600) as reply:
            return json.load(reply)

    def anonymous_megabytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) // 1024


class Tidegate(Server):
    name = target = "tidegate"

    def __init__(self, options):
        self.http, self.tcp = free_port(), free_port()
        super().__init__(
            [options.tidegate, "--db", str(options.folder / "tidegate"), "serve",
             "--http", f"127.0.0.1:{self.http}", "--ilp", f"127.0.0.1:{self.tcp}"],
            options.folder / "tidegate", "/health")

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics") as reply:
            lines = [line.rsplit(" ", 1) for line in reply.read().decode().splitlines() if line[:1] != "#"]
        return {name: float(value) for name, value in lines}

    def commit_milliseconds(self, protocol, part):
        """The upper bound of the bucket in which this part of all commits ends."""
        found = re.compile(rf'tidegate_commit_seconds_bucket{{protocol="{protocol}",le="([^"]+)"}}')
        buckets = [(float(m[1]), n) for name, n in self.metrics().items() if (m := found.fullmatch(name))]
        buckets.sort()
        return next(bound for bound, count in buckets if count >= part * buckets[-1][1]) * 1e3

    def written(self):
        """Bytes of the log, and how many times as many were written in all."""
        m = self.metrics()
        wal = m["tidegate_wal_written_bytes_total"]
        rest = m["tidegate_flushed_bytes_total"] + m["tidegate_compacted_bytes_total"]
        return {"wal_bytes": wal, "write_amplification": round((wal + rest) / wal, 2)}


class QuestDB(Server):
    name = target = "questdb"

    def __init__(self, options):
        self.http, self.tcp = free_port(), free_port()
        folder = options.folder / "questdb"
        settings = {
            "QDB_HTTP_NET_BIND_TO": f"127.0.0.1:{self.http}", "QDB_LINE_TCP_NET_BIND_TO": f"127.0.0.1:{self.tcp}",
            "QDB_PG_NET_BIND_TO": f"127.0.0.1:{free_port()}", "QDB_HTTP_MIN_ENABLED": "false",
            "QDB_LINE_UDP_ENABLED": "false", "QDB_TELEMETRY_ENABLED": "false",
        }
        os.environ.update(settings)
        super().__init__(
            ["java", "-XX:+UseParallelGC", "-p", options.questdb, "-m", "io.questdb/io.questdb.ServerMain", "-d", str(folder)],
            folder, "/exec?query=select%201")


def generate(options, use_case):
    path = options.folder / f"{use_case}.lines"
    if not path.exists():
        end = (datetime(2016, 1, 1) + timedelta(hours=HOURS[use_case] * options.size)).strftime("%Y-%m-%dT%H:%M:%SZ")
        subprocess.run([options.bench, "tsbs", "generate", *USE_CASES[use_case], "--seed", "123", "--timestamp-end", end,
                        "--format", "questdb", "--threads", "2", "--file", str(path)], check=True, stderr=subprocess.DEVNULL)
    return path


def load(options, server, path, workers=2, extra=()):
    """TSBS's loader until all rows can be read: its counts."""
    report = options.folder / "report.json"
    report.unlink(missing_ok=True)
    command = [options.bench, "tsbs", "load", server.target, "--file", str(path), "--workers", str(workers), "--url", f"http://127.0.0.1:{server.http}",
               "--ilp-bind-to", f"127.0.0.1:{server.tcp}", "--results-file", str(report), "--reporting-period", "0", "--wait", "120s", *extra]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(report.read_text())["tidegate"]


def throughput(options):
    rates = {}
    for use_case in USE_CASES:
        path = generate(options, use_case)
        for run in range(options.runs):
            for engine in [Tidegate, QuestDB]:
                with engine(options) as server:
                    counts = load(options, server, path)
                    row = {"rows": counts["readableRows"], "rows_per_second": round(counts["readableRowRate"])}
                    if engine is Tidegate:
                        row |= {"p99_commit_ms": server.commit_milliseconds("tcp", 0.99), "anonymous_mb": server.anonymous_megabytes(), **server.written()}
                    rates.setdefault(use_case, {}).setdefault(engine.name, []).append(row)
                    say(f"throughput {use_case} run {run + 1} {engine.name}: {row}")
    return rates


def late(options):
    """A tenth of the lines comes up to an hour late: each late line waits in a heap of its own."""
    path, shuffled = generate(options, "cpu-only"), options.folder / "late.lines"
    if not shuffled.exists():
        rng, waiting, lines_per_hour = random.Random(7), {}, 360 * 1000
        with path.open("rb") as source, shuffled.open("wb") as out:
            for number, line in enumerate(source):
                for held in waiting.pop(number, ()):
                    out.write(held)
                if rng.random() < 0.1:
                    waiting.setdefault(number + rng.randrange(1, lines_per_hour), []).append(line)
                else:
                    out.write(line)
            for number in sorted(waiting):
                out.writelines(waiting[number])
    rows = []
    for run in range(options.runs):
        for name, file in [("in order", path), ("a tenth late", shuffled)]:
            with Tidegate(options) as server:
                counts = load(options, server, file)
                settled = settle(server)
                row = {"rows_per_second": round(counts["readableRowRate"]), "settled_after_s": settled, **server.written()}
                rows.append({"order": name, **row})
                say(f"late {name}: {row}")
    return rows


def settle(server, quiet=3):
    """Seconds until nothing has been flushed or compacted for a while."""
    start, last, since = time.monotonic(), None, time.monotonic()
    while time.monotonic() - since < quiet:
        m = server.metrics()
        now = (m["tidegate_flushed_bytes_total"], m["tidegate_compacted_bytes_total"])
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.2)
    return round(since - start, 1)


def idle(options):
    with Tidegate(options) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.http)

        def post(number):
            connection.request("POST", "/write", f"idle,host=a value={number}.5 {1_700_000_000_000_000_000 + number}")
            assert connection.getresponse().read() == b""

        def commits():
            m = server.metrics()
            return m['tidegate_commit_seconds_sum{protocol="http"}'], m['tidegate_commit_seconds_count{protocol="http"}']

        for number in range(100):
            post(number)
        # A sync like that of the log: into bytes that are there already.
        path = options.folder / "sync"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.write(descriptor, bytes(4 << 20))
        os.fsync(descriptor)
        before, round_trips, syncs = commits(), [], []
        for number in range(500):
            start = time.perf_counter()
            post(1000 + number)
            round_trips.append(time.perf_counter() - start)
            start = time.perf_counter()
            os.pwrite(descriptor, os.urandom(4096), number * 4096)
            os.fdatasync(descriptor)
            syncs.append(time.perf_counter() - start)
        after = commits()
        os.close(descriptor)
        row = {
            "commit_mean_ms": round((after[0] - before[0]) / (after[1] - before[1]) * 1e3, 3),
            "round_trip_median_ms": round(statistics.median(round_trips) * 1e3, 3),
            "fdatasync_median_ms": round(statistics.median(syncs) * 1e3, 3),
            "fdatasync_mean_ms": round(statistics.mean(syncs) * 1e3, 3),
        }
        say(f"idle: {row}")
        return row


def write_lines(path, rows, line):
    with path.open("w") as out:
        for start in range(0, rows, 10_000):
            out.write("".join(line(number) for number in range(start, min(rows, start + 10_000))))
    return path


def many(options):
    """Lines of one shape, with few or many tables or symbols."""
    rows, start = int(2_000_000 * options.size), 1_700_000_000_000_000_000
    kinds = {
        "one table, 1,000 symbols": (2, lambda n: f"one,host=h{n * 7919 % 1000} a={n % 97}.25,b={n}i {start + n * 1_000_000}\n"),
        "one table, 1,000,000 symbols": (2, lambda n: f"one,host=h{n * 7919 % 1_000_000} a={n % 97}.25,b={n}i {start + n * 1_000_000}\n"),
        "1,000 tables, 10 connections": (10, lambda n: f"t{n * 7919 % 1000},host=h{n * 31 % 1000} a={n % 97}.25,b={n}i {start + n * 1_000_000}\n"),
    }
    found = {}
    for name, (workers, line) in kinds.items():
        path = write_lines(options.folder / "many.lines", rows, line)
        with Tidegate(options) as server:
            peak, done = [0], threading.Event()

            def watch():
                while not done.wait(0.1):
                    peak[0] = max(peak[0], server.anonymous_megabytes())

            watcher = threading.Thread(target=watch)
            watcher.start()
            begun = time.monotonic()
            subprocess.run([options.bench, "tsbs", "load", "sink", "--file", str(path), "--workers", str(workers), "--ilp-bind-to", f"127.0.0.1:{server.tcp}",
                            "--reporting-period", "0"], check=True, capture_output=True)
            count = 0
            while count < rows and time.monotonic() - begun < 300:
                count = server.sql("SELECT sum(table_row_count) FROM tables()")["dataset"][0][0] or 0
            seconds = time.monotonic() - begun
            done.set()
            watcher.join()
            row = {"rows": count, "rows_per_second": round(count / seconds), "anonymous_peak_mb": peak[0], "p99_commit_ms": server.commit_milliseconds("tcp", 0.99), **server.written()}
            found[name] = row
            say(f"many {name}: {row}")
        path.unlink()
    return found


def queries(options):
    with Tidegate(options) as server:
        load(options, server, generate(options, "cpu-only"))
        settle(server)

        def times(repeat):
            found = {name: [] for name in QUERIES}
            for _ in range(repeat):
                for name, sql in QUERIES.items():
                    start = time.perf_counter()
                    server.sql(sql, limit="1,10")
                    found[name].append(time.perf_counter() - start)
            return {name: statistics.median(values) * 1e3 for name, values in found.items()}

        times(3)
        quiet = times(15)
        loading = threading.Thread(target=load, args=(options, server, generate(options, "iot")))
        loading.start()
        time.sleep(1)
        busy, alive = times(6), loading.is_alive()
        loading.join()
        rows = {name: {"idle_ms": round(quiet[name], 2), "while_loading_ms": round(busy[name], 2), "ratio": round(busy[name] / quiet[name], 2)} for name in QUERIES}
        rows["still_loading_at_the_end"] = alive
        say(f"queries: {rows}")
        return rows


def say(text):
    print(text, file=sys.stderr, flush=True)


PARTS = {"throughput": throughput, "late": late, "idle": idle, "many": many, "queries": queries}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--tidegate", required=True)
    parser.add_argument("--bench", help="tidegate-bench [default: beside --tidegate]")
    parser.add_argument("--questdb", default=str(Path.home() / ".cache/tidegate-peers/questdb.jar"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--size", type=float, default=1, help="how many times the usual rows")
    parser.add_argument("--folder", type=Path, help="where files and databases go, empty at the end")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.bench = options.bench or str(Path(options.tidegate).with_name("tidegate-bench"))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        options.folder = Path(folder)
        results = {part: PARTS[part](options) for part in options.parts}
    text = json.dumps(results, indent=1)
    options.json.write_text(text + "\n") if options.json else print(text)


if __name__ == "__main__":
    main()
