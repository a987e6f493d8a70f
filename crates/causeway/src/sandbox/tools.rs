//! The machine's tools. They often live in folders that only root's PATH names.

use std::path::Path;

use tokio::process::Command;

/// Where a gateway image keeps its tools, and this machine too.
pub(super) const PLACES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The caller's PATH, and beside each `bin` its `sbin`: that is where `ip` and `iptables` live,
/// also for users whose PATH does not say so.
pub(super) fn path() -> String {
    match std::env::var("PATH") {
        Ok(given) => with_sbin(&given),
        Err(_) => PLACES.join(":"),
    }
}

fn with_sbin(given: &str) -> String {
    let siblings = given.split(':').filter_map(|place| place.strip_suffix("/bin"));
    let places = std::iter::once(given.to_owned()).chain(siblings.map(|parent| format!("{parent}/sbin")));
    places.collect::<Vec<_>>().join(":")
}

/// A command that is found in all those places.
pub(super) fn command(tool: &str) -> Command {
    let mut command = Command::new(tool);
    command.env("PATH", path());
    command
}

/// Whether the tool is installed.
pub(super) fn exists(tool: &str) -> bool {
    path().split(':').any(|place| Path::new(place).join(tool).exists())
}

/// What `nsenter` needs besides where this process had to become root in a user namespace of its own.
pub(super) fn user_namespace() -> &'static str {
    // Such a namespace knows one user; whoever started this process may be gone by now.
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_alone = users.split_whitespace().nth(2) == Some("1");
    if is_alone { "-U --preserve-credentials " } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_path_gains_the_folders_of_roots_tools() {
        assert_eq!(with_sbin("/usr/bin:/bin"), "/usr/bin:/bin:/usr/sbin:/sbin");
        assert_eq!(with_sbin("/opt/tools"), "/opt/tools");
    }
}
