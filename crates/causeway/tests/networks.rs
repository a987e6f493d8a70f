//! Networks from object to cloud: the controller as a process, between an embedded API server and a real Neutron.
#![cfg(feature = "sandbox")]

mod cloud;
#[path = "networks/clusters.rs"]
mod clusters;
#[path = "networks/controller.rs"]
mod controller;
#[path = "networks/crashes.rs"]
mod crashes;
#[path = "networks/drift.rs"]
mod drift;
#[path = "networks/input.rs"]
mod input;
#[path = "networks/keystone.rs"]
mod keystone;
#[path = "networks/life.rs"]
mod life;
#[path = "networks/outages.rs"]
mod outages;
#[path = "networks/quiet.rs"]
mod quiet;
#[path = "networks/refusals.rs"]
mod refusals;
#[path = "networks/site.rs"]
mod site;
