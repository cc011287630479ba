//! The console: the page at `/` with its files, which are embedded in the binary.
//!
//! - console-1. Files in `/assets/` have a fingerprint in their names and may be cached for ever.
//!   All other files are revalidated each time, by their tag.
//! - console-2. The page loads and calls nothing outside of this server, runs only scripts that are
//!   files of it, and stands in no frame.
//! - console-3. Files are embedded as gzip only, and are sent so; a client that does not accept
//!   gzip gets them decompressed.
//! - console-4. A server that was built without the console explains at `/` how to build it.
//!
//! Not here: the page itself (`console/`), and the embedding of its files (`build.rs`).

use std::io::{self, Read};

use flate2::read::GzDecoder;

use super::compression::takes_gzip;
use super::response::{Response, TEXT};
use super::wire::Head;

/// A file of the console.
struct Embedded {
    /// The path that it is served at.
    path: &'static str,
    /// The fingerprint of its bytes.
    tag: &'static str,
    gzip: &'static [u8],
}

static FILES: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// The content security policy (console-2). Styles are files too: those of the editor are made by
/// script, which the policy does not restrict.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; worker-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The page of a server without a console (console-4).
const ABSENT: &str = "Tidegate runs, and answers SQL at /exec.\n\
                      Its console is not in this binary.\n\n\
                      With Node 18 or newer, in the folder of the sources:\n\n    \
                      cargo xtask console\n    cargo build --release\n";

/// Returns true if the path is that of a file of the console.
pub(super) fn has(path: &str) -> bool {
    path == "/" || find(path).is_some()
}

fn find(path: &str) -> Option<&'static Embedded> {
    FILES.iter().find(|file| file.path == path)
}

/// Returns the file at the path of a request.
pub(super) fn page(head: &Head) -> Response {
    let Some(file) = find(&head.path) else {
        return Response::new(200, TEXT, ABSENT).with("Cache-Control", "no-cache");
    };
    serve(file, head)
}

fn serve(file: &Embedded, head: &Head) -> Response {
    let tag = format!("W/\"{}\"", file.tag);
    let is_known = head.field("if-none-match").is_some_and(|tags| tags.contains(&tag));
    let (status, (body, encoding)) = match is_known {
        true => (304, (Vec::new(), None)),
        false => (200, body(file, head)),
    };
    let keep = match file.path.starts_with("/assets/") {
        true => "public, max-age=31536000, immutable",
        false => "no-cache", // console-1
    };
    let mut response = Response::new(status, content_type(file.path), body)
        .with("Cache-Control", keep)
        .with("ETag", tag)
        .with("Vary", "Accept-Encoding")
        .with("Content-Security-Policy", POLICY)
        .with("Referrer-Policy", "no-referrer");
    if let Some(encoding) = encoding {
        response = response.with("Content-Encoding", encoding);
    }
    response
}

/// Returns the bytes that the client accepts, and their encoding (console-3).
fn body(file: &Embedded, head: &Head) -> (Vec<u8>, Option<&'static str>) {
    if takes_gzip(head) {
        return (file.gzip.to_vec(), Some("gzip"));
    }
    (decompress(file.gzip).expect("the build has compressed it"), None)
}

fn decompress(gzip: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(gzip).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, end)| end) {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "txt" => TEXT,
        _ if path == "/" => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use bytes::BytesMut;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// Makes a file as the build does.
    fn file(path: &'static str, text: &str) -> Embedded {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        Embedded { path, tag: "00c1", gzip: encoder.finish().unwrap().leak() }
    }

    fn ask(file: &Embedded, fields: &str) -> Response {
        let text = format!("GET {} HTTP/1.0\r\n{fields}\r\n", file.path);
        serve(file, &Head::of_text(&mut BytesMut::from(text.as_str())))
    }

    fn field<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
        let found = response.fields.iter().find(|(known, _)| *known == name)?;
        Some(found.1.as_str())
    }

    #[test]
    fn a_browser_gets_gzip_and_others_the_bytes() {
        let page = file("/", "<!doctype html>");
        let compressed = ask(&page, "Accept-Encoding: gzip, deflate, br\r\n");
        assert_eq!(field(&compressed, "Content-Encoding"), Some("gzip"), "console-3");
        assert_eq!(decompress(&compressed.body).unwrap(), b"<!doctype html>");
        let plain = ask(&page, "");
        assert_eq!((field(&plain, "Content-Encoding"), &plain.body[..]), (None, page_text()));
        assert_eq!(plain.content_type, "text/html; charset=utf-8");
    }

    fn page_text() -> &'static [u8] {
        b"<!doctype html>"
    }

    #[test]
    fn only_names_with_a_fingerprint_are_kept() {
        let keep = |path| field(&ask(&file(path, "x"), ""), "Cache-Control").unwrap().to_owned();
        assert_eq!(keep("/"), "no-cache", "console-1");
        assert_eq!(keep("/favicon.svg"), "no-cache", "console-1");
        assert_eq!(keep("/assets/index-1f.js"), "public, max-age=31536000, immutable", "console-1");
    }

    #[test]
    fn a_page_that_is_known_is_not_sent_again() {
        let page = file("/", "x");
        let again = ask(&page, "If-None-Match: W/\"00c1\"\r\n");
        assert_eq!((again.status, again.body.len()), (304, 0), "console-1");
        assert_eq!(ask(&page, "If-None-Match: W/\"00c2\"\r\n").status, 200, "console-1");
    }

    #[test]
    fn the_content_security_policy_allows_no_other_origin() {
        let policy = ask(&file("/", "x"), "");
        let policy = field(&policy, "Content-Security-Policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "console-2: {policy}"
        );
        assert!(!policy.contains("http") && !policy.contains("unsafe"), "console-2: {policy}");
    }

    #[test]
    fn without_a_console_the_page_says_how_to_build_it() {
        let head = Head::of_text(&mut BytesMut::from("GET /not-built HTTP/1.0\r\n\r\n"));
        let answer = page(&head);
        assert_eq!((answer.status, answer.content_type), (200, TEXT), "console-4");
        assert_eq!(answer.body, ABSENT.as_bytes(), "console-4");
    }

    #[test]
    fn embedded_files_decompress() {
        for file in FILES {
            assert!(decompress(file.gzip).is_ok(), "{}", file.path);
        }
        assert!(has("/"), "console-4");
        assert!(!has("/no-such-file"));
    }
}
