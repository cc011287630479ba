"""Times the queries of TSBS's cpu-only use case at several servers in turns, over PostgreSQL's protocol.

    tsbs_queries.py NAME=CONNECTION NAME=CONNECTION ... [--queries 200] [--hosts 400] [--day 2016-01-01]

CONNECTION is a string of libpq, such as "host=127.0.0.1 port=8812 user=admin password=quest".
Each server has the table cpu with the rows of one day (`tidegate-bench tsbs generate --scale HOSTS --seed 123`).
All servers get the same statements, each with other hosts and times, as text; a turn is one statement at each server.
The answers are received by libpq, and not converted. Rows are counted, and must be as many at each server that answers.

Prints for each kind of query the median and the 95th percentile of each server in milliseconds, and the median of the
ratios of the other servers to the first; at the end the geometric mean of these ratios.
"""

import argparse
import math
import random
import statistics
import time
from datetime import datetime, timedelta

import psycopg

METRICS = [
    "usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait",
    "usage_irq", "usage_softirq", "usage_steal", "usage_guest", "usage_guest_nice",
]


class Queries:
    """A source of random queries; the same for the same seed."""

    def __init__(self, seed, hosts, day):
        self.random = random.Random(seed)
        self.hosts = hosts
        self.day = datetime.fromisoformat(day)

    def within(self, hours):
        start = self.day + timedelta(seconds=self.random.randrange(86_400 - hours * 3_600 + 1))
        text = [f"{it:%Y-%m-%dT%H:%M:%S}Z" for it in (start, start + timedelta(hours=hours))]
        return f"timestamp >= '{text[0]}' AND timestamp < '{text[1]}'"

    def of_hosts(self, count):
        numbers = self.random.sample(range(self.hosts), count)
        return "hostname IN (" + ", ".join(f"'host_{number}'" for number in numbers) + ")"

    def single_groupby(self, metrics, hosts, hours):
        items = ", ".join(f"max({metric})" for metric in METRICS[:metrics])
        where = f"{self.of_hosts(hosts)} AND {self.within(hours)}"
        return f"SELECT timestamp, {items} FROM cpu WHERE {where} SAMPLE BY 1m"

    def cpu_max_all(self, hosts):
        items = ", ".join(f"max({metric})" for metric in METRICS)
        where = f"{self.of_hosts(hosts)} AND {self.within(8)}"
        return f"SELECT timestamp, {items} FROM cpu WHERE {where} SAMPLE BY 1h"

    def double_groupby(self, metrics):
        items = ", ".join(f"avg({metric})" for metric in METRICS[:metrics])
        return f"SELECT timestamp, hostname, {items} FROM cpu WHERE {self.within(12)} SAMPLE BY 1h"

    def high_cpu(self, hosts):
        of_hosts = f" AND {self.of_hosts(hosts)}" if hosts else ""
        return f"SELECT * FROM cpu WHERE usage_user > 90.0{of_hosts} AND {self.within(12)}"

    def groupby_orderby_limit(self):
        end = self.within(1).split("'")[3]
        return (
            f"SELECT timestamp AS minute, max(usage_user) FROM cpu WHERE timestamp < '{end}'"
            " SAMPLE BY 1m ORDER BY timestamp DESC LIMIT 5"
        )

    def kinds(self):
        kinds = {
            f"single-groupby-{m}-{n}-{h}": lambda m=m, n=n, h=h: self.single_groupby(m, n, h)
            for m, n, h in [(1, 1, 1), (1, 1, 12), (1, 8, 1), (5, 1, 1), (5, 1, 12), (5, 8, 1)]
        }
        kinds |= {f"cpu-max-all-{n}": lambda n=n: self.cpu_max_all(n) for n in (1, 8)}
        kinds |= {f"double-groupby-{m}": lambda m=m: self.double_groupby(m) for m in (1, 5, 10)}
        kinds["high-cpu-1"] = lambda: self.high_cpu(1)
        kinds["high-cpu-all"] = lambda: self.high_cpu(0)
        kinds["lastpoint"] = lambda: "SELECT * FROM cpu LATEST ON timestamp PARTITION BY hostname"
        kinds["groupby-orderby-limit"] = self.groupby_orderby_limit
        return kinds


def timed(connection, sql):
    """The milliseconds of a statement, and its number of rows; None if it fails."""
    start = time.perf_counter()
    result = connection.pgconn.exec_(sql.encode())
    millis = (time.perf_counter() - start) * 1e3
    if result.status not in (1, 2):
        return None
    return millis, result.ntuples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("servers", nargs="+", metavar="NAME=CONNECTION")
    parser.add_argument("--queries", type=int, default=200, help="of each kind; a tenth of large answers")
    parser.add_argument("--hosts", type=int, default=400)
    parser.add_argument("--day", default="2016-01-01")
    options = parser.parse_args()
    servers = {}
    for server in options.servers:
        name, _, connection = server.partition("=")
        servers[name] = psycopg.connect(connection, autocommit=True)
    queries = Queries(7, options.hosts, options.day)
    first, *others = servers
    heads = [f"{name} {what}" for name in servers for what in ("median", "p95")]
    print("| query | rows | " + " | ".join(heads + [f"{name} / {first}" for name in others]) + " |")
    print("|---" * (2 + len(heads) + len(others)) + "|")
    ratios = {name: [] for name in others}
    for kind, query in queries.kinds().items():
        is_large = kind.startswith(("double", "high-cpu-all"))
        count = max(options.queries // 10, 5) if is_large else options.queries
        times = {name: [] for name in servers}
        rows = 0
        for turn in range(count + 5):
            sql = query()
            counts = set()
            for name, connection in servers.items():
                answer = timed(connection, sql)
                if answer is None:
                    continue
                millis, rows = answer
                counts.add(rows)
                if 5 <= turn:
                    times[name].append(millis)
            if len(counts) != 1:
                raise RuntimeError(f"{sql}: {counts} rows")
        shown = []
        for name in servers:
            ordered = sorted(times[name])
            if len(ordered) < count:
                shown += ["error", ""]
                continue
            shown += [f"{statistics.median(ordered):.3f}", f"{ordered[int(len(ordered) * 0.95)]:.3f}"]
        for name in others:
            if len(times[name]) < count:
                shown.append("")
                continue
            ratio = statistics.median(b / a for a, b in zip(times[first], times[name]))
            ratios[name].append(ratio)
            shown.append(f"{ratio:.2f}")
        print(f"| {kind} | {rows} | " + " | ".join(shown) + " |", flush=True)
    for name, all_ratios in ratios.items():
        print(f"\n{name} / {first}: geometric mean {math.exp(statistics.fmean(map(math.log, all_ratios))):.2f}")


if __name__ == "__main__":
    main()
