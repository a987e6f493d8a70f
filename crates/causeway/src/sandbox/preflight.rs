//! Looks before anything is built: what is missing is named together with what to do about it.
//!
//! Without the needed privileges the process first enters a user namespace of its own, in which
//! it is root. The kernel allows that only while there is a single thread, so all of this runs
//! before the async runtime starts.

use std::io::Write;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use thiserror::Error;

use super::nat::Choice;
use super::tools;

/// The process's exit code when something is missing.
pub(crate) const EXIT_CODE: u8 = 3;

/// The kinds of link that the sandbox is made of.
const LINKS: [&str; 3] = ["veth", "bridge", "vxlan"];
/// Tools that are run, and the packages that bring them.
const TOOLS: [(&str, &str); 4] =
    [("ip", "iproute2"), ("bash", "bash"), ("setsid", "util-linux"), ("stty", "coreutils")];
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// All that is missing on this machine.
#[derive(Debug, Error)]
#[error("the sandbox cannot run here:\n{}", .0.iter().map(|m| format!("  - {m}")).collect::<Vec<_>>().join("\n"))]
pub(crate) struct NotReady(Vec<Missing>);

/// One thing that is missing.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum Missing {
    /// No privileges, and no way to get them in a user namespace.
    #[error(
        "no permission to make network namespaces ({0}): run as root, or let users have user namespaces \
         (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
    )]
    NetworkNamespaces(String),
    /// The kernel does not know a kind of link.
    #[error("the kernel cannot make {0} links ({1}): load its module as root with `modprobe {0}`")]
    Link(&'static str, String),
    /// A tool is not installed.
    #[error("`{0}` is not installed: install the package {1}")]
    Tool(&'static str, &'static str),
}

/// Makes sure the sandbox can be built, with networks as bridges if that is wanted. Must be called before any thread is started.
pub(super) fn check(iptables: Choice, bridges: bool) -> Result<(), NotReady> {
    let iptables = match iptables {
        Choice::Auto => "iptables",
        Choice::Legacy => "iptables-legacy",
        Choice::Nft => "iptables-nft",
    };
    let rules = bridges.then_some(("nft", "nftables"));
    let needed = TOOLS.into_iter().chain([(iptables, "iptables")]).chain(rules);
    let missing = needed.filter(|(tool, _)| !tools::exists(tool));
    let mut all: Vec<Missing> = missing.map(|(tool, package)| Missing::Tool(tool, package)).collect();
    match enter_user_namespace_if_needed() {
        Err(error) => all.push(Missing::NetworkNamespaces(error.to_string())),
        Ok(()) if tools::exists("ip") => all.extend(missing_links()),
        Ok(()) => {}
    }
    if all.is_empty() { Ok(()) } else { Err(NotReady(all)) }
}

/// Becomes root of a new user namespace unless it may administer networks already.
pub(super) fn enter_user_namespace_if_needed() -> std::io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let needed = CAP_NET_ADMIN | CAP_SYS_ADMIN;
    if capabilities(&status) & needed == needed {
        return Ok(());
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

fn capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or_default()
}

/// Tries each kind of link in a namespace that goes with its thread.
fn missing_links() -> Vec<Missing> {
    let tried = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| Missing::NetworkNamespaces(error.to_string()))?;
        try_links().map_err(|error| Missing::NetworkNamespaces(error.to_string()))
    });
    match tried.join() {
        Ok(Ok(stderr)) => failures(&stderr),
        Ok(Err(missing)) => vec![missing],
        Err(_) => vec![Missing::NetworkNamespaces("the try panicked".into())],
    }
}

fn try_links() -> std::io::Result<String> {
    let mut ip = Command::new("ip");
    ip.args(["-force", "-batch", "-"]).env("PATH", tools::path());
    ip.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut ip = ip.spawn()?;
    let lines = "link add name try1 type veth peer name try2\n\
                 link add name try3 type bridge\n\
                 link add name try4 type vxlan id 1 dstport 4789\n";
    if let Some(mut stdin) = ip.stdin.take() {
        stdin.write_all(lines.as_bytes())?;
    }
    Ok(String::from_utf8_lossy(&ip.wait_with_output()?.stderr).into_owned())
}

/// `ip` says why, then which line: `Command failed -:N`.
fn failures(stderr: &str) -> Vec<Missing> {
    let mut reason = "no reason given".to_owned();
    let mut all = Vec::new();
    for line in stderr.lines() {
        let Some(number) = line.strip_prefix("Command failed -:") else {
            reason = line.trim_start_matches("RTNETLINK answers: ").to_owned();
            continue;
        };
        let link = number.trim().parse::<usize>().ok().and_then(|n| LINKS.get(n.checked_sub(1)?).copied());
        all.extend(link.map(|link| Missing::Link(link, reason.clone())));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_link_the_kernel_lacks_is_named_with_the_reason() {
        let stderr = "Error: Unknown device type.\nCommand failed -:3\n";
        assert_eq!(failures(stderr), [Missing::Link("vxlan", "Error: Unknown device type.".into())]);
        assert!(failures("").is_empty());
    }

    #[test]
    fn what_is_missing_is_listed_with_what_to_do() {
        let report = NotReady(vec![
            Missing::Tool("ip", "iproute2"),
            Missing::Link("vxlan", "Unknown device type".into()),
        ])
        .to_string();
        assert!(report.contains("install the package iproute2"), "{report}");
        assert!(report.contains("modprobe vxlan"), "{report}");
    }

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let status = "CapPrm:\t0000000000000000\nCapEff:\t0000000000201000\n";
        assert_eq!(capabilities(status), CAP_NET_ADMIN | CAP_SYS_ADMIN);
        assert_eq!(capabilities("nothing"), 0);
    }
}
