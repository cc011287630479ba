//! Requests that are refused, route by route: methods, parameters, bodies, lines and files; and the
//! parameters that are accepted beside them.

use super::client::{Answer, closing};
use crate::fixture::{Server, World};

/// A request of a table: its target, fields of its head, and its body.
struct Request<'a> {
    target: &'a str,
    fields: &'a str,
    body: &'a [u8],
}

/// Checks the status of the answer to a POST, and a part of its body.
#[track_caller]
fn check_post(server: &Server, request: &Request<'_>, status: u16, expected: &str) {
    let Request { target, fields, body } = *request;
    let answer = server.post(target, fields, body);
    let text = String::from_utf8_lossy(body);
    assert_eq!(answer.status, status, "{target} {fields} {text}: {}", answer.body);
    assert!(answer.body.contains(expected), "{target} {fields} {text}: {}", answer.body);
}

/// Checks the status of the answer to a GET, and a part of its body.
#[track_caller]
fn check_get(server: &Server, target: &str, status: u16, expected: &str) {
    let answer = server.get(target);
    assert_eq!(answer.status, status, "{target}: {}", answer.body);
    assert!(answer.body.contains(expected), "{target}: {}", answer.body);
}

/// Returns the status and the field `Allow` of the answer to a request without a body.
fn allowed(answer: &[u8]) -> (u16, String) {
    let (status, head, ..) = Answer::parts(answer);
    let allow = head.lines().find_map(|line| line.strip_prefix("Allow: "));
    (status, allow.unwrap_or_default().to_owned())
}

#[test]
fn each_route_has_its_methods() {
    const READING: &[&str] = &["GET", "HEAD"];
    const STATEMENT: &[&str] = &["GET", "HEAD", "POST"];
    let world = World::new();
    let server = Server::start(&world);
    for (target, methods) in [
        ("/", READING),
        ("/health", READING),
        ("/health/ready", READING),
        ("/health/live", READING),
        ("/metrics", READING),
        ("/exec?query=select+1", STATEMENT),
        ("/api/v1/sql/execute?query=select+1", STATEMENT),
        ("/api/v1/sql/validate?query=select+1", STATEMENT),
        ("/exp?query=select+1", STATEMENT),
        ("/imp?name=t", &["POST"]),
        ("/query?q=create+database+x", STATEMENT),
        ("/chk?j=t", READING),
        ("/ping", READING),
        ("/settings", READING),
        ("/warnings", READING),
        ("/openapi.json", READING),
    ] {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
            let head = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n");
            let (status, allow) = allowed(&server.bytes(&head, b""));
            match methods.contains(&method) {
                true => assert!(status < 300, "{method} {target}: {status}"),
                false => assert_eq!((status, allow), (405, methods.join(", ")), "{target}"),
            }
        }
    }
    // Clients of the line protocol know 404 only.
    for target in ["/write", "/api/v2/write?bucket=b&org=o"] {
        for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let head = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n");
            assert_eq!(allowed(&server.bytes(&head, b"")), (404, String::new()), "{method}");
        }
        let nothing = Request { target, fields: "", body: b"" };
        check_post(&server, &nothing, 204, "");
    }
    server.stop();
}

#[test]
fn paths_are_found_as_they_are_written() {
    let world = World::new();
    let server = Server::start(&world);
    for target in ["/nowhere", "/exec/", "//exec", "/EXEC", "/assets/none.js", "/api/v1", "/imp/x"]
    {
        check_get(&server, target, 404, "there is nothing at this path");
    }
    server.stop();
}

