//! `causeway controller`: flags and environment become the controller's options.

mod contradiction;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use causeway_controller::client::connect;
use causeway_controller::clock::Clock;
use causeway_controller::election::{self, Times};
use causeway_controller::rules::clients::Loopback;
use causeway_controller::{Options, rules, vpc};
use causeway_core::vpc::Given;
use causeway_core::vpc::shares::RECORDS_PER_MEMBER;
use causeway_core::{ClusterId, Ipv4Cidr, ObjectKey};
use clap::{ArgAction, ValueEnum};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, Config};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

use crate::daemon::end_on_signal;
use crate::{clusters, networks};

/// Keep gateways, records and statuses of one cluster as its objects say.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file in YAML that says what flags can: their names in camelCase (clusterId). A flag or its variable wins over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What to do: a list of rooms. Each has its rights in a file of its name in deploy/.
    #[arg(long, value_name = "ROOM,…", value_delimiter = ',', value_enum, default_value = DEFAULT_ROOMS)]
    enable: Vec<RoomName>,
    /// The cluster; without it what the variable KUBECONFIG or ~/.kube/config say, else the one this pod runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The address of the API server, in place of the kubeconfig's.
    #[arg(long, value_name = "URL", value_parser = server)]
    master: Option<http::Uri>,
    /// The broker; without it Submariner's ServiceDiscovery object says where it is.
    #[arg(long, value_name = "FILE")]
    broker_kubeconfig: Option<PathBuf>,
    /// The namespace of the exchange at a broker given by --broker-kubeconfig.
    #[arg(long, value_name = "NAME", default_value = vpc::broker::DEFAULT_NAMESPACE)]
    broker_namespace: String,
    /// This cluster's id, in place of the ServiceDiscovery object's.
    #[arg(long, value_name = "ID")]
    cluster_id: Option<ClusterId>,
    /// This cluster's range of global addresses, in place of Submariner's.
    #[arg(long, value_name = "CIDR")]
    globalnet_cidr: Option<Ipv4Cidr>,
    /// This cluster's egress addresses, in place of Submariner's.
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    egress_ips: Vec<Ipv4Addr>,
    /// Believe no cluster's range of global addresses that is not within this one, our own neither.
    #[arg(long, value_name = "CIDR")]
    globalnet_within: Option<Ipv4Cidr>,
    /// Build only tunnels whose namespace is among spec.namespaces of their gateway's Vpc (none there: all are).
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_default_value = true, value_name = "BOOL")]
    restrict_namespaces: bool,
    /// How many records of each other cluster are brought here from the broker, and how many of its tunnels' ends are
    /// compared: the first so many by name.
    #[arg(long, value_name = "N", default_value_t = RECORDS_PER_MEMBER, value_parser = at_least_one)]
    records_per_member: usize,
    /// How the names of gateways' workloads begin, in place of natGwNamePrefix in kube-ovn's ConfigMap
    /// kube-system/ovn-vpc-nat-config (where that is missing too: vpc-nat-gw).
    #[arg(long, value_name = "PREFIX")]
    gateway_prefix: Option<String>,
    /// Where /healthz, /readyz and /metrics are served; `:8080` means on every address.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080", value_parser = listen)]
    listen: SocketAddr,
    /// Work without a lease; only for a single replica.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_default_value = true, value_name = "BOOL")]
    no_leader_election: bool,
    /// Where the leaders' leases live.
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = "kube-system", value_parser = namespace)]
    lease_namespace: String,
    /// How long a leader that has fallen silent keeps its lease; it is renewed three times in that.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    lease_duration: Duration,
    /// The name of this replica; by default the host's name and the process's id.
    #[arg(long, value_name = "NAME", env = "POD_NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    identity: Option<String>,
    /// How many gateways are visited at once.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
    /// The longest that a command in a gateway may take.
    #[arg(long, value_name = "SECONDS", env = "CAUSEWAY_EXEC_TIMEOUT", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    exec_timeout: u64,
    /// How often the peer of each tunnel is asked whether it answers; with many tunnels on a gateway a second longer for each
    /// hundred.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    probe_interval: Duration,
    /// Where data planes get their rules (--enable rules).
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:10246", value_parser = listen)]
    rules_listen: SocketAddr,
    /// Where they get them with TLS, if there is a certificate.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:10248", value_parser = listen)]
    rules_tls_listen: SocketAddr,
    /// The certificate for that, and those above it; read again when it changes.
    #[arg(long, value_name = "FILE", requires = "rules_tls_key")]
    rules_tls_cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "rules_tls_cert")]
    rules_tls_key: Option<PathBuf>,
    /// Whose certificates data planes must have; without it they need none.
    #[arg(long, value_name = "FILE", requires = "rules_tls_cert")]
    rules_tls_client_ca: Option<PathBuf>,
    /// Follow a kind of rules only while a data plane asks for it. Then no status is kept of the others.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_default_value = true, value_name = "BOOL")]
    watch_on_demand: bool,
    /// How many data planes may be connected to one replica.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    rules_max_streams: u32,
    /// Where can be asked who is connected; never from elsewhere (`causeway rules clients` comes by port-forward).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10249")]
    rules_clients_listen: Loopback,
    #[command(flatten)]
    networks: networks::NetworksArgs,
    /// How logs look.
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) log_format: LogFormat,
    /// End when the process that started this one does.
    #[arg(long, hide = true)]
    exit_with_parent: bool,
}

