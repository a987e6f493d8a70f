//! Settings of the network namespace that this thread is in.

use std::io;

use causeway_core::Family;

/// The setting that says whether packets of a family are forwarded.
pub fn forwarding(family: Family) -> &'static str {
    match family {
        Family::V4 => "net.ipv4.ip_forward",
        Family::V6 => "net.ipv6.conf.all.forwarding",
    }
}

/// Whether they are.
pub fn forwards(family: Family) -> bool {
    std::fs::read_to_string(file(forwarding(family))).is_ok_and(|text| text.trim() != "0")
}

/// Has them forwarded.
pub fn forward(family: Family) -> io::Result<()> {
    std::fs::write(file(forwarding(family)), "1")
}

/// What a bridge of ours needs, as far as it can be set: an address that goes takes no other one along, nobody asks there for
/// an address of another link, and no host can have the machine take it for a router.
pub fn of_bridge(name: &str) {
    for (family, setting, value) in [
        ("ipv4", "promote_secondaries", "1"),
        ("ipv4", "arp_ignore", "1"),
        ("ipv6", "accept_ra", "0"),
        ("ipv6", "autoconf", "0"),
    ] {
        // A container may not be allowed to, and a kernel may have no IPv6: all goes on without it.
        let _ = std::fs::write(format!("/proc/sys/net/{family}/conf/{name}/{setting}"), value);
    }
}

fn file(setting: &str) -> String {
    format!("/proc/sys/{}", setting.replace('.', "/"))
}