#[test]
fn the_listener_for_health_has_its_own_routes() {
    let world = World::new();
    let keys = ["http.auth=required", "auth.admin_password=a better one"];
    let server = Server::start_with(&world, &keys);
    let ask = |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n");
        Answer::parse(&closing(server.connect_admin(), &head, b"")).0
    };
    assert_eq!(ask("/health").body, "Status: Healthy\n");
    assert_eq!(ask("/health/live").body, "Status: Healthy\n");
    // No login is needed there.
    assert!(ask("/metrics").body.contains("tidegate_memory_bytes "));
    for target in ["/exec?query=select+1", "/exp?query=select+1", "/warnings", "/settings"] {
        assert_eq!(ask(target).body, "Status: Healthy\n", "{target}");
    }
    let lines = "POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n";
    let (status, ..) = Answer::parts(&closing(server.connect_admin(), lines, b"t v=1i 1"));
    assert_eq!(status, 405);
    server.stop();
}

#[test]
fn parameters_of_statements_are_checked() {
    let world = World::new();
    let server = Server::start(&world);
    let limit = "is neither a number nor two, like 1,10\",\"code\":\"22023\"";
    let timeout = "is not a timeout of up to 86400 s\",\"code\":\"22023\"";
    let encoding = "the request is not UTF-8, or not encoded\",\"position\":0,\"code\":\"22021\"";
    let empty = "empty query\",\"position\":0,\"code\":\"42601\"";
    for (parameters, status, expected) in [
        ("", 400, empty),
        ("query=", 400, empty),
        ("query=select+1&limit=a", 400, limit),
        ("query=select+1&limit=1,b", 400, limit),
        ("query=select+1&timeout=x", 400, timeout),
        ("query=select+1&timeout=-1", 400, timeout),
        ("query=%zz", 400, encoding),
        ("query=%ff", 400, encoding),
        ("query=select+1&cols=a", 400, "the answer has no column `a`\",\"code\":\"42703\""),
        ("query=select+1&nonfinite=x", 400, "nonfinite is null or string, not 'x'"),
        ("query=select+1&query=select+2", 200, "\"dataset\":[[2]]"),
        ("query=select+1+a&cols=a,a&nm=true", 200, "{\"dataset\":[[1,1]],\"count\":1}"),
        ("query=select+1&cols=&nm=1", 200, "{\"dataset\":[[1]],\"count\":1}"),
        ("query=select+1&nm=true&src=con", 200, "{\"dataset\":[[\"1\"]],\"count\":1}"),
        ("query=select+'NaN'::double&nm=true", 200, "{\"dataset\":[[null]],\"count\":1}"),
        ("query=select+'NaN'::double&nm=true&nonfinite=string", 200, "[[\"NaN\"]]"),
        ("query=select+1&nope=1", 200, "\"count\":1}"),
    ] {
        check_get(&server, &format!("/exec?{parameters}"), status, expected);
    }
    for (target, status, expected) in [
        ("/api/v1/sql/validate", 400, "empty query\",\"code\":\"42601\""),
        ("/api/v1/sql/validate?query=select+nope", 400, "\"position\":7,\"code\":\"42703\""),
        ("/chk", 400, "parameter `j` names no table"),
        ("/chk?j=", 400, "parameter `j` names no table"),
        ("/chk?j=t&f=xml", 200, "Does not exist"),
        ("/query", 400, "InfluxQL is not supported; /exec takes SQL"),
        ("/query?q=show+databases", 400, "InfluxQL is not supported; /exec takes SQL"),
        ("/ping?verbose=true", 204, ""),
    ] {
        check_get(&server, target, status, expected);
    }
    server.stop();
}

