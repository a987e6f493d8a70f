//! The machine's tools. They often live in folders that only root's PATH names.

use std::path::Path;

use tokio::process::Command;

/// Where a gateway image keeps its tools, and this machine too.
pub(super) const PLACES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The caller's PATH and the usual places behind it.
pub(super) fn path() -> String {
    let mut places: Vec<String> = std::env::var("PATH").into_iter().collect();
    places.extend(PLACES.map(String::from));
    places.join(":")
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
