//! What the CNI plugin reads.

use std::fmt::Write as _;

use causeway_core::{Cidr, Family};

/// What a node tells its CNI plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The network and this node's part of it, for each family.
    pub leases: Vec<(Cidr, Cidr)>,
    /// The largest packet of its pods.
    pub mtu: u32,
    /// Whether somebody else hides their addresses from the outside.
    pub ip_masq: bool,
}

/// As `subnet.env` has it. A node's part is said by the first address in it, which is that of its bridge.
pub fn subnet_env(environment: &Environment) -> String {
    let mut text = String::new();
    for (network, subnet) in &environment.leases {
        let family = if network.family() == Family::V4 { "" } else { "IPV6_" };
        let _ = writeln!(text, "FLANNEL_{family}NETWORK={network}");
        let _ = writeln!(text, "FLANNEL_{family}SUBNET={}/{}", subnet.second(), subnet.prefix());
    }
    let _ = writeln!(text, "FLANNEL_MTU={}", environment.mtu);
    let _ = writeln!(text, "FLANNEL_IPMASQ={}", environment.ip_masq);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_flannel_writes() {
        let range = |text: &str| text.parse::<Cidr>().expect("a range");
        let leases = vec![
            (range("10.244.0.0/16"), range("10.244.3.0/24")),
            (range("fd00:10:244::/56"), range("fd00:10:244:3::/64")),
        ];
        let text = subnet_env(&Environment { leases, mtu: 1450, ip_masq: true });
        let expected = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\n\
                        FLANNEL_IPV6_NETWORK=fd00:10:244::/56\nFLANNEL_IPV6_SUBNET=fd00:10:244:3::1/64\n\
                        FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
        assert_eq!(text, expected);
    }
}