#[test]
fn bodies_of_statements_are_checked() {
    let world = World::new();
    let server = Server::start(&world);
    let json = "Content-Type: application/json\r\n";
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let text = "Content-Type: text/plain\r\n";
    let not_encoded = "the request is not UTF-8, or not encoded";
    for (fields, body, status, expected) in [
        (json, &b"{"[..], 400, "the body is not a JSON object: EOF while parsing"),
        (json, b"[]", 400, "the body is not a JSON object: it is another value"),
        (json, b"{\"query\":\"select 1\",\"limit\":\"x\"}", 400, "limit 'x' is neither"),
        (json, b"{\"query\":\"select $1\",\"params\":[{}]}", 400, "is a list or an object"),
        (json, b"{\"nope\":1}", 400, "empty query"),
        (json, b"{\"query\":\"select 1\",\"nm\":true}", 200, "{\"dataset\":[[1]],\"count\":1}"),
        (form, b"query=%zz", 400, not_encoded),
        (form, b"limit=1", 400, "empty query"),
        (form, b"query=select+1&nm=true", 200, "{\"dataset\":[[1]],\"count\":1}"),
        (text, b"\xff", 400, not_encoded),
        (text, b"", 400, "empty query"),
        ("Content-Type: application/sql\r\n", b"select 1", 200, "\"count\":1"),
        ("Content-Type: image/png\r\n", b"select 1", 415, "a body of type 'image/png'"),
        ("", b"select 1", 415, "a body of type '' is no statement"),
        (
            "Content-Type: text/plain\r\nContent-Encoding: x\r\n",
            b"select 1",
            415,
            "is none of gzip, zstd and identity",
        ),
        (
            "Content-Type: text/plain\r\nStatement-Timeout: x\r\n",
            b"select 1",
            400,
            "'x' is not a timeout of up to 86400 s",
        ),
    ] {
        let request = Request { target: "/exec", fields, body };
        check_post(&server, &request, status, expected);
    }
    server.stop();
}

#[test]
fn lines_that_are_none_are_named() {
    let world = World::new();
    let server = Server::start(&world);
    check_post(&server, &Request { target: "/write", fields: "", body: b"t v=1i 1" }, 204, "");
    for (body, expected) in [
        ("t", "table 't' has neither tags nor fields"),
        ("t ", "table 't' has neither tags nor fields"),
        ("t v", "table 't' has neither tags nor fields"),
        ("t v=1x 1", "field 'v' has value '1x', which is not a number, boolean or string"),
        ("t v=tru 1", "field 'v' has value 'tru', which is not a number, boolean or string"),
        ("t v=1i,", "field 'v' has value '1i,', which is not a number, boolean or string"),
        ("t v=1i x", "'x' is not a timestamp: digits, optionally followed by n, t or m"),
        ("t v=1i 1 2", "expected the end of the line after the timestamp, found '2'"),
        (",a=b v=1i", "the line has no table name"),
        (" t v=1i", "the line has no table name"),
        ("t,a v=1i", "expected a tag with '=', found 'a'"),
        ("t,=b v=1i", "'' cannot be the name of a column: it is empty"),
        ("t =1i", "'' cannot be the name of a column: it is empty"),
        ("t v=\"open", "field 'v' has a string whose quote is never closed"),
        ("t v=9223372036854775808i 1", "integer '9223372036854775808' cannot go into column 'v'"),
        ("t v=1e999 1", "number '1e999' cannot go into column 'v' of type BIGINT: out of range"),
        ("t v=NaN 1", "number 'NaN' cannot go into column 'v' of type BIGINT: it is not finite"),
        ("v\0=1", "the line has a NUL byte"),
    ] {
        let request = Request { target: "/write", fields: "", body: body.as_bytes() };
        check_post(&server, &request, 400, &format!("\"message\":\"line 1: {expected}"));
    }
    let second = Request { target: "/write", fields: "", body: b"t v=1i 1\nt v=2i x\n" };
    check_post(&server, &second, 400, "\"line\":2,");
    assert_eq!(server.count("t"), Some(1), "a request is taken as a whole");
    server.stop();
}

#[test]
fn parameters_of_lines_are_checked() {
    let world = World::new();
    let server = Server::start(&world);
    for (target, status, expected) in [
        ("/write?precision=x", 400, "precision 'x' is not known; n, ns, u, us, ms, s, m and h are"),
        ("/write?precision=", 204, ""),
        ("/write?on_error=x", 400, "on_error is abort or skip, not 'x'"),
        ("/write?%zz", 400, "the address is not UTF-8, or not encoded"),
        ("/write?db=d&rp=r&u=a&p=b&consistency=all", 204, ""),
        ("/api/v2/write?bucket=b&org=o&orgID=1", 204, ""),
        ("/write?nope=1", 204, ""),
    ] {
        check_post(&server, &Request { target, fields: "", body: b"t v=1i 1" }, status, expected);
    }
    server.stop();
    let closed = Server::start_with(&world, &["ilp.http.enabled=false"]);
    let lines = Request { target: "/write", fields: "", body: b"t v=1i 1" };
    check_post(&closed, &lines, 421, "the line protocol over HTTP is switched off");
    assert_eq!(closed.count("t"), Some(4));
    closed.stop();
}

