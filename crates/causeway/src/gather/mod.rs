//! `causeway gather`: everything that a stranger needs to help, in one archive, secrets left out.
//!
//! [`collect`] fetches, [`scrub`] leaves secrets out before anything is written, [`archive`] writes. What may not be read is
//! noted in the archive and on stderr, and ends nothing.

mod archive;
mod collect;
mod scrub;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use jiff::Timestamp;

use crate::clusters::{Clusters, Reached, plain};
use crate::table::print;
use crate::{diagnose, status};
use archive::{Archive, file_name};
use collect::Collector;

const ABOUT: &str = "\
Gathered by `causeway gather`, for whoever helps. A folder for each cluster:

versions.json   of Causeway and of the API server
objects/        objects of Causeway, kube-ovn and Submariner, gateways, the controller, events
gateways/       what each gateway's network holds
logs/, metrics/ of the controller

status.json and diagnose.json are what `causeway status -o json` and `causeway diagnose -o json` say.

Left out: Secrets, tokens, passwords, keys, values of environment variables, annotations of others, managedFields and what
kubectl applied last; REDACTED stands for what was there. Names, addresses and logs are in it: look through it before you
pass it on.
";

/// Gather everything that a stranger needs to help.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    clusters: Clusters,
    /// The archive; without it causeway-TIME.tar.gz in the present folder. One that is there is not overwritten.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Where the controller runs.
    #[arg(long, value_name = "NAMESPACE", default_value = "multi-vpc-system")]
    controller_namespace: String,
    /// The longest that one request or command may take, in seconds. A cluster that is silent for so long is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=30))]
    timeout: u64,
}

/// Something could not be had, or the archive could not be written.
const INCOMPLETE: u8 = 2;

/// Exits with 0 if all could be read, and with 2 if not; then the archive, if it could be made, holds what could.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let reached = match args.clusters.reach().await {
        Ok(reached) => reached,
        Err(trouble) => {
            writeln!(io::stderr(), "error: {trouble}")?;
            return Ok(INCOMPLETE.into());
        }
    };
    let now = Timestamp::now();
    let name = format!("causeway-{}", now.strftime("%Y%m%d-%H%M%S"));
    let path = args.file.clone().unwrap_or_else(|| format!("{name}.tar.gz").into());
    let missed = match gather(&args, reached, &path, &name, now).await {
        Ok(missed) => missed,
        Err(error) => {
            writeln!(io::stderr(), "error: {error:#}")?;
            return Ok(INCOMPLETE.into());
        }
    };
    for line in &missed {
        writeln!(io::stderr(), "not gathered: {line}")?;
    }
    print(&format!("{}\n", path.display()))?;
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { INCOMPLETE.into() })
}

async fn gather(
    args: &Args,
    reached: Reached,
    path: &Path,
    name: &str,
    now: Timestamp,
) -> anyhow::Result<Vec<String>> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file =
        file.map_err(|error| anyhow!("cannot make the archive {}: {}", path.display(), plain(&error)))?;
    let mut archive = Archive::new(file, name, u64::try_from(now.as_second()).unwrap_or_default());
    let mut missed = Vec::new();
    archive.add("README.txt", ABOUT.as_bytes())?;
    let (mut answered, mut given_up) = (Reached::new(), Reached::new());
    let mut folders: Vec<String> = Vec::new();
    for (number, (context, cluster)) in reached.into_iter().enumerate() {
        let folder = file_name(context.as_deref().unwrap_or("cluster"));
        // Two contexts may become one name.
        let folder = if folders.contains(&folder) { format!("{folder}-{number}") } else { folder };
        folders.push(folder.clone());
        let cluster = match cluster {
            Ok(cluster) => cluster,
            Err(trouble) => {
                missed.push(scrub::text(&format!("{folder}: {trouble}")));
                given_up.push((context, Err(trouble)));
                continue;
            }
        };
        let (limit, namespace) = (Duration::from_secs(args.timeout), args.controller_namespace.as_str());
        let mut collector = Collector {
            archive: &mut archive,
            cluster: cluster.clone(),
            limit,
            folder,
            namespace,
            missed: &mut missed,
        };
        match collector.collect().await? {
            None => answered.push((context, Ok(cluster))),
            Some(trouble) => given_up.push((context, Err(trouble))),
        }
    }
    // Those that were given up are not waited for again, and come last: tunnels are walked from the first.
    let again = || -> Reached { answered.iter().chain(&given_up).cloned().collect() };
    let documents = [
        ("status.json", status::document(again()).await?),
        ("diagnose.json", diagnose::document(again()).await?),
    ];
    for (file, mut document) in documents {
        scrub::object(&mut document);
        archive.add(file, format!("{document:#}\n").as_bytes())?;
    }
    let note = missed.iter().fold(String::new(), |all, line| all + line + "\n");
    archive.add("NOT_GATHERED.txt", note.as_bytes())?;
    let file = archive.finish()?;
    file.sync_all()?;
    Ok(missed)
}
