//! The gateway's own iptables chains, as kube-ovn's gateway image makes them at its start.
//!
//! The floating IP's rule has no `-o`: it catches the client's packets on every way out, also
//! into a tunnel, unless a rule before it in POSTROUTING took them. That is why it is here.

use std::net::Ipv4Addr;
use std::path::Path;

use clap::ValueEnum;

use super::addresses::Role;
use super::netns::{Namespace, NamespaceError};
use super::tools;

/// Says where iptables keeps its lock. The default is the machine's: without root it cannot be
/// taken, and gateways that share it make each other fail.
pub(super) const LOCK: &str = "XTABLES_LOCKFILE";

/// Which iptables the gateways should use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// As kube-ovn chooses: legacy where it works, else nft.
    #[default]
    Auto,
    /// `iptables-legacy`
    Legacy,
    /// `iptables-nft`
    Nft,
}

/// The iptables that holds the gateway's chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Legacy,
    Nft,
}

impl Variant {
    /// The variant to use; a try in a namespace of its own decides where the choice is open.
    pub(super) async fn choose(choice: Choice, lock: &Path) -> Result<Variant, NamespaceError> {
        match choice {
            Choice::Legacy => Ok(Variant::Legacy),
            Choice::Nft => Ok(Variant::Nft),
            Choice::Auto => {
                let scratch = Namespace::create("a look at iptables").await?;
                let mut look = tools::command("iptables-legacy");
                look.args(["-t", "nat", "-S", "INPUT", "1"]);
                look.env(LOCK, lock);
                // A machine without the legacy command has nothing to run: that is nft too.
                let works = scratch.output(look, "").await.is_ok_and(|o| o.status.success());
                Ok(if works { Variant::Legacy } else { Variant::Nft })
            }
        }
    }

    fn restore(self) -> &'static str {
        match self {
            Variant::Legacy => "iptables-legacy-restore",
            Variant::Nft => "iptables-nft-restore",
        }
    }
}

/// Makes the chains, with a floating IP for the client where there is one.
pub(super) async fn init(
    gateway: &Namespace,
    variant: Variant,
    floating: Option<Ipv4Addr>,
    lock: &Path,
) -> Result<(), NamespaceError> {
    let mut restore = tools::command(variant.restore());
    restore.arg("--noflush").env(LOCK, lock);
    gateway.checked(restore, &chains(floating)).await.map(drop)
}

fn chains(floating: Option<Ipv4Addr>) -> String {
    let client = Role::Client.lan();
    let mut text = String::from("*nat\n");
    for (hook, kind) in [("PREROUTING", "DNAT"), ("POSTROUTING", "SNAT")] {
        text += &format!(
            ":{kind}_FILTER - [0:0]\n:EXCLUSIVE_{kind} - [0:0]\n:SHARED_{kind} - [0:0]\n\
             -A {hook} -j {kind}_FILTER\n\
             -A {kind}_FILTER -j EXCLUSIVE_{kind}\n-A {kind}_FILTER -j SHARED_{kind}\n"
        );
    }
    if let Some(ip) = floating {
        text += &format!("-A EXCLUSIVE_DNAT -d {ip}/32 -j DNAT --to-destination {client}\n");
        text += &format!("-A EXCLUSIVE_SNAT -s {client}/32 -j SNAT --to-source {ip}\n");
    }
    text + "COMMIT\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floating_ip_catches_the_client_on_every_way_out() {
        let text = chains(Some(Ipv4Addr::new(172, 50, 16, 101)));
        assert!(text.contains("-A POSTROUTING -j SNAT_FILTER\n"));
        assert!(text.contains("-A EXCLUSIVE_SNAT -s 10.0.1.10/32 -j SNAT --to-source 172.50.16.101\n"));
        assert!(!text.contains("-o "));
    }

    #[test]
    fn a_gateway_without_floating_ip_has_empty_chains() {
        assert!(!chains(None).contains("--to-"));
    }
}
