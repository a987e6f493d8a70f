//! Real packets through tunnels that the command datapath made.

mod lab;

use causeway_core::vpc::{Variant, Want};
use lab::want::{VXLAN, demo};
use lab::{Lab, ready};

const BOTH: [Variant; 2] = [Variant::Legacy, Variant::Nft];

/// Both gateways with the demo tunnel.
async fn joined(variant: Variant) -> Lab {
    let lab = Lab::new(variant);
    for side in 0..2 {
        lab.converge(side, &demo(side as u8, VXLAN)).await;
    }
    lab
}

#[tokio::test]
async fn packets_cross_with_a_source_of_the_egress_range() {
    if !ready() {
        return;
    }
    for variant in BOTH {
        let lab = Lab::new(variant);
        assert_eq!(lab.source_seen(0), None, "nothing crosses before");
        drop(lab);
        let lab = joined(variant).await;
        lab.assert_crosses();
    }
}

#[tokio::test]
async fn tearing_down_leaves_the_gateway_as_it_was() {
    if !ready() {
        return;
    }
    for variant in BOTH {
        let lab = Lab::new(variant);
        let before = lab.gateways[0].listing();
        lab.converge(0, &demo(0, VXLAN)).await;
        assert_ne!(lab.gateways[0].listing(), before);
        let (_, have) = lab.converge(0, &Want::default()).await;
        assert!(!have.holding().anything);
        assert_eq!(lab.gateways[0].listing(), before);
    }
}