/// What a controller does unless it is told otherwise.
pub(crate) const DEFAULT_ROOMS: &str = "vpc,dns";

/// What a controller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoomName {
    /// Tunnels between the gateways of VPCs, and the exchange of their records.
    Vpc,
    /// Names of other clusters in VPCs that ask for it.
    Dns,
    /// Rules of OpenSergo's kinds, sent to every data plane that asks for them.
    Rules,
    /// Networks of a cloud, declared as objects.
    Networks,
}

impl RoomName {
    /// The definitions of its kinds.
    pub(crate) fn crds(self) -> Vec<CustomResourceDefinition> {
        match self {
            Self::Vpc => causeway_api::vpc::crds(),
            Self::Dns => causeway_api::dns::crds(),
            Self::Rules => causeway_api::rules::crds(),
            Self::Networks => causeway_api::networks::crds(),
        }
    }
}

/// `15s`, `1500ms`, `1m 30s`; not nothing, and not for ever.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|it| Duration::try_from(it).ok());
    let fits = |duration: &Duration| (Duration::from_secs(1)..=election::LONGEST).contains(duration);
    parsed.filter(fits).ok_or_else(|| "use a time from 1s to 1h".into())
}

/// An address and a port; a port alone, as Go writes it, means on every address.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    whole.parse().map_err(|_| "use an address and a port, like 127.0.0.1:8080 or :8080".into())
}

/// None at all would mean: no tunnels.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "use a number from 1 on".into())
}

/// A name that a namespace can have.
fn namespace(text: &str) -> Result<String, String> {
    ObjectKey::new(text, "any").map(|key| key.namespace().to_owned()).map_err(|error| error.to_string())
}

/// How logs look.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

/// Changes of rules within this time go out as one.
const RULES_WINDOW: Duration = Duration::from_millis(20);
/// A data plane that takes nothing for so long is disconnected.
const RULES_STUCK_AFTER: Duration = Duration::from_secs(30);
/// One that asks for nothing within this is too.
const RULES_ASKS_WITHIN: Duration = Duration::from_secs(60);
/// For so long a data plane may hold newer rules than a replica, which then is about to get them too.
const RULES_OUTDATED_FOR: Duration = Duration::from_secs(10);
/// How long a kind is followed that nobody asks for any more: whoever left may come back, and statuses say so by then.
const RULES_LINGER: Duration = Duration::from_secs(5);
/// How long a stop takes to let all data planes go.
const RULES_DRAIN: Duration = Duration::from_secs(3);
/// How often a gateway is looked at although nothing was heard of it: iptables has no monitor.
const DRIFT_INTERVAL: Duration = Duration::from_secs(15);
/// How often both sides of the exchange are compared as a whole.
const RESYNC_INTERVAL: Duration = Duration::from_secs(120);
/// How long a node may be silent before its gateway counts as gone.
const NODE_GRACE: Duration = Duration::from_secs(60);

/// What must happen before any thread starts.
pub(crate) fn prepare(args: &Args) -> anyhow::Result<()> {
    if args.exit_with_parent {
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM).context("--exit-with-parent")?;
    }
    // Each data plane is a connection, and where processes begin with 1,024 of them they may have more.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).context("the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("the limit of open files")?;
    Ok(())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let stop = CancellationToken::new();
    let options = options(args).await?;
    end_on_signal(stop.clone())?;
    causeway_controller::run(options, stop).await?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// How many data planes there may be: each is an open file, and some are needed for everything else.
fn most_streams(wanted: u32, is_served: bool) -> anyhow::Result<usize> {
    const OTHERS: usize = 256;
    let (files, _) = getrlimit(Resource::RLIMIT_NOFILE).context("the limit of open files")?;
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    let (wanted, most) =
        (wanted.try_into().unwrap_or(usize::MAX), files.saturating_sub(rules::LATE + OTHERS));
    anyhow::ensure!(
        most > 0 || !is_served,
        "with {files} open files no data plane could connect: the process needs more than {} (ulimit -n)",
        rules::LATE + OTHERS
    );
    if most < wanted && is_served {
        tracing::warn!(wanted, most, "the process may have too few open files for so many data planes");
    }
    Ok(most.min(wanted))
}