#[test]
fn exports_come_in_each_format() {
    let world = World::new();
    let server = Server::start(&world);
    for (target, kind, expected) in [
        (
            "/exp?query=select+1+as+a,'x'+as+b",
            "text/csv; charset=utf-8",
            "\"a\",\"b\"\r\n1,\"x\"\r\n",
        ),
        (
            "/exp?query=select+1+a,2+b&delimiter=%3B",
            "text/csv; charset=utf-8",
            "\"a\";\"b\"\r\n1;2\r\n",
        ),
        ("/exp?query=select+1,null&nm=true", "text/csv; charset=utf-8", "1,\r\n"),
        ("/exp?query=select+1+as+a&fmt=ndjson", "application/x-ndjson", "{\"a\":1}\n"),
    ] {
        let answer = server.get(target);
        assert_eq!((answer.status, answer.field("Content-Type")), (200, Some(kind)), "{target}");
        assert_eq!(answer.body, expected, "{target}");
    }
    for (format, kind, beginning, end) in [
        ("parquet", "application/vnd.apache.parquet", &b"PAR1"[..], &b"PAR1"[..]),
        ("arrow", "application/vnd.apache.arrow.stream", b"\xff\xff\xff\xff", b"\0\0\0\0"),
    ] {
        let head = format!("GET /exp?query=select+1+as+a&fmt={format} HTTP/1.1\r\nHost: x\r\n");
        let bytes = server.bytes(&head, b"");
        let (status, head, body, _) = Answer::parts(&bytes);
        assert_eq!(status, 200, "{head}");
        assert!(head.contains(&format!("Content-Type: {kind}\r\n")), "{head}");
        assert!(head.contains(&format!(".{format}\"")), "{head}");
        assert!(body.starts_with(beginning) && body.ends_with(end), "{format}");
    }
    for (target, expected) in [
        ("/exp", "empty query"),
        ("/exp?query=select+1&fmt=x", "fmt is csv, ndjson, parquet or arrow, not 'x'"),
        ("/exp?query=select+1&limit=x", "limit 'x' is not a number, two like 10,20"),
        ("/exp?query=select+1&delimiter=ab", "delimiter is one ASCII character"),
        ("/exp?query=insert+into+t+values(1)", "only statements that give rows can be exported"),
        ("/exp?query=select+1&fmt=parquet&compression_codec=x", "does not take this value"),
        ("/exp?query=select+*+from+nowhere", "table `nowhere` does not exist"),
    ] {
        check_get(&server, target, 400, expected);
    }
    server.stop();
}

