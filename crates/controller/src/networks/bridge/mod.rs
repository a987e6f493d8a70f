//! The provider `bridge`: on a machine without a cloud a network is a Linux bridge with the gateway's address on it.
//!
//! ```text
//! a step ─▶ links and addresses are changed ─▶ all links are listed ─▶ the rules that follow from them are written
//! a look ─▶ all links are listed, and the rules ─▶ what is there, and what of it is not in order
//! ```
//!
//! Hosts are attached as ports. Those of one network reach each other and their gateway, not those of another network nor
//! its gateway ([`table`](causeway_datapath::networks::table)). With [`Options::nat`] they also reach whatever this machine
//! reaches, under its address. Where the machine's own rules drop what is forwarded, as Docker's do, that needs a rule
//! there: what another table drops, none of ours can let through.
//!
//! How things are named:
//!
//! - A network's id is the name of its bridge, which follows from the uid of its object; its tags are the words of the
//!   bridge's alias, its first mark is the bridge's group. It has no name of its own.
//! - A subnet's id is its range. The kernel keeps no marks of addresses that could be relied on, so all that is on a
//!   bridge is as much ours as the bridge is.

mod held;
mod steps;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use causeway_core::Cidr;
use causeway_core::networks::{Held, Home, Look, Seen, Step, Trouble};
use causeway_datapath::networks::{Kernel, namespace};
use tokio::sync::Mutex;

use super::provider::NetworkProvider;
use steps::Site;

/// How it works.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The network namespace to work in, like `/run/netns/demo`; without one that of this process.
    pub namespace: Option<PathBuf>,
    /// Whether hosts reach what is outside, under this machine's address. It forwards packets then.
    pub nat: bool,
    /// The ranges that networks may lie in: whoever declares one takes its addresses from everybody on this machine.
    pub within: Vec<Cidr>,
}

/// Networks as bridges.
#[derive(Debug, Clone)]
pub struct Bridge {
    options: Options,
    /// One at a time: what one changes another must not see half done, and would take for somebody's doing.
    busy: Arc<Mutex<()>>,
}

impl Bridge {
    /// Without touching anything.
    pub fn new(options: Options) -> Self {
        Self { options, busy: Arc::default() }
    }

    /// Has something done in the network namespace, off the threads that others' work runs on.
    async fn at_site<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Site) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let busy = self.busy.clone().lock_owned().await;
        let options = self.options.clone();
        let done = tokio::task::spawn_blocking(move || {
            // Whoever asked may not wait any more; the next one still does.
            let _busy = busy;
            let namespace = options.namespace.clone();
            let work = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let (runtime, kernel) = (runtime.map_err(unknown)?, Kernel::open().map_err(unknown)?);
                // Another process may work here as well: both would write the rules of what they saw.
                let _alone = namespace::alone().map_err(unknown)?;
                runtime.block_on(work(&mut Site { kernel, nat: options.nat, within: options.within.clone() }))
            };
            let entered = namespace::inside(namespace.as_deref(), work);
            entered.unwrap_or_else(|error| Err(not_entered(&options, &error)))
        });
        done.await.unwrap_or_else(|error| Err(Trouble::unreachable(error.to_string())))
    }
}

impl NetworkProvider for Bridge {
    const NAME: &'static str = "bridge";

    async fn look(&self, home: &Home, look: &Look) -> Result<Vec<Held>, Trouble> {
        let (home, look) = (home.clone(), look.clone());
        self.at_site(async move |site: &mut Site| site.look(&home, &look).await).await
    }

    async fn apply(&self, step: &Step) -> Result<Seen, Trouble> {
        let step = step.clone();
        self.at_site(async move |site: &mut Site| site.apply(&step).await).await
    }
}

fn not_entered(options: &Options, error: &io::Error) -> Trouble {
    let Some(path) = &options.namespace else { return Trouble::unreachable(error.to_string()) };
    let why = format!("network namespace {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Trouble::Forbidden(format!("{why}; to enter it this process needs CAP_SYS_ADMIN"))
        }
        _ => Trouble::unreachable(why),
    }
}

fn unknown(error: io::Error) -> Trouble {
    Trouble::unreachable(error.to_string())
}
