"""The outcomes of statements in DuckDB, a line each: `=value`, in the text form of PostgreSQL, or `!error`."""
import datetime
import decimal
import math
import sys

import duckdb


def shown(value, inside=False):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    if isinstance(value, (list, tuple)):
        return "{" + ",".join(shown(it, True) for it in value) + "}"
    if isinstance(value, datetime.datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        text = text.rjust(19, "0")
        return text + (f".{value.microsecond:06}".rstrip("0") if value.microsecond else "")
    if isinstance(value, (bytes, bytearray)):
        return "\\x" + value.hex()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    text = str(value)
    if inside and (text == "" or text.upper() == "NULL" or any(c in text for c in '{}", \\')):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


connection = duckdb.connect()
for sql in open(sys.argv[1], encoding="utf-8").read().split("\n"):
    try:
        rows = connection.execute(sql).fetchall()
        text = "\n".join(shown(row[0]) for row in rows)
        line = "=" + text.replace("\\", "\\\\").replace("\n", "\\n")
    except Exception as error:
        line = "!" + str(error).split("\n")[0]
    print(line)
