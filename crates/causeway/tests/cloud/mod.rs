//! An OpenStack of a test's own: Neutron and Keystone as they are released, each a child process on loopback.
//!
//! [`Neutron`] and [`Keystone`] are the servers, which `hack/neutron.sh` provides and `hack/neutron/serve.py` runs. [`Api`]
//! asks them what is there, and makes what a controller would not (a port, so that a network is in use). [`Proxy`]
//! stands between a server and whoever is tested: it keeps a record of every request, and has them fail as it is told.
//!
//! A server takes three seconds to start and 170 MB: tests of one file share one where they can, each with names,
//! tags or a project of its own ([`Api::set_quota`] is per project). A server that is in a `static` is never
//! dropped; it ends by itself when the test's process has ended, and takes its folder along.
#![allow(dead_code, unused_imports, reason = "every test file uses a part of this")]

mod api;
mod keystone;
mod neutron;
mod proxy;
mod server;
mod tls;

pub(crate) use api::{Answer, Api};
pub(crate) use keystone::{Credential, Keystone, User};
pub(crate) use neutron::{Neutron, Settings};
pub(crate) use proxy::{Proxy, Request, Rule};
pub(crate) use server::PATIENCE;
