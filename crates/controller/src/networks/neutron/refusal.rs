//! What an answer that is no success means.

use http::StatusCode;
use serde::Deserialize;

use causeway_core::networks::Trouble;

use super::http::Answer;
use super::secret::Secret;

/// As many of a server's words as anybody wants to read.
const ENOUGH: usize = 512;

/// A server's reason for not doing something.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// Neutron's name for the reason; only Neutron itself gives one.
    pub(super) kind: Option<String>,
    /// Fit to be read, without secrets, with the id of the request.
    pub(super) words: String,
    pub(super) after: Option<std::time::Duration>,
}

#[derive(Default, Deserialize)]
struct Body {
    #[serde(rename = "NeutronError")]
    neutron: Option<Reason>,
    error: Option<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
    title: Option<String>,
}

impl Refusal {
    /// Reads an answer; the secrets are those that it may repeat.
    pub(super) fn of(answer: &Answer, secrets: &[&Secret]) -> Self {
        let body: Body = serde_json::from_slice(&answer.body).unwrap_or_default();
        let kind = body.neutron.as_ref().and_then(|reason| reason.kind.clone());
        let words = body.neutron.or(body.error).and_then(|reason| reason.message.or(reason.title));
        let words = words.unwrap_or_else(|| plain(&answer.body));
        let words = secrets.iter().fold(words, |words, secret| secret.cut_out_of(&words));
        let mut words = readable(&words);
        if words.is_empty() {
            words = answer.status.canonical_reason().unwrap_or("no reason given").to_owned();
        }
        if kind.is_none() {
            words = format!("{} {words}", answer.status.as_u16());
        }
        // For whoever searches the cloud's own log. In a condition it would make every try another sentence.
        if let Some(request) = answer.request_id() {
            tracing::info!(request, status = answer.status.as_u16(), words, "the cloud refused a request");
        }
        Self { status: answer.status, kind, words, after: answer.retry_after() }
    }

    /// Whether Neutron itself says that something is not there. A proxy that knows no such path says it in other
    /// words, and nothing is gone because of that.
    pub(super) fn is_not_there(&self) -> bool {
        let is_so = |kind: &str| kind.ends_with("NotFound") && kind != "HTTPNotFound";
        self.status == StatusCode::NOT_FOUND && self.kind.as_deref().is_some_and(is_so)
    }

    /// What it means to whoever wanted something.
    pub(super) fn trouble(self) -> Trouble {
        let kind = self.kind.as_deref().unwrap_or_default();
        match self.status.as_u16() {
            // The last of the VNIs or VLANs is used: no outage, though its status is that of one.
            _ if kind == "NoNetworkAvailable" => Trouble::Quota(self.words),
            401 => Trouble::Unauthorized(self.words),
            403 => Trouble::Forbidden(self.words),
            404 if self.is_not_there() => Trouble::Missing(self.words),
            409 if kind.contains("Quota") => Trouble::Quota(self.words),
            409 if kind.contains("InUse") => Trouble::InUse(self.words),
            // These are about what was asked for, and looking again changes nothing of it.
            409 if matches!(kind, "NetworkMTUSubnetConflict" | "OverlappingAllocationPools") => {
                Trouble::Refused(self.words)
            }
            409 | 412 => Trouble::Stale(self.words),
            413 if self.after.is_none() => Trouble::Refused(self.words),
            408 | 413 | 425 | 429 | 500.. => Trouble::Unreachable { why: self.words, after: self.after },
            _ => Trouble::Refused(self.words),
        }
    }
}

/// The text of a page that was made for people.
fn plain(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(&body[..body.len().min(1 << 16)]);
    let mut text = String::new();
    let mut in_tag = false;
    for c in body.chars() {
        match c {
            '<' => in_tag = true,
            '>' if in_tag => {
                in_tag = false;
                text.push(' ');
            }
            _ if in_tag => {}
            c => text.push(c),
        }
    }
    text
}

/// In one line, without what a terminal would take for commands, and not for ever.
pub(super) fn readable(text: &str) -> String {
    let words: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > ENOUGH {
        line.truncate(line.floor_char_boundary(ENOUGH));
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests;
