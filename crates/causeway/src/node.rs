//! `causeway node`: flannel's flags, environment and files become the options of a node's agent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use causeway_api::leases::{Config, DEFAULT_PREFIX};
use causeway_controller::client::connect;
use causeway_controller::clock::Clock;
use causeway_controller::follow::Spread;
use causeway_controller::leases::Options;
use causeway_controller::leases::links::{Selection, Wanted};
use causeway_controller::leases::once::{self, Cleaned};
use causeway_controller::{NodeOptions, run_node};
use causeway_core::Family;
use causeway_core::leases::{Given, Mac, Mode, link_name};
use causeway_datapath::leases::Kernel;
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use regex_lite::Regex;
use tokio_util::sync::CancellationToken;

use crate::controller::{LogFormat, duration, seed};
use crate::daemon::end_on_signal;

/// Keep this node's routes to the pods of all others as the cluster's nodes say, in flannel's place.
///
/// Flags are flannel's, and so is the environment (FLANNELD_… with a flag's name in capitals), so that its manifests work with
/// this command in place of flanneld.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The link by which this node is reached, by its name or address; the first of several that is there.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    iface: Vec<String>,
    /// The same by a pattern for names and addresses; asked after --iface.
    #[arg(long, value_name = "REGEX")]
    iface_regex: Vec<Regex>,
    /// The link by which this address is reached; without any of these three, that of the default route.
    #[arg(long, value_name = "ADDRESS")]
    iface_can_reach: Option<IpAddr>,
    /// The IPv4 address at which others reach this node, in place of the link's; not with host-gw.
    #[arg(long, value_name = "ADDRESS", value_parser = of_family::<false>)]
    public_ip: Option<IpAddr>,
    /// The same of IPv6.
    #[arg(long, value_name = "ADDRESS", value_parser = of_family::<true>)]
    public_ipv6: Option<IpAddr>,
    /// Hide pods' addresses from whatever is outside the network.
    #[arg(long, value_name = "BOOL", default_value_t = false,
          num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set,
          value_parser = clap::builder::BoolishValueParser::new())]
    ip_masq: bool,
    /// Let packets from and to pods through, also where the node lets nothing through.
    #[arg(long, value_name = "BOOL", default_value_t = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set,
          value_parser = clap::builder::BoolishValueParser::new())]
    iptables_forward_rules: bool,
    /// What the CNI plugin reads.
    #[arg(
        long,
        value_name = "FILE",
        env = "FLANNELD_SUBNET_FILE",
        default_value = "/run/flannel/subnet.env"
    )]
    subnet_file: PathBuf,
    /// The network's configuration.
    #[arg(
        long,
        value_name = "FILE",
        env = "FLANNELD_NET_CONFIG_PATH",
        default_value = "/etc/kube-flannel/net-conf.json"
    )]
    net_config_path: PathBuf,
    /// Leases are those of the cluster's nodes; nothing else is supported.
    #[arg(long, value_name = "BOOL", default_value_t = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set,
          value_parser = clap::builder::BoolishValueParser::new())]
    kube_subnet_mgr: bool,
    /// What the names of nodes' annotations begin with.
    #[arg(long, value_name = "PREFIX", default_value = DEFAULT_PREFIX, value_parser = prefix)]
    kube_annotation_prefix: String,
    /// The cluster; without it the one this pod runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig_file: Option<PathBuf>,
    /// Where the API server is, in place of what else says so.
    #[arg(long, value_name = "URL")]
    kube_api_url: Option<http::Uri>,
    /// Where /healthz, /readyz and /metrics are served.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    healthz_ip: IpAddr,
    /// At which port; with 0 nowhere.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    healthz_port: u16,
    /// Set the node's condition NetworkUnavailable to False once it has a network.
    #[arg(long, value_name = "BOOL", default_value_t = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set,
          value_parser = clap::builder::BoolishValueParser::new())]
    set_node_network_unavailable: bool,
    /// Accepted, since flannel's manifests have it.
    #[arg(long, value_name = "N", hide = true)]
    v: Option<String>,
    /// The same.
    #[arg(long, value_name = "SECONDS", hide = true)]
    iptables_resync: Option<String>,
    /// The name of this node; without it that of POD_NAME's in POD_NAMESPACE.
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// Say what would be changed on this node, change nothing, and exit: with 0 if that is nothing, else with 2.
    #[arg(long, conflicts_with = "cleanup")]
    observe_only: bool,
    /// Take away all routes, links, rules and files of ours on this node, and exit.
    #[arg(long)]
    cleanup: bool,
    /// How often the kernel is looked at although nothing was heard.
    #[arg(long, value_name = "TIME", default_value = "15s", hide = true, value_parser = duration)]
    check_every: Duration,
    /// How logs look.
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) log_format: LogFormat,
    /// End when the process that started this one does.
    #[arg(long, hide = true)]
    exit_with_parent: bool,
}

