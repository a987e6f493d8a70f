//! Who would take a tunnel by VPC over, and what keeps them from it: packets do not end there, and it is told beside.

use causeway_core::vpc::objects::Ends;

use super::facts::End;
use super::site::Site;

/// What should be known of the gateways behind a tunnel, beside its way.
pub(super) async fn notes(site: &Site, end: &End) -> Vec<String> {
    let Ok(Ends::ByVpc { local, .. }) = end.tunnel.spec.as_ref().map(|spec| &spec.ends) else {
        return Vec::new();
    };
    // Of all tunnels of the VPC the same is true, and said once.
    let place = &end.cluster;
    let known = site.seen.state.overview(local);
    let mut notes = Vec::new();
    if known.hands_off {
        notes.push(format!("{place}: kube-ovn itself fails over in VPC {local}; its routes are left to it"));
    }
    let role = end.role.as_ref();
    match role.map(|role| (&role.main, role.standbys.as_slice())) {
        Some((main, [])) => notes.push(format!(
            "{place}: no other gateway of VPC {local} is ready to take over if {main} is lost{}",
            others(&known, main)
        )),
        Some((_, standbys)) => {
            for standby in standbys {
                if let Some(missing) = site.lacking(&end.tunnel, standby).await {
                    notes.push(format!(
                        "{place}: {standby} would take over, and does not hold all of {} yet: {missing}",
                        end.tunnel.key
                    ));
                }
            }
        }
        None => {}
    }
    for moving in &known.moving {
        notes.push(format!(
            "{place}: routes of VPC {local} that lead to {} are still to be moved",
            moving.from
        ));
    }
    notes.extend(known.stayed.as_ref().map(|stayed| format!("{place}: {}", stayed.sentence(local))));
    notes
}

/// Why each of the others cannot.
fn others(known: &causeway_core::vpc::overview::Overview, main: &causeway_core::GatewayName) -> String {
    let unfit = known.gateways.iter().filter(|it| it.name != *main).filter_map(|it| it.unfit.clone());
    match unfit.collect::<Vec<_>>().join("; ") {
        why if why.is_empty() => String::new(),
        why => format!(": {why}"),
    }
}
