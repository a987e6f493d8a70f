//! What the CNI plugin reads.

use std::fmt::Write as _;

use causeway_core::Family;
use causeway_core::leases::{Announcement, Lease, Network};

/// What a node tells its CNI plugin, as `subnet.env` has it. A node's part is said by the first address in it, which is
/// that of its bridge. `ip_masq` says that the plugin need not hide pods' addresses from the outside.
pub fn subnet_env(announcement: &Announcement, ip_masq: bool) -> String {
    let mut text = String::new();
    for (Network { range: network, .. }, Lease { subnet, .. }) in &announcement.leases {
        let family = if network.family() == Family::V4 { "" } else { "IPV6_" };
        let _ = writeln!(text, "FLANNEL_{family}NETWORK={network}");
        let _ = writeln!(text, "FLANNEL_{family}SUBNET={}/{}", subnet.second(), subnet.prefix());
    }
    let _ = writeln!(text, "FLANNEL_MTU={}", announcement.mtu);
    let _ = writeln!(text, "FLANNEL_IPMASQ={ip_masq}");
    text
}

#[cfg(test)]
mod tests {
    use causeway_core::leases::{Backend, Mode};

    use super::*;

    #[test]
    fn it_is_what_flannel_writes() {
        let lease = |network: &str, subnet: &str, public: &str| {
            let lease = Lease {
                subnet: subnet.parse().expect("a range"),
                public: public.parse().expect("an address"),
                backend: Backend::HostGw,
            };
            (Network { range: network.parse().expect("a range"), mode: Mode::HostGw }, lease)
        };
        let leases = vec![
            lease("10.244.0.0/16", "10.244.3.0/24", "192.168.7.3"),
            lease("fd00:10:244::/56", "fd00:10:244:3::/64", "fd00::3"),
        ];
        let text = subnet_env(&Announcement { leases, mtu: 1450 }, true);
        let expected = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\n\
                        FLANNEL_IPV6_NETWORK=fd00:10:244::/56\nFLANNEL_IPV6_SUBNET=fd00:10:244:3::1/64\n\
                        FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
        assert_eq!(text, expected);
    }
}
