//! The rules of iptables: source NAT in front of everybody's, and the fitting of segment sizes.

use std::collections::BTreeMap;

use super::super::action::{Action, SourceNat, clamp_spec, shared_clamp_spec};
use super::super::have::NatRule;
use super::super::want::TunnelWant;
use super::Planner;
use crate::names::LinkName;

impl Planner<'_> {
    /// Our source NAT rules stand before every other rule of the active variant, each once; elsewhere there
    /// are none.
    pub(super) fn order_nat(&mut self) {
        let have = self.have;
        let rules = self.whole.iter().map(|(link, tunnel)| (SourceNat::of(link, tunnel), *tunnel));
        let mut missing: BTreeMap<String, (SourceNat, &TunnelWant)> =
            rules.map(|(rule, tunnel)| (rule.to_string(), (rule, tunnel))).collect();
        for (variant, rules) in &have.nat.postrouting {
            let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
            for spec in rules.iter().filter_map(NatRule::our_spec) {
                *copies.entry(spec).or_default() += 1;
            }
            let mut in_front = *variant == have.nat.active;
            for rule in rules {
                let Some(spec) = rule.our_spec() else {
                    in_front = false;
                    continue;
                };
                if rule.owner().is_some_and(|owner| self.index.is_frozen_owner(owner)) {
                    continue;
                }
                // A rule is removed by its text, which removes the first copy: so of copies none stays.
                let stays = in_front && copies.get(spec) == Some(&1) && missing.remove(spec).is_some();
                if !stays {
                    self.push(rule.owner(), Action::NatDel { variant: *variant, spec: spec.into() });
                }
            }
        }
        for (rule, tunnel) in missing.into_values() {
            self.push(Some(&tunnel.owner), Action::NatInsert { variant: have.nat.active, rule });
            self.missed.insert(&tunnel.owner);
        }
    }

    /// One segment size rule for all tunnels in the active variant, or one for each where the gateway has
    /// refused that; each once, and where it stands makes no difference. Put before drop.
    pub(super) fn fit_segments(&mut self) {
        let have = self.have;
        let (each, one) = if self.refused.shared_clamp {
            (self.whole.clone(), false)
        } else {
            (Vec::new(), !self.whole.is_empty())
        };
        let mut missing: BTreeMap<String, &(&LinkName, &TunnelWant)> =
            each.iter().map(|tunnel| (clamp_spec(&tunnel.1.owner, tunnel.0.as_str()), tunnel)).collect();
        // A frozen tunnel may live by the one for all.
        let mut keeps_one = one || (self.index.any_frozen() && !self.refused.shared_clamp);
        let mut lacks_one = one;
        let mut stale = Vec::new();
        for (variant, rules) in &have.nat.forward {
            for rule in rules {
                let Some(spec) = rule.our_spec() else { continue };
                let active = *variant == have.nat.active;
                let stays = match rule.owner() {
                    None if active && keeps_one && spec == shared_clamp_spec() => {
                        (keeps_one, lacks_one) = (false, false);
                        true
                    }
                    None => false,
                    Some(_) if active && missing.remove(spec).is_some() => true,
                    Some(owner) => self.index.is_frozen_owner(owner),
                };
                if !stays {
                    let del = Action::ClampDel { variant: *variant, spec: spec.into() };
                    stale.push((rule.owner().cloned(), del));
                }
            }
        }
        if lacks_one {
            self.push(None, Action::ClampAll { variant: have.nat.active });
        }
        for (link, tunnel) in missing.into_values() {
            let (variant, owner) = (have.nat.active, tunnel.owner.clone());
            self.push(Some(&tunnel.owner), Action::ClampInsert { variant, owner, link: (*link).clone() });
        }
        for (owner, del) in stale {
            self.push(owner.as_ref(), del);
        }
    }
}
