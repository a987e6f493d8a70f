//! Clusters as a person's command reaches them: by kubectl's rules, with errors in sentences.
//!
//! [`kubeconfig`] decides which files are read and which contexts are meant, [`Cluster`] is a connection by one of them,
//! and [`trouble`] says in one line what is wrong with it and what to do.

mod kubeconfig;
#[cfg(feature = "diagnose")]
mod list;
mod trouble;

use std::path::{Path, PathBuf};

use causeway_controller::client::connect;
use kube::config::KubeConfigOptions;
use kube::{Client, Config};

use kubeconfig::Kubeconfigs;
#[cfg(feature = "diagnose")]
pub(crate) use list::{Listed, list};
pub(crate) use trouble::Trouble;
#[cfg(feature = "diagnose")]
pub(crate) use trouble::is_nobody_there;
pub(crate) use trouble::plain;

/// Which cluster a command is about.
#[derive(Debug, clap::Args)]
pub(crate) struct OneCluster {
    /// The kubeconfig. Without it kubectl's rules hold: the files that the variable KUBECONFIG lists, merged, else
    /// ~/.kube/config, else the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Its context; without it the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl OneCluster {
    /// A client of it.
    pub(crate) async fn client(&self) -> Result<Client, Trouble> {
        self.reach().await.map(|cluster| cluster.client)
    }

    /// Connects to it.
    pub(crate) async fn reach(&self) -> Result<Cluster, Trouble> {
        let asked: Vec<String> = self.context.iter().cloned().collect();
        let config = match Kubeconfigs::read(self.kubeconfig.as_deref())? {
            None => kubeconfig::of_this_pod(&asked)?,
            Some(files) => {
                let context = match &self.context {
                    Some(context) => files.known(context)?,
                    None => files.current()?,
                };
                files.config(&context).await?
            }
        };
        Cluster::new(config)
    }
}

/// Which clusters a command is about: the first one's tunnels, seen from others' ends too.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Clusters {
    /// The kubeconfig, or several (a,b or repeated) for several clusters. Without it kubectl's rules hold: the files that the
    /// variable KUBECONFIG lists, merged, else ~/.kube/config, else the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Vec<PathBuf>,
    /// Its context, or several (a,b or repeated): the first is the cluster whose tunnels are meant, others are their peers'.
    /// Without it the current one.
    #[arg(long, value_name = "NAME,…")]
    context: Vec<String>,
}

impl Clusters {
    #[cfg(feature = "diagnose")]
    /// Connects to all of them.
    pub(crate) async fn reach(&self) -> Result<Reached, Trouble> {
        reach(&self.kubeconfig, &self.context, false).await
    }

    /// A kubeconfig or context that was given twice, which counts once.
    #[cfg(feature = "diagnose")]
    pub(crate) fn repeated(&self) -> Option<String> {
        let files =
            self.kubeconfig.iter().flat_map(|path| listed_parts(path)).map(|file| file.display().to_string());
        let contexts =
            self.context.iter().flat_map(|text| text.split(',')).map(|name| name.trim().to_owned());
        first_repeated(files).or_else(|| first_repeated(contexts))
    }
}

/// Connects to the clusters of some contexts, or of all; without any to that of the current one. Of several kubeconfigs each
/// has a current one.
pub(crate) async fn reach(asked: &[PathBuf], contexts: &[String], all: bool) -> Result<Reached, Trouble> {
    let files = listed_files(asked);
    match files.as_slice() {
        [] => reach_by(None, contexts, all).await,
        [file] => reach_by(Some(file), contexts, all).await,
        several => reach_several(several, contexts, all).await,
    }
}

async fn reach_several(files: &[PathBuf], contexts: &[String], all: bool) -> Result<Reached, Trouble> {
    if !contexts.is_empty() {
        return Err(Trouble::new(
            "with several --kubeconfig the current context of each is used: leave --context out",
        ));
    }
    let mut reached = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_file = reach_by(Some(file), &[], all).await?;
        reached.extend(of_file.into_iter().map(|(context, cluster)| (context, cluster, name.clone())));
    }
    // Files that were made alike call their clusters alike.
    let names: Vec<Option<String>> = reached.iter().map(|(context, ..)| context.clone()).collect();
    let is_one_of_many = |context: &str| names.iter().flatten().filter(|it| *it == context).count() > 1;
    let told_apart = reached.into_iter().map(|(context, cluster, file)| {
        let context = context.map(|it| if is_one_of_many(&it) { format!("{it} ({file})") } else { it });
        (context, cluster)
    });
    Ok(told_apart.collect())
}

/// What comes a second time.
#[cfg(feature = "diagnose")]
fn first_repeated(mut names: impl Iterator<Item = String>) -> Option<String> {
    let mut before = std::collections::BTreeSet::new();
    names.find(|name| !name.is_empty() && !before.insert(name.clone()))
}

/// Files that were given one by one, or several in one text.
fn listed_files(asked: &[PathBuf]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for file in asked.iter().flat_map(|path| listed_parts(path)) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// The files that a text lists. A name may have a comma of its own.
fn listed_parts(path: &Path) -> Vec<PathBuf> {
    match path.to_str() {
        Some(text) if !path.exists() => {
            text.split(',').filter(|it| !it.is_empty()).map(PathBuf::from).collect()
        }
        _ => vec![path.to_owned()],
    }
}

/// A cluster and the way to it.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// Its API server, for messages.
    pub(crate) server: String,
    pub(crate) client: Client,
}

impl Cluster {
    fn new(config: Config) -> Result<Self, Trouble> {
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        match connect(config) {
            Ok(client) => Ok(Self { server, client }),
            Err(error) => Err(Trouble::of_server(&error, &server)),
        }
    }
}

/// The contexts that were asked for, and the way to each: one that cannot be reached does not hide the others.
pub(crate) type Reached = Vec<(Option<String>, Result<Cluster, Trouble>)>;

async fn reach_by(file: Option<&Path>, asked: &[String], all: bool) -> Result<Reached, Trouble> {
    let Some(files) = Kubeconfigs::read(file)? else {
        return Ok(vec![(None, Cluster::new(kubeconfig::of_this_pod(asked)?))]);
    };
    let contexts = match (all, asked) {
        (true, _) => files.all()?,
        (false, []) => vec![files.current()?],
        (false, asked) => files.chosen(asked)?,
    };
    let mut reached = Reached::new();
    for context in contexts {
        let config = files.config(&context).await;
        let cluster = config.and_then(Cluster::new);
        reached.push((Some(context), cluster));
    }
    Ok(reached)
}

/// The configuration of a server process: a file, else what kubectl would use, else the pod's own account.
pub(crate) async fn config(file: Option<&Path>) -> Result<Config, Trouble> {
    match Kubeconfigs::read(file)? {
        None => kubeconfig::of_this_pod(&[]),
        Some(files) => files.config(&files.current()?).await,
    }
}

fn options(context: &str) -> KubeConfigOptions {
    KubeConfigOptions { context: Some(context.into()), ..KubeConfigOptions::default() }
}