/// Thousands of agents may start or lose their API server in one moment.
const SPREAD: Spread = Spread { first: Duration::from_millis(500), later: Duration::from_secs(5) };
/// What `--observe-only` exits with when something would change.
const WOULD_CHANGE: u8 = 2;

fn of_family<const V6: bool>(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|error| format!("{error}"))?;
    let family = if V6 { "IPv6" } else { "IPv4" };
    if address.is_ipv6() == V6 { Ok(address) } else { Err(format!("it is not an {family} address")) }
}

/// What the names of annotations can begin with; a slash at the end is as good as none.
fn prefix(text: &str) -> Result<String, String> {
    let prefix = text.strip_suffix('/').unwrap_or(text);
    let is_fine = |it: char| it.is_ascii_alphanumeric() || it == '.' || it == '-';
    let is_name = !prefix.is_empty() && prefix.len() <= 253 && prefix.chars().all(is_fine);
    if is_name { Ok(prefix.to_owned()) } else { Err("use a name like flannel.alpha.coreos.com".into()) }
}

/// The command line as flannel's manifests mean it: flags with one dash, and for those that are not given the environment,
/// in which nothing is as good as not there.
pub(crate) fn as_flannel_has_it(
    words: impl IntoIterator<Item = OsString>,
    flags: &[&str],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if words.get(1).is_none_or(|command| command != "node") {
        return words;
    }
    for word in &mut words[2..] {
        let single = word.to_str().and_then(|text| text.strip_prefix('-')).filter(|text| text.len() > 1);
        if let Some(flag) = single.filter(|text| !text.starts_with('-')) {
            *word = format!("--{flag}").into();
        }
    }
    let is_given = |flag: &str| {
        let named = |word: &OsString| {
            let text = word.to_str().and_then(|text| text.strip_prefix("--")).unwrap_or_default();
            text.split('=').next() == Some(flag)
        };
        words[2..].iter().any(named)
    };
    let mut given = Vec::new();
    for flag in flags.iter().filter(|flag| !is_given(flag)) {
        let name = format!("FLANNELD_{}", flag.replace('-', "_").to_uppercase());
        if let Some(value) = variable(&name).filter(|value| !value.is_empty()) {
            let mut word = OsString::from(format!("--{flag}="));
            word.push(value);
            given.push(word);
        }
    }
    words.splice(2..2, given);
    words
}

/// What must happen before any thread starts.
pub(crate) fn prepare(args: &Args) -> anyhow::Result<()> {
    if args.exit_with_parent {
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM).context("--exit-with-parent")?;
    }
    Ok(())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.cleanup {
        return clean_up(&args).await;
    }
    ensure!(args.kube_subnet_mgr, "--kube-subnet-mgr=false: leases in etcd are not supported");
    let config = read_config(&args.net_config_path)?;
    let client = client(&args).await?;
    let name = node_name(&args, &client).await?;
    let observe_only = args.observe_only;
    let listen = (args.healthz_port != 0).then(|| SocketAddr::new(args.healthz_ip, args.healthz_port));
    let leases = options(args, &config, name)?;
    if observe_only {
        return would_change(&client, &leases).await;
    }
    ensure!(may_change_the_network(), "the kernel lets this process change nothing: it needs CAP_NET_ADMIN");
    let stop = CancellationToken::new();
    end_on_signal(stop.clone())?;
    run_node(NodeOptions { client, listen, clock: Clock::System, seed: seed(), leases }, stop).await?;
    tracing::info!("stopped; routes stay as they are");
    Ok(ExitCode::SUCCESS)
}

/// Whether the process has that right; where that cannot be seen, the kernel will say.
fn may_change_the_network() -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    rights.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_none_or(|bits| bits & NET_ADMIN != 0)
}

