//! What records are called, here and at the broker.
//!
//! Other operators rely on `<gateway>-<cluster id>` here and on `<gateway>.<cluster id>` at the broker. But names may
//! hold dashes and dots: `gw1` of `a-b` and `gw1-a` of `b` would share one. So what distinguishes them is doubled or
//! spelt out, where there is such a thing, and no two members' records ever have the same name:
//!
//! - a record of our own is `<gateway>-<cluster id>`;
//! - one that was brought here is so too, with the dashes of the gateway's name doubled: the first single dash ends it.
//!   Where another cluster's id ends with a dash and ours, the dashes of that id are doubled as well, since
//!   `gw` of `prod-eu` would have the name of our own `gw-prod` in `eu`;
//! - a copy at the broker is `<gateway>.<cluster id>`, with `-dot-` for a dot of the gateway's name: the first dot ends
//!   it;
//! - a VPC's record is `<vpc>.<cluster id>`, here and at the broker; one that was brought here has the dashes of the id
//!   doubled, and three of them for a dot.

use super::objects::Peer;
use crate::names::ClusterId;

/// What a record that was brought here is called in the cluster `own`.
pub fn home_name(own: Option<&ClusterId>, peer: &Peer) -> String {
    let (gateway, cluster) = (doubled(peer.gateway.as_str()), peer.cluster.as_str());
    let ends_like_ours = |own: &ClusterId| {
        cluster.strip_suffix(own.as_str()).is_some_and(|beginning| beginning.ends_with('-'))
    };
    if own.is_some_and(ends_like_ours) {
        format!("{gateway}-{}", doubled(cluster))
    } else {
        format!("{gateway}-{cluster}")
    }
}

/// What a gateway's copy at the broker is called.
pub fn copy_name(peer: &Peer) -> String {
    format!("{}.{}", peer.gateway.as_str().replace('.', "-dot-"), peer.cluster)
}

/// What the record of a VPC is called where it is made, and its copy at the broker.
pub fn vpc_name(vpc: &str, cluster: &ClusterId) -> String {
    format!("{vpc}.{cluster}")
}

/// What the record of another cluster's VPC is called here.
pub fn vpc_home_name(vpc: &str, cluster: &ClusterId) -> String {
    format!("{vpc}.{}", doubled(cluster.as_str()).replace('.', "---"))
}

/// Whether a record here may be called so and be about this gateway: under whatever name it was ever brought.
pub(super) fn is_named_after(name: &str, peer: &Peer) -> bool {
    let (gateway, cluster) = (peer.gateway.as_str(), peer.cluster.as_str());
    let follows = |gateway: &str| name.strip_prefix(gateway).and_then(|rest| rest.strip_prefix('-'));
    follows(gateway) == Some(cluster)
        || follows(&doubled(gateway)).is_some_and(|rest| rest == cluster || rest == doubled(cluster))
}

fn doubled(name: &str) -> String {
    name.replace('-', "--")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::names::ObjectKey;

    fn peer(gateway: &str, cluster: &str) -> Peer {
        Peer { gateway: gateway.parse().expect("a name"), cluster: cluster.parse().expect("an id") }
    }

    #[test]
    fn names_are_those_that_others_rely_on_wherever_they_are_clear() {
        let own: ClusterId = "eu".parse().expect("an id");
        for (gateway, cluster, home, copy) in [
            ("gw1", "cluster2", "gw1-cluster2", "gw1.cluster2"),
            ("gw1", "a-b", "gw1-a-b", "gw1.a-b"),
            ("gw1-a", "b", "gw1--a-b", "gw1-a.b"),
            ("gw", "prod-eu", "gw-prod--eu", "gw.prod-eu"),
            ("gw.1", "b", "gw.1-b", "gw-dot-1.b"),
        ] {
            let peer = peer(gateway, cluster);
            assert_eq!(home_name(Some(&own), &peer), home);
            assert_eq!(copy_name(&peer), copy);
            assert!(is_named_after(home, &peer) && is_named_after(&format!("{gateway}-{cluster}"), &peer));
        }
        assert!(!is_named_after("gw1-a-b", &peer("gw1", "b")));
    }

    /// Of few letters, so that names collide wherever they can.
    const NAME: &str = "[ab]([-.ab]{0,5}[ab])?";

    fn any_peer() -> impl Strategy<Value = Peer> {
        (NAME, NAME).prop_map(|(gateway, cluster)| peer(&gateway, &cluster))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

        #[test]
        fn no_two_gateways_share_a_name_here(own in NAME, one in any_peer(), other in any_peer()) {
            let own: ClusterId = own.parse().expect("an id");
            let name = |peer: &Peer| {
                if peer.cluster == own {
                    ObjectKey::of_record("kube-system", &peer.gateway, &own).name().to_owned()
                } else {
                    home_name(Some(&own), peer)
                }
            };
            prop_assert_eq!(name(&one) == name(&other), one == other, "{} {}", name(&one), name(&other));
        }

        #[test]
        fn no_two_clusters_share_a_name_at_the_broker(one in any_peer(), other in any_peer()) {
            prop_assert!(copy_name(&one) != copy_name(&other) || one.cluster == other.cluster);
        }
    }
}
