//! Two clusters on one machine.

mod addresses;
mod apply;
mod echo;
mod exec;
mod faults;
mod kubelet;
mod kubeovn;
mod marks;
mod nat;
mod netns;
mod pod_status;
mod preflight;
mod proof;
mod pty;
mod running;
mod submariner;
mod tools;
mod topology;
mod tunnel;
mod views;
mod vpc;
mod workloads;

#[cfg(test)]
mod topology_tests;
