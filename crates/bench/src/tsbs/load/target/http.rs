//! An HTTP client for targets: a base address, headers of every request, and answers as facts.

use std::fmt::Write;
use std::time::Duration;

use ureq::{Agent, Body, http};

use crate::error::{Error, Result};
use crate::tsbs::load::args::PlaceArguments;

/// Most characters of a server's error text that are shown.
const BODY_CHARS_MAX: usize = 300;

#[derive(Clone)]
pub(super) struct Http {
    agent: Agent,
    timeout: Duration,
    base: String,
    headers: Vec<(&'static str, String)>,
}

impl Http {
    /// Creates a client. It keeps connections open, and its clones share them.
    pub(super) fn new(base: &str, timeout: Duration) -> Result<Http> {
        let base = base.trim_end_matches('/').to_owned();
        let host = base.strip_prefix("http://");
        if host.is_none_or(|host| host.is_empty() || host.contains(['/', '?', '#'])) {
            return Err(Error::BadUrl { url: base });
        }
        Ok(Http { agent: agent(timeout), timeout, base, headers: Vec::new() })
    }

    /// Returns a client with connections of its own, for another thread.
    pub(super) fn fresh(&self) -> Http {
        Http { agent: agent(self.timeout), ..self.clone() }
    }

    /// Returns the longest time without progress of the server.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn add_header(&mut self, name: &'static str, value: String) {
        self.headers.push((name, value));
    }

    /// Adds name and password to every request, if there are any.
    pub(super) fn authorized(mut self, place: &PlaceArguments) -> Http {
        if let Some(user) = &place.user {
            let credentials = format!("{user}:{}", place.pass.as_deref().unwrap_or_default());
            self.add_header("Authorization", format!("Basic {}", base64(credentials.as_bytes())));
        }
        self
    }

    /// Returns the answer to a request, with any status.
    pub(super) fn post_any(&self, path: &str, body: &[u8]) -> Result<(u16, String)> {
        let url = format!("{}{path}", self.base);
        let mut request = self.agent.post(&url);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        read(url, request.send(body))
    }

    /// Returns the body of an answer whose status is a success.
    pub(super) fn post(&self, path: &str, body: &[u8]) -> Result<String> {
        let (status, body) = self.post_any(path, body)?;
        self.expect_good(path, status, body)
    }

    pub(super) fn get_any(&self, path: &str) -> Result<(u16, String)> {
        let url = format!("{}{path}", self.base);
        let mut request = self.agent.get(&url);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        read(url, request.call())
    }

    pub(super) fn expect_good(&self, path: &str, status: u16, body: String) -> Result<String> {
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let body = body.trim().chars().take(BODY_CHARS_MAX).collect();
        let path = path.split('?').next().unwrap_or_default();
        Err(Error::Refused { url: format!("{}{path}", self.base), status, body })
    }
}

fn agent(timeout: Duration) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(timeout))
        .timeout_per_read(Some(timeout))
        .timeout_per_write(Some(timeout))
        .proxy(None)
        .build()
        .new_agent()
}

fn read(url: String, response: Result<http::Response<Body>, ureq::Error>) -> Result<(u16, String)> {
    let url = url.split('?').next().unwrap_or_default().to_owned();
    let failed = |source| Error::Http { url: url.clone(), source: Box::new(source) };
    let mut response = response.map_err(failed)?;
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_string().map_err(failed)?;
    Ok((status, text))
}

/// Encodes a text as a part of a query string.
pub(super) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("memory takes it");
        }
    }
    encoded
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3)
            .fold(0_usize, |bits, i| bits << 8 | usize::from(three.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let letter = char::from(LETTERS[bits >> (18 - 6 * i) & 63]);
            text.push(if i <= three.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_encoded() {
        assert_eq!(
            percent_encoded("SELECT count() FROM 'a+b'"),
            "SELECT%20count%28%29%20FROM%20%27a%2Bb%27"
        );
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("admin:quest", "YWRtaW46cXVlc3Q="),
        ] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }

    #[test]
    fn an_address_is_http_and_a_host() {
        for url in ["", "localhost:9000", "https://x", "http://", "http://x/y"] {
            assert!(Http::new(url, Duration::from_secs(1)).is_err(), "{url}");
        }
        assert_eq!(Http::new("http://x:1/", Duration::from_secs(1)).unwrap().base(), "http://x:1");
    }
}
