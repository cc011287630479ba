#!/usr/bin/env python3
"""Scheduling measured: a light query beside two heavy ones, and CPU time after a cancel.

Needs `tidegate` (--tidegate); several binaries are measured one after the other, on one database,
which is made at first (--rows, 20 million by default) and kept in --folder. Parts (--parts):

- beside: two heavy statements of a kind work again and again; meanwhile a light query is asked over
  one connection, with a text of its own each time (it is planned), every --pace seconds. Its times,
  from request to answer, as p50, p99 and the longest.
- cancel: a heavy statement is abandoned by its client after a while; the CPU time of the process
  from then on until it is idle, less that of an idle server.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

HEAVY = {
    "order by": "SELECT * FROM big ORDER BY v, s",
    "window": "SELECT count(*) FROM (SELECT sum(v) OVER (PARTITION BY k ORDER BY ts) w FROM big) WHERE w < 0",
    "group by": "SELECT count(*) FROM (SELECT s, count(*) c, max(v) m FROM big GROUP BY s) WHERE c < 0",
    "regexp_replace": "SELECT count(*) FROM big WHERE regexp_replace(s, '[0-9]+[a-f]+', 'x', 'g') = 'never'",
    "sin, cos": "SELECT sum(sin(v) * cos(v) + sqrt(abs(sin(v)))) FROM big",
}
CANCELED = {
    "order by": "SELECT * FROM big ORDER BY v, s",
    "order by one key": "SELECT * FROM big ORDER BY s",
    "group by": "SELECT s, count(*), max(v) FROM big GROUP BY s",
    "distinct union": "SELECT s, v FROM big UNION SELECT s, v + 1 FROM big",
    "intersect": "SELECT s FROM big INTERSECT SELECT s FROM big",
    "window": "SELECT sum(v) OVER (PARTITION BY k ORDER BY ts) FROM big",
    "string_agg": "SELECT k, string_agg(s, ',') FROM big GROUP BY k",
}
LIGHT = "SELECT count(*), max(v) FROM trips WHERE k = 'k{}' AND ts > '2024-01-01T00:10:00Z'"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, binary, folder, memory):
        self.port = free_port()
        command = [binary, "serve", "--db", str(folder), "--http", f"127.0.0.1:{self.port}", "--ilp", "none"]
        command += ["--memory", memory, "--set", "pg.listen=none"]
        command += ["--set", "query.timeout=10m"]
        self.log = open(Path(folder).with_suffix(".log"), "ab")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(600):
            try:
                return self.rows("select 1") and None
            except OSError:
                time.sleep(0.1)
        sys.exit("the server does not answer")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def rows(self, sql, connection=None):
        connection = connection or self.connect()
        connection.request("POST", "/exec", urllib.parse.urlencode({"query": sql}),
                           {"Content-Type": "application/x-www-form-urlencoded"})
        answer = json.loads(connection.getresponse().read())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer.get("dataset", [])

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def prepare(server, rows):
    if server.rows("SELECT count(*) FROM tables() WHERE table_name = 'trips'") == [[1]]:
        return
    server.rows("CREATE TABLE big (ts TIMESTAMP, k SYMBOL, v DOUBLE, i INT, s VARCHAR) TIMESTAMP(ts) PARTITION BY DAY")
    server.rows("CREATE TABLE trips (ts TIMESTAMP, k SYMBOL, v DOUBLE, i INT, s VARCHAR) TIMESTAMP(ts) PARTITION BY DAY")
    step = 1_000_000
    for start in range(0, rows, step):
        server.rows(
            "INSERT INTO big SELECT to_timestamp_micros(1704067200000000 + x * 10000), 'k' || (x % 1000), "
            f"((x * 7919) % 1000003) / 1000.0, (x % 100000)::int, md5(x::varchar) "
            f"FROM generate_series({start}, {min(start + step, rows) - 1}) AS t(x)")
    server.rows(f"INSERT INTO trips SELECT * FROM big WHERE ts < '2024-01-01T02:46:40Z'")


def ask_for_ever(server, sql, stop):
    while not stop.is_set():
        try:
            connection = server.connect()
            body = urllib.parse.urlencode({"query": sql})
            connection.request("POST", "/exec", body, {"Content-Type": "application/x-www-form-urlencoded"})
            answer = connection.getresponse()
            while not stop.is_set() and answer.read(1 << 20):
                pass
            connection.close()
        except (OSError, http.client.HTTPException):
            pass


def beside(server, heavy, seconds, pace):
    stop, times = threading.Event(), []
    threads = [threading.Thread(target=ask_for_ever, args=(server, heavy, stop)) for _ in range(2 if heavy else 0)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    connection, end, number = server.connect(), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        start = time.monotonic()
        server.rows(LIGHT.format(number % 1000) + f" AND i <> -{number}", connection)
        times.append(time.monotonic() - start)
        time.sleep(max(0, pace - times[-1]))
    stop.set()
    for thread in threads:
        thread.join()
    return sorted(times)


def abandoned(server, sql, after):
    """CPU seconds after the client has gone, and how long it was until the server was idle."""
    connection = server.connect()
    connection.request("POST", "/exec", urllib.parse.urlencode({"query": sql}),
                       {"Content-Type": "application/x-www-form-urlencoded"})
    time.sleep(after)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    start, before, last, quiet = time.monotonic(), server.cpu(), 0.0, 0
    while quiet < 5:
        time.sleep(0.1)
        used = server.cpu() - before
        quiet = quiet + 1 if used - last < 0.02 else 0
        last = used
    return last, time.monotonic() - start - 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--pace", type=float, default=0.05)
    parser.add_argument("--memory", default="4GiB")
    parser.add_argument("--parts", default="beside,cancel")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--after", type=float, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    kinds = [kind for kind in options.kinds.split(",") if kind]
    for binary in options.tidegate:
        name, path = binary.split("=", 1)
        server = Server(path, options.folder, options.memory)
        try:
            prepare(server, options.rows)
            if "beside" in options.parts:
                for kind, heavy in [("nothing", None), *HEAVY.items()]:
                    if kinds and kind not in kinds:
                        continue
                    times = beside(server, heavy, options.seconds, options.pace)
                    p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
                    print(f"| {name} | {kind} | {len(times)} | {statistics.median(times) * 1e3:.1f} | "
                          f"{p99 * 1e3:.1f} | {times[-1] * 1e3:.1f} |", flush=True)
            if "cancel" in options.parts:
                for kind, heavy in CANCELED.items():
                    if kinds and kind not in kinds:
                        continue
                    used = [abandoned(server, heavy, after) for after in options.after]
                    cells = ", ".join(f"{cpu:.2f} s in {wall:.1f} s" for cpu, wall in used)
                    print(f"| {name} | {kind} | {cells} |", flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
