//! What was seen of the networks, for people and for programs.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use causeway_api::networks::LooseNetwork;
use comfy_table::Table;
use kube::ResourceExt;
use serde::Serialize;

use super::super::matrix::Matrix;
use super::super::report::table;
use super::super::tools;

/// The networks of one cluster, and who reaches whom on them.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct NetworksReport {
    pub(in super::super) cluster: String,
    pub(super) provider: String,
    /// Where the cloud is, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) neutron: Option<String>,
    pub(super) networks: Vec<NetworkReport>,
    /// What leads into the network namespace of the bridges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bridges_file: Option<PathBuf>,
    /// Empty where there is a cloud.
    pub(super) hosts: Vec<HostReport>,
    /// How long answers took from those who should be reached, and are: those of the same network, and its gateway.
    pub(super) reached: Option<Matrix>,
    /// And from those who should not be, and are not.
    pub(super) apart: Option<Matrix>,
    /// Echoes within networks.
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Packets that came from one network to another.
    pub(super) crossed: u64,
}

/// A network, from the object's status.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NetworkReport {
    pub(super) name: String,
    pub(super) cidr: String,
    pub(super) gateway: String,
    pub(super) network_id: String,
    pub(super) subnet_id: String,
    pub(super) ready: bool,
    pub(super) message: String,
}

/// Somebody who lives on a network.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HostReport {
    pub(super) name: String,
    pub(super) network: String,
    pub(super) address: Ipv4Addr,
    /// What leads into its network namespace.
    pub(super) namespace_file: PathBuf,
}

impl NetworkReport {
    pub(super) fn read(object: &LooseNetwork) -> NetworkReport {
        let status = object.status();
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let said = ready.map(|it| format!("{}: {}", it.reason, it.message));
        NetworkReport {
            name: object.name_any(),
            cidr: status.cidr.unwrap_or_default(),
            gateway: status.gateway.unwrap_or_default(),
            network_id: status.network_id.unwrap_or_default(),
            subnet_id: status.subnet_id.unwrap_or_default(),
            ready: ready.is_some_and(|condition| condition.status == "True"),
            message: said.unwrap_or_else(|| "no condition yet".into()),
        }
    }
}

impl NetworksReport {
    /// What the clusters declared, and what the cloud calls it.
    pub(in super::super) fn networks(all: &[NetworksReport]) -> Table {
        let mut rows =
            table(&["CLUSTER", "NETWORK", "RANGE", "GATEWAY", "PROVIDER", "ID", "SUBNET", "READY"]);
        for (of, it) in all.iter().flat_map(|of| of.networks.iter().map(move |it| (of, it))) {
            let ready = if it.ready { "yes" } else { "no" };
            rows.add_row([
                &of.cluster,
                &it.name,
                &it.cidr,
                &it.gateway,
                &of.provider,
                &it.network_id,
                &it.subnet_id,
                ready,
            ]);
        }
        rows
    }

    /// Who reached whom: a row for each host that asked, a column for each host or gateway that was asked.
    pub(in super::super) fn table(&self) -> Option<Table> {
        let (reached, apart) = (self.reached.as_ref()?, self.apart.as_ref()?);
        let hosts: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let gateways = self.networks.iter().map(|network| network.gateway.as_str());
        let targets: Vec<&str> = hosts.iter().copied().chain(gateways).collect();
        let title = format!("{}, {}", self.cluster, self.provider);
        let header = [title.as_str(), "HOST"].into_iter().chain(targets.iter().copied());
        let mut all = table(&header.collect::<Vec<_>>());
        for (at, from) in hosts.iter().enumerate() {
            let moment = if at == 0 { "reaches" } else { "" };
            let cells = targets.iter().map(|to| cell(reached, apart, from, to));
            all.add_row([moment.to_owned(), (*from).to_owned()].into_iter().chain(cells));
        }
        Some(all)
    }

    /// One sentence: what was counted.
    pub(in super::super) fn sentence(&self) -> Option<String> {
        self.reached.as_ref()?;
        let (cluster, sent, received, crossed) = (&self.cluster, self.sent, self.received, self.crossed);
        let mark = if sent == received && crossed == 0 { '✔' } else { '✘' };
        Some(format!(
            "{mark} {cluster}: {received} of {sent} echoes within networks, {crossed} packets from one to another"
        ))
    }