#[test]
fn uploads_are_checked_before_they_begin() {
    let world = World::new();
    let server = Server::start(&world);
    let csv = "Content-Type: text/csv\r\n";
    let (gzip, brotli) =
        ("Content-Type: text/csv\r\nContent-Encoding: gzip\r\n", "Content-Encoding: br\r\n");
    let pdf = "Content-Type: application/pdf\r\n";
    for (target, fields, body, status, expected) in [
        ("/imp", csv, "a\n1\n", 400, "the parameter name is missing"),
        ("/imp?name=", csv, "a\n1\n", 400, "the parameter name is missing"),
        ("/imp?name=sys.x&fmt=json", csv, "a\n1\n", 403, "\"code\":\"42501\""),
        ("/imp?name=b&fmt=xml", csv, "a\n1\n", 400, "fmt is text or json, not 'xml'"),
        ("/imp?name=b&delimiter=ab", csv, "a\n1\n", 400, "delimiter is one ASCII character"),
        ("/imp?name=b&partitionBy=CENTURY", csv, "a\n1\n", 400, "cannot be 'CENTURY'"),
        ("/imp?name=b&timestamp=zz", csv, "a\n1\n", 400, "no column is called `zz`"),
        ("/imp?name=b&atomicity=x", csv, "a\n1\n", 400, "is skipCol, skipRow or abort, not 'x'"),
        ("/imp?name=b&create=false&fmt=json", csv, "a\n1\n", 400, "\"code\":\"42P01\""),
        ("/imp?name=b", pdf, "a\n1\n", 415, "a body of type 'application/pdf' is no upload"),
        ("/imp?name=b", brotli, "a\n1\n", 415, "the encoding of the body is not supported"),
        ("/imp?name=b", gzip, "nonsense", 400, "the body is not valid gzip"),
    ] {
        let request = Request { target, fields, body: body.as_bytes() };
        check_post(&server, &request, status, expected);
    }
    assert_eq!(server.count("b"), None, "server_copy-1");
    for (target, fields, body, expected) in [
        ("/imp?name=a&fmt=json", csv, "a,b\n1,2\n", "\"rowsRejected\":0,\"rowsImported\":1"),
        ("/imp?name=a", csv, "a,b\n3,4\n", "status: OK\nlocation: a\nrowsRejected: 0\n"),
        ("/imp?name=a&fmt=json", "", "a,b\n5,6\n", "\"rowsImported\":1"),
        ("/imp?name=a&fmt=json&nope=1", csv, "a,b\n7,8\n", "there is no parameter `nope`, ignored"),
        ("/imp?name=c&fmt=json", csv, "", "\"warnings\":[\"no records\"]"),
    ] {
        let request = Request { target, fields, body: body.as_bytes() };
        check_post(&server, &request, 200, expected);
    }
    assert_eq!(server.rows("SELECT a, b FROM a ORDER BY a"), "[[1,2],[3,4],[5,6],[7,8]]");
    server.stop();
}

#[test]
fn sizes_have_limits() {
    let world = World::new();
    let keys = [
        "http.max_header_bytes=1KiB",
        "http.max_sql_bytes=1KiB",
        "http.max_upload_bytes=1KiB",
        "ilp.http.max_body=1KiB",
    ];
    let server = Server::start_with(&world, &keys);
    let long = "x".repeat(2 << 10);
    let head = format!("GET /ping HTTP/1.1\r\nHost: x\r\nX: {long}\r\n");
    assert_eq!(server.request(&head, b"").status, 431);
    let comment = format!("select 1 -- {long}");
    for (target, fields, body) in [
        ("/exec", "Content-Type: text/plain\r\n", &comment),
        ("/exp", "Content-Type: text/plain\r\n", &comment),
        ("/api/v1/sql/validate", "Content-Type: text/plain\r\n", &comment),
        ("/write", "", &long),
        ("/imp?name=t", "Content-Type: text/csv\r\n", &long),
    ] {
        check_post(&server, &Request { target, fields, body: body.as_bytes() }, 413, "");
    }
    assert_eq!(server.exec("select 1").status, 200);
    server.stop();
}

#[test]
fn other_machines_need_a_login() {
    let world = World::new();
    let keys = ["http.listen=0.0.0.0:9000", "auth.admin_password=a better one"];
    let server = Server::start_with(&world, &keys);
    let ask = |address: &str, fields: &str| {
        let head = format!("GET /exec?query=select+1 HTTP/1.1\r\nHost: x\r\n{fields}");
        Answer::parse(&closing(server.connect_from(address), &head, b"")).0.status
    };
    let login = super::client::basic("admin", "a better one");
    for address in ["10.0.0.9:4000", "[2001:db8::1]:4000", "127.0.0.1:4000"] {
        assert_eq!((ask(address, ""), ask(address, &login)), (401, 200), "{address}");
    }
    server.stop();
}
