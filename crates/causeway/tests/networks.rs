//! Networks from object to cloud: the controller as a process, between an embedded API server and a real Neutron.
#![cfg(feature = "sandbox")]

mod cloud;
#[path = "networks/controller.rs"]
mod controller;
#[path = "networks/crashes.rs"]
mod crashes;
#[path = "networks/drift.rs"]
mod drift;
#[path = "networks/life.rs"]
mod life;
#[path = "networks/outages.rs"]
mod outages;
#[path = "networks/refusals.rs"]
mod refusals;
#[path = "networks/site.rs"]
mod site;