    /// Something to try while the sandbox stays.
    pub(in super::super) fn next(&self, folder: &std::path::Path) -> String {
        let list = "\n  kubectl get networks.samplecrd.k8s.io";
        if let Some(url) = &self.neutron {
            let base = url.trim_end_matches('/').trim_end_matches("/v2.0");
            let cluster = &self.cluster;
            return format!("{list}\n  curl '{base}/v2.0/networks?tags=causeway-cluster%3D{cluster}'");
        }
        let [Some(first), Some(second)] = [self.hosts.first(), self.hosts.get(1)] else { return list.into() };
        let (Some(file), Some(bridge)) = (&self.bridges_file, self.networks.first()) else {
            return list.into();
        };
        // Where this process had to become root in a user namespace of its own, its controllers are in it too.
        let user = match tools::user_namespace() {
            "" => String::new(),
            flags => {
                let pid = folder.join(format!("{}.controller.pid", self.cluster));
                format!("{flags}-t \"$(cat {})\" ", pid.display())
            }
        };
        let enter = |file: &PathBuf| format!("nsenter {user}--net={}", file.display());
        let speak = match tools::exists("ping") {
            true => format!("ping -c 3 {}", second.address),
            false => format!("bash -c 'exec 3<>/dev/tcp/{}/7; echo hi >&3; head -1 <&3'", second.address),
        };
        let (host, machine) = (enter(&first.namespace_file), enter(file));
        let (port, id) = (&first.name, &bridge.network_id);
        format!(
            "{list}\n  {host} {speak}\n  {machine} ip link delete {id}\n  {machine} ip link set dev {port} nomaster"
        )
    }
}

/// A time where there should be one or is one; else whether that is as it should be.
fn cell(reached: &Matrix, apart: &Matrix, from: &str, to: &str) -> String {
    let took = |matrix: &Matrix| matrix.0.get(from).and_then(|row| row.get(to)).copied();
    match (took(reached), took(apart)) {
        (Some(Some(took)), _) => format!("{took:.2} ms"),
        (Some(None), _) => "✘".into(),
        (None, Some(None)) => "apart".into(),
        (None, Some(Some(took))) => format!("✘ {took:.2} ms"),
        (None, None) => "–".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn host(name: &str) -> HostReport {
        let (network, address) = ("blue".to_owned(), Ipv4Addr::LOCALHOST);
        HostReport { name: name.into(), network, address, namespace_file: "file".into() }
    }

    fn matrix(ways: &[(&str, &str, Option<f64>)]) -> Matrix {
        let mut all = BTreeMap::<String, BTreeMap<String, Option<f64>>>::new();
        for (from, to, took) in ways {
            all.entry((*from).into()).or_default().insert((*to).into(), *took);
        }
        Matrix(all)
    }

    #[test]
    fn a_table_tells_what_is_apart_on_purpose_from_what_is_broken() {
        let gateway = NetworkReport { gateway: "10.0.0.1".into(), ..NetworkReport::default() };
        let report = NetworksReport {
            cluster: "cluster1".into(),
            provider: "bridge".into(),
            networks: vec![gateway],
            hosts: vec![host("a"), host("b")],
            reached: Some(matrix(&[("a", "10.0.0.1", Some(0.25)), ("b", "10.0.0.1", None)])),
            apart: Some(matrix(&[("a", "b", None), ("b", "a", Some(0.5))])),
            sent: 200,
            received: 100,
            ..NetworksReport::default()
        };
        let text = report.table().expect("it was looked").to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = |name: &str| rows.iter().find(|row| row.contains(&name) && !row.contains(&"HOST"));
        assert_eq!(
            row("reaches"),
            Some(&vec!["│", "reaches", "a", "–", "apart", "0.25", "ms", "│"]),
            "{text}"
        );
        assert_eq!(row("b"), Some(&vec!["│", "b", "✘", "0.50", "ms", "–", "✘", "│"]), "{text}");
        let sentence = report.sentence().expect("it was counted");
        assert_eq!(sentence, "✘ cluster1: 100 of 200 echoes within networks, 0 packets from one to another");
    }

    #[test]
    fn without_hosts_there_is_nothing_to_reach() {
        let report = NetworksReport { cluster: "cluster1".into(), ..NetworksReport::default() };
        assert!(report.table().is_none() && report.sentence().is_none());
    }
}
