//! The routes that need no statement, and the table of routes.

use crate::fixture::{Server, World, wait_until};

#[test]
fn small_routes_answer() {
    let world = World::new();
    let server = Server::start(&world);
    let ping = server.get("/ping");
    assert_eq!((ping.status, ping.field("X-Influxdb-Version")), (204, Some("v2.7.4")));
    assert!(ping.field("X-Tidegate-Version").is_some());
    assert_eq!(server.request("HEAD /ping HTTP/1.1\r\nHost: x\r\n", b"").status, 204);
    let settings = server.get("/settings").body;
    assert!(settings.contains(r#""line.proto.support.versions":[1]"#), "{settings}");
    for path in ["/health", "/health/live", "/health/ready"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.body.as_str()), (200, "Status: Healthy\n"), "{path}");
    }
    // Clients of InfluxDB took the text for a server that is not healthy.
    let accept = "Accept: text/html, application/json;q=0.9\r\n";
    let health = server.request(&format!("GET /health HTTP/1.1\r\nHost: x\r\n{accept}"), b"");
    let expected =
        r#"{"name":"tidegate","message":"ready for queries and writes","status":"pass","#;
    assert!(health.status == 200 && health.body.starts_with(expected), "{}", health.body);
    assert_eq!(server.get("/chk?j=nope").body, "Does not exist");
    assert_eq!(server.get("/chk?j=nope&f=json").body, r#"{"status":"Does not exist"}"#);
    assert_eq!(server.get("/chk").status, 400);
    let query = server.get("/query?q=CREATE%20DATABASE%20%22telegraf%22");
    assert_eq!(query.body, r#"{"results":[{"statement_id":0}]}"#);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let query = server.post("/query", form, "q=create+database+%22telegraf%22");
    assert_eq!(query.body, r#"{"results":[{"statement_id":0}]}"#);
    assert_eq!(server.post("/query", form, "q=show+databases").status, 400);
    server.exec("select 1");
    server.exec("selec 1");
    // A statement is counted after its answer was sent.
    for code in ["00000", "42601"] {
        let line = format!("tidegate_queries_total{{protocol=\"http\",code=\"{code}\"}} 1\n");
        wait_until("it to be counted", || server.get("/metrics").body.contains(&line));
    }
    assert!(server.metric("tidegate_memory_bytes") > 0.0);
}

#[test]
fn the_server_describes_itself() {
    let world = World::new();
    let server = Server::start(&world);
    let answer = server.get("/openapi.json");
    assert!(answer.body.contains("\"openapi\": \"3.1.0\""), "{}", answer.body);
    assert_eq!(answer.field("Content-Type"), Some("application/json; charset=utf-8"));
    let warnings = server.get("/warnings").body;
    assert!(warnings.starts_with("[{\"warning\":\"http.auth = auto"), "{warnings}");
    server.stop();
    let open = Server::start_with(&world, &["http.listen=0.0.0.0:9000", "http.auth=off"]);
    assert!(open.get("/warnings").body.starts_with("[{\"warning\":\"http.listen"));
    open.stop();
}
