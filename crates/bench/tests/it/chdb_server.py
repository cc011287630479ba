"""ClickHouse over HTTP, for tests: the engine is the one of chdb, in this process."""

import http.server
import sys
import threading
import urllib.parse

from chdb import session

engine = session.Session(sys.argv[2])
turn = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        query = urllib.parse.urlsplit(self.path).query
        begin = urllib.parse.parse_qs(query).get("query", [""])[0]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        try:
            with turn:
                answer = engine.query(f"{begin}\n{body}" if begin else body, "TabSeparated")
            status, text = 200, answer.bytes() if answer is not None else b""
        except Exception as error:
            status, text = 500, str(error).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