fn read_config(path: &Path) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    causeway_api::leases::config(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

fn options(args: Args, config: &Config, name: String) -> anyhow::Result<Options> {
    let named = args.iface.into_iter().map(Wanted::Named);
    let fitting = args.iface_regex.into_iter().map(Wanted::Fitting);
    let wanted = named.chain(fitting).chain(args.iface_can_reach.map(Wanted::Reaching)).collect();
    let given = Given {
        name,
        networks: config.networks.clone(),
        macs: macs(config)?,
        mtu: config.mtu,
        public: args.public_ip.into_iter().chain(args.public_ipv6).collect(),
        masquerade: args.ip_masq,
        forward: args.iptables_forward_rules,
    };
    Ok(Options {
        given,
        prefix: args.kube_annotation_prefix,
        selection: Selection(wanted),
        subnet_file: args.subnet_file,
        set_condition: args.set_node_network_unavailable,
        check_every: args.check_every,
        spread: SPREAD,
    })
}

/// What this node's ends of VXLANs are called: as the links that are there, else by chance.
fn macs(config: &Config) -> anyhow::Result<BTreeMap<Family, Mac>> {
    let mut kernel = Kernel::open().context("the kernel cannot be asked by netlink")?;
    let mut macs = BTreeMap::new();
    for network in &config.networks {
        let (family, Mode::Vxlan { vni, .. }) = (network.range.family(), network.mode) else { continue };
        let have =
            kernel.observe(family, Some(&link_name(family, vni))).context("reading the kernel's routes")?;
        let known =
            have.link.and_then(|link| link.vxlan).map(|vxlan| vxlan.mac).filter(|mac| mac.is_of_one());
        macs.insert(family, known.unwrap_or_else(any_mac));
    }
    Ok(macs)
}

/// One that nobody has been given: local, and of one link.
fn any_mac() -> Mac {
    let [_, b, c, d, e, f, ..] = seed().to_be_bytes();
    Mac([0x02, b, c, d, e, f])
}

async fn client(args: &Args) -> anyhow::Result<Client> {
    let mut config = match &args.kubeconfig_file {
        Some(path) => {
            let read = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer().await.context("no --kubeconfig-file was given and this is no pod")?,
    };
    if let Some(url) = &args.kube_api_url {
        config.cluster_url = url.clone();
    }
    Ok(connect(config)?)
}

async fn node_name(args: &Args, client: &Client) -> anyhow::Result<String> {
    if let Some(name) = args.node_name.clone().filter(|name| !name.is_empty()) {
        return Ok(name);
    }
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let (Some(pod), Some(namespace)) = (variable("POD_NAME"), variable("POD_NAMESPACE")) else {
        bail!("which node is this? Set NODE_NAME, or POD_NAME and POD_NAMESPACE");
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let found = pods.get(&pod).await.with_context(|| format!("reading the pod {namespace}/{pod}"))?;
    let name = found.spec.and_then(|spec| spec.node_name);
    name.with_context(|| format!("the pod {namespace}/{pod} is on no node"))
}

async fn would_change(client: &Client, leases: &Options) -> anyhow::Result<ExitCode> {
    let words = once::would_change(client, leases).await?;
    let mut stdout = std::io::stdout().lock();
    for line in &words {
        writeln!(stdout, "{line}")?;
    }
    if words.is_empty() {
        writeln!(stdout, "nothing would change")?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(WOULD_CHANGE))
}

async fn clean_up(args: &Args) -> anyhow::Result<ExitCode> {
    let Cleaned { mut done, failed } = once::clean_up().await.context("the kernel cannot be cleaned")?;
    // Where nothing was ours, the file is whoever's has this job now.
    if !done.is_empty() {
        match std::fs::remove_file(&args.subnet_file) {
            Ok(()) => done.push(format!("delete {}", args.subnet_file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("deleting {}", args.subnet_file.display()));
            }
        }
    }
    let mut stdout = std::io::stdout().lock();
    for line in &done {
        writeln!(stdout, "{line}")?;
    }
    if !failed.is_empty() {
        bail!("not all of ours could be taken away: {}", failed.join("; "));
    }
    writeln!(
        stdout,
        "nothing of ours is left; the node's annotations stay until its next agent writes them"
    )?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(words: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
        let variable =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let flags = ["iface", "ip-masq", "healthz-port"];
        let words = ["causeway", "node"].into_iter().chain(words.iter().copied()).map(OsString::from);
        let words = as_flannel_has_it(words, &flags, variable).into_iter().skip(2);
        words.map(|word| word.into_string().expect("text")).collect()
    }

    #[test]
    fn flannels_flags_and_environment_are_understood() {
        assert_eq!(meant(&["-ip-masq", "-v=3"], &[]), ["--ip-masq", "--v=3"]);
        let environment =
            [("FLANNELD_IFACE", "eth1"), ("FLANNELD_IP_MASQ", ""), ("FLANNELD_HEALTHZ_PORT", "1")];
        assert_eq!(meant(&["--iface", "eth0"], &environment), ["--healthz-port=1", "--iface", "eth0"]);
        assert_eq!(meant(&["--iface=eth0", "-"], &[]), ["--iface=eth0", "-"]);
        let others = as_flannel_has_it(["causeway", "status", "-x"].map(OsString::from), &["x"], |_| None);
        assert_eq!(others, ["causeway", "status", "-x"]);
    }

    #[test]
    fn the_beginning_of_annotations_names_is_a_name() {
        assert_eq!(prefix("flannel.alpha.coreos.com/"), Ok("flannel.alpha.coreos.com".to_owned()));
        for bad in ["", "/", "a//b", "a b", "ä"] {
            assert!(prefix(bad).is_err(), "{bad}");
        }
    }
}
