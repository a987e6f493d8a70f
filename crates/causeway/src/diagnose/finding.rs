//! What is said of one hop on a packet's way.

use serde::Serialize;

/// A hop, in the order in which a packet meets what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Hop {
    /// The tunnel's object.
    Object,
    /// What the peer published of itself.
    Record,
    /// The gateway's pod.
    Gateway,
    /// The tunnel's link.
    Link,
    /// Both ends' parameters, compared.
    Peer,
    /// The network between the gateways, and an answer through the tunnel.
    Underlay,
    /// How long packets may be.
    Mtu,
    /// The source that packets get.
    Nat,
    /// The gateway's routes and filters.
    Forward,
    /// The way from workloads to the gateway.
    Vpc,
    /// Whatever lies behind the peer.
    Far,
}

impl Hop {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Record => "record",
            Self::Gateway => "gateway",
            Self::Link => "link",
            Self::Peer => "peer",
            Self::Underlay => "underlay",
            Self::Mtu => "mtu",
            Self::Nat => "nat",
            Self::Forward => "forward",
            Self::Vpc => "vpc",
            Self::Far => "far",
        }
    }
}

/// How a hop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// Packets end here.
    Broken,
    /// Whoever asks cannot see it.
    Unseen,
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "yes",
            Self::Broken => "NO",
            Self::Unseen => "unseen",
        }
    }
}

/// What is said of a hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) hop: Hop,
    /// The cluster that it is in.
    pub(super) cluster: String,
    pub(super) verdict: Verdict,
    pub(super) expected: String,
    pub(super) found: String,
    /// What to do, if it is broken or cannot be seen.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(hop: Hop, cluster: &str, expected: impl Into<String>, found: impl Into<String>) -> Self {
        let (expected, found) = (expected.into(), found.into());
        Self { hop, cluster: cluster.into(), verdict: Verdict::Ok, expected, found, remedy: None }
    }

    /// Packets end here.
    pub(super) fn broken(self, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: Verdict::Broken, found: found.into(), remedy: Some(remedy.into()), ..self }
    }

    /// It cannot be seen from here.
    pub(super) fn unseen(self, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unseen, found: found.into(), remedy: Some(remedy.into()), ..self }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.verdict == Verdict::Broken
    }
}

/// All up to the first that is broken.
pub(super) fn up_to_the_first_broken(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut walked = Vec::new();
    for finding in findings {
        let ends = finding.is_broken();
        walked.push(finding);
        if ends {
            break;
        }
    }
    walked
}