async fn options(args: Args) -> anyhow::Result<Options> {
    let broker = match &args.broker_kubeconfig {
        Some(path) => Some(vpc::broker::Broker {
            client: client_at(Some(path), None).await?,
            namespace: args.broker_namespace,
        }),
        None => None,
    };
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let cluster = args.cluster_id.as_ref().map(ToString::to_string);
    let vpc = vpc::Options {
        given: Given {
            cluster: args.cluster_id,
            globalnet: args.globalnet_cidr,
            egress: args.egress_ips,
            within: args.globalnet_within,
            restrict_namespaces: args.restrict_namespaces,
            records_per_member: Some(args.records_per_member),
        },
        broker,
        gateway_prefix: args.gateway_prefix,
        visits: args.workers.into(),
        exec_timeout: Duration::from_secs(args.exec_timeout),
        drift_interval: DRIFT_INTERVAL,
        probe_interval: args.probe_interval,
        resync_interval: RESYNC_INTERVAL,
        node_grace: NODE_GRACE,
    };
    let tls = args.rules_tls_cert.zip(args.rules_tls_key).map(|(certificate, key)| rules::Tls {
        listen: args.rules_tls_listen,
        certificate,
        key,
        client_ca: args.rules_tls_client_ca,
    });
    let rules = rules::Options {
        listen: args.rules_listen,
        tls,
        window: RULES_WINDOW,
        stuck_after: RULES_STUCK_AFTER,
        asks_within: RULES_ASKS_WITHIN,
        drain: RULES_DRAIN,
        outdated_for: RULES_OUTDATED_FOR,
        on_demand: args.watch_on_demand.then_some(RULES_LINGER),
        most_streams: most_streams(args.rules_max_streams, args.enable.contains(&RoomName::Rules))?,
        clients: Some(args.rules_clients_listen),
        name: format!("osg-{}", if host.is_empty() { "unknown-host" } else { &host }),
    };
    let networks = match args.enable.contains(&RoomName::Networks) {
        true => Some(args.networks.setup(cluster)?),
        false => None,
    };
    Ok(Options {
        client: client_at(args.kubeconfig.as_deref(), args.master).await?,
        identity: args.identity.unwrap_or_else(|| format!("{host}-{}", std::process::id())),
        lease_namespace: (!args.no_leader_election).then_some(args.lease_namespace),
        lease_times: Times::of(args.lease_duration),
        listen: args.listen,
        clock: Clock::System,
        seed: seed(),
        vpc: args.enable.contains(&RoomName::Vpc).then_some(vpc),
        dns: args.enable.contains(&RoomName::Dns),
        rules: args.enable.contains(&RoomName::Rules).then_some(rules),
        networks,
    })
}

/// Replicas that start together should not pause together.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// An address that HTTP can be spoken to.
fn server(text: &str) -> Result<http::Uri, String> {
    let uri: http::Uri = text.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    if is_http && uri.host().is_some_and(|host| !host.is_empty()) {
        return Ok(uri);
    }
    Err("it is not the address of a server, like https://10.0.0.1:6443".into())
}

/// A client from a kubeconfig, else from the pod's own account; at another address if one is given.
async fn client_at(kubeconfig: Option<&Path>, master: Option<http::Uri>) -> anyhow::Result<Client> {
    let config = clusters::config(kubeconfig).await;
    let mut config = match (config, kubeconfig, &master) {
        (Ok(config), ..) => config,
        // An address alone is enough where nobody needs to be known.
        (Err(_), None, Some(master)) => Config::new(master.clone()),
        (Err(trouble), ..) => return Err(trouble.into()),
    };
    if let Some(master) = master {
        config.cluster_url = master;
    }
    Ok(connect(config)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn who_is_connected_is_told_on_loopback_only() {
        let parse = |address: &str| Line::try_parse_from(["causeway", "--rules-clients-listen", address]);
        let error = parse("0.0.0.0:10249").expect_err("others could ask");
        assert!(error.to_string().contains("can be reached from elsewhere"), "{error}");
        assert!(parse("127.0.0.1:0").is_ok() && parse("[::1]:10249").is_ok());
    }

    #[test]
    fn a_port_alone_is_listened_on_at_every_address() {
        for (text, address) in
            [(":8080", "0.0.0.0:8080"), ("127.0.0.1:0", "127.0.0.1:0"), ("[::]:8080", "[::]:8080")]
        {
            let line = Line::try_parse_from(["causeway", "--listen", text]).expect("an address");
            assert_eq!(line.args.listen.to_string(), address);
        }
        for text in ["", ":", "8080", "localhost:8080", ":99999"] {
            let error = Line::try_parse_from(["causeway", "--listen", text]).expect_err("no address");
            assert!(error.to_string().contains("like 127.0.0.1:8080 or :8080"), "{text}: {error}");
        }
    }

    #[test]
    fn no_worker_no_time_and_no_lease_are_refused_in_words() {
        for (flag, refused, allowed) in [
            ("--workers", "0", "1"),
            ("--exec-timeout", "0", "3600"),
            ("--lease-duration", "0s", "1h"),
            ("--records-per-member", "0", "1"),
        ] {
            let error =
                Line::try_parse_from(["causeway", flag, refused]).expect_err("it means: nothing works");
            assert!(error.to_string().contains(flag), "{error}");
            assert!(Line::try_parse_from(["causeway", flag, allowed]).is_ok(), "{flag} {allowed}");
        }
        assert!(Line::try_parse_from(["causeway"]).is_ok());
    }

    #[test]
    fn without_a_word_it_keeps_tunnels_and_forwards() {
        let line = Line::try_parse_from(["causeway"]).expect("no words");
        assert_eq!(line.args.enable, [RoomName::Vpc, RoomName::Dns]);
    }
}
