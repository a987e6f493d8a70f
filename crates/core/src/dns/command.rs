//! A route in the shell command of the init container `init-route`.
//!
//! kube-ovn's own commands are a row of `ip … route add …;`, and ours goes to the end of the row, as people know it. Any other
//! script gets it in front: there it is a command whatever follows, while at the end a comment, an open `if` or an `exit`
//! could swallow it.

use std::net::Ipv4Addr;

use super::route::{Route, Splice};

/// The link of the default network in the DNS server's pods.
pub const LINK: &str = "net1";

/// A route that a script puts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Through whom, as it says.
    pub via: Option<String>,
    /// By which link.
    pub dev: Option<String>,
}

impl Found {
    /// Whether it leads where ours would.
    pub fn is(&self, route: Route) -> bool {
        self.via.as_deref() == Some(&route.via.to_string())
            && self.dev.as_deref().is_none_or(|dev| dev == LINK)
    }
}

/// The command that puts a route.
pub fn statement(route: Route) -> String {
    format!("ip -4 route add {} via {} dev {LINK};", route.to, route.via)
}

/// The script with the route.
pub fn put(script: &str, route: Route) -> Splice {
    let added = statement(route);
    if is_row(script) {
        Splice { before: script.into(), added, after: String::new() }
    } else {
        Splice { before: String::new(), added, after: script.into() }
    }
}

/// The script without what was put there; nothing where that does not stand there any more.
pub fn take(script: &str, splice: &Splice) -> Option<String> {
    let at = splice.find(script)?;
    let mut rest = script.to_owned();
    rest.replace_range(at..at + splice.added.len(), "");
    Some(rest)
}

/// Whether a script is a row of plain commands of `ip`, each with its semicolon.
fn is_row(script: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " \t\n./:_${}-".contains(c);
    let mut statements = script.split(';').map(str::trim);
    let last = statements.next_back().unwrap_or_default();
    last.is_empty()
        && statements.all(|it| it.starts_with("ip ") && it.chars().all(plain) && !it.contains('\n'))
}

/// The first route to an address that a script puts, in whichever spelling: the kernel has room for one of them, and a
/// second `ip route add` would fail, and the pod with it.
pub fn find(script: &str, to: Ipv4Addr) -> Option<Found> {
    let lines = script.lines().map(|line| line.split(" #").next().unwrap_or_default());
    let lines = lines.filter(|line| !line.trim_start().starts_with('#'));
    let statements = lines.flat_map(|line| line.split([';', '&', '|', '(', ')', '{', '}', '`']));
    statements.filter_map(|it| route_of(it, to)).next()
}

/// The route that a statement puts, if it is one to this address.
fn route_of(statement: &str, to: Ipv4Addr) -> Option<Found> {
    let words = statement.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    let words: Vec<&str> = words.collect();
    let ip = words.iter().position(|word| *word == "ip" || word.ends_with("/ip"))?;
    let mut words = words.into_iter().skip(ip + 1).skip_while(|word| word.starts_with('-'));
    let object = words.next()?;
    let verb = words.next()?;
    let is_route = !object.is_empty() && "route".starts_with(object);
    let puts = ["add", "append", "prepend", "replace", "change"].iter().any(|it| it.starts_with(verb));
    if !is_route || !puts || verb.is_empty() {
        return None;
    }
    let rest: Vec<&str> = words.filter(|word| !["to", "unicast"].contains(word)).collect();
    let target = rest.first()?.strip_suffix("/32").unwrap_or(rest[0]);
    if target.parse() != Ok(to) {
        return None;
    }
    let after = |name: &str| {
        let at = rest.iter().position(|word| *word == name)?;
        rest.get(at + 1).map(|word| (*word).to_owned())
    };
    Some(Found { via: after("via"), dev: after("dev") })
}
