//! What a gateway holds, read with the tools that its image has.

use serde_json::Value;

use super::cluster::{Cluster, PATIENCE, gateway_pod};

/// Our route protocol, as `ip -N` prints it.
const PROTOCOL: &str = "157";

/// How many things of ours a gateway with one tunnel holds: a link, two routes, two rules.
pub(crate) const ONE_TUNNEL: usize = 5;

impl Cluster {
    /// A link of a gateway in all detail, if there is one of that name.
    pub(crate) async fn link(&self, gateway: &str, link: &str) -> Option<Value> {
        let links = self.list(gateway, "ip -j -d -N link show").await;
        links.into_iter().find(|entry| entry["ifname"] == link)
    }

    /// The addresses with prefix on a link of a gateway.
    pub(crate) async fn addresses(&self, gateway: &str, link: &str) -> Vec<String> {
        let links = self.list(gateway, "ip -j -N -4 addr show").await;
        let Some(entry) = links.into_iter().find(|entry| entry["ifname"] == link) else { return Vec::new() };
        let text =
            |info: &Value| format!("{}/{}", info["local"].as_str().unwrap_or_default(), info["prefixlen"]);
        entry["addr_info"].as_array().into_iter().flatten().map(text).collect()
    }

    /// The routes of a gateway as lines: `range via gateway dev link proto number`.
    pub(crate) async fn routes(&self, gateway: &str) -> Vec<String> {
        let routes = self.list(gateway, "ip -j -N -4 route show").await;
        let line = |route: &Value| {
            let word = |key: &str| route[key].as_str().map(str::to_owned);
            let parts = [
                word("dst"),
                word("gateway").map(|via| format!("via {via}")),
                word("dev").map(|dev| format!("dev {dev}")),
                word("protocol").map(|protocol| format!("proto {protocol}")),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        routes.iter().map(line).collect()
    }

    /// The rules of POSTROUTING in order, without the policy, in the variant that holds the gateway's chains.
    pub(crate) async fn postrouting(&self, gateway: &str) -> Vec<String> {
        self.rules(gateway, "nat", "POSTROUTING").await
    }

    /// The rules that fit segment sizes, the same way.
    pub(crate) async fn clamps(&self, gateway: &str) -> Vec<String> {
        self.rules(gateway, "mangle", "FORWARD").await
    }

    async fn rules(&self, gateway: &str, table: &str, chain: &str) -> Vec<String> {
        let iptables = self.iptables(gateway).await;
        let listed = self.in_gateway(gateway, &format!("{iptables} -t {table} -S {chain}")).await.ok();
        listed.lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect()
    }

    /// The iptables that holds the gateway's own chains.
    pub(crate) async fn iptables(&self, gateway: &str) -> &'static str {
        let holds = self.in_gateway(gateway, "iptables-legacy -t nat -S SNAT_FILTER").await.code == 0;
        if holds { "iptables-legacy" } else { "iptables-nft" }
    }

    /// Everything in a gateway that carries our mark, as lines; empty when nothing is left of us.
    pub(crate) async fn marked(&self, gateway: &str) -> Vec<String> {
        let links = self.list(gateway, "ip -j -d -N link show").await;
        let ours = links.iter().filter(|link| {
            let group =
                link["group"].as_str().map(str::to_owned).unwrap_or_else(|| link["group"].to_string());
            matches!(group.as_str(), "1129797889" | "0x43575901" | "1129797891" | "0x43575903")
        });
        let mut all: Vec<String> = ours.map(|link| format!("link {}", link["ifname"])).collect();
        let routes = self.routes(gateway).await;
        all.extend(routes.into_iter().filter(|route| route.ends_with(&format!("proto {PROTOCOL}"))));
        let rules = [self.postrouting(gateway).await, self.clamps(gateway).await].concat();
        all.extend(rules.into_iter().filter(|rule| rule.contains("causeway:")));
        all
    }

    /// The same of a gateway whose pod may just be starting: nothing where commands cannot be run yet.
    pub(crate) async fn marked_if_running(&self, gateway: &str) -> Vec<String> {
        if self.kubectl(&["exec", "-n", "kube-system", &gateway_pod(gateway), "--", "true"]).await.code != 0 {
            return Vec::new();
        }
        self.marked(gateway).await
    }

    /// Waits until a gateway holds nothing of ours.
    pub(crate) async fn is_clean(&self, gateway: &str) {
        let what = format!("{gateway} holds nothing of ours");
        self.until(&what, PATIENCE, async || {
            let marked = self.marked(gateway).await;
            if marked.is_empty() { Ok(()) } else { Err(format!("{marked:?}")) }
        })
        .await;
    }

    /// A value below /proc/sys/net/ipv4 of a gateway.
    pub(crate) async fn sysctl(&self, gateway: &str, path: &str) -> String {
        let read = self.in_gateway(gateway, &format!("cat /proc/sys/net/ipv4/{path}")).await;
        read.ok().trim().to_owned()
    }

    async fn list(&self, gateway: &str, command: &str) -> Vec<Value> {
        let text = self.in_gateway(gateway, command).await.ok();
        if text.trim().is_empty() { Vec::new() } else { serde_json::from_str(&text).expect("JSON") }
    }
}
