//! One member of the exchange publishes 10,000 records; how long another member's new record takes meanwhile.
//!
//! ```text
//!  flood (10,000 records) ─┐
//!                          ├▶ broker (this process) ─▶ `causeway controller` (a child) ─▶ records in the cluster
//!  calm (one at a time) ───┘
//! ```
//!
//! Once with the usual limit of records per member, and once without any that matters, so that only the turns that
//! members take are left to help.

use std::convert::Infallible;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_api::vpc::GatewayExIp;
use causeway_apiserver::{Config, Server};
use causeway_core::vpc::shares::RECORDS_PER_MEMBER;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::apply;
use crate::cluster::Cluster;
use crate::controller::Controller;
use crate::exec::GatewayExec;
use crate::gateways::Gateways;
use crate::objects::{self, SYSTEM};
use crate::shape::Shape;
use crate::table::{Grid, met, middle, seconds, sizes};

/// Where the members meet.
const MEETING: &str = "submariner-k8s-broker";
/// Writes of the flood under way at once.
const HANDS: usize = 32;
/// Records of the calm member before the flood.
const ALONE: usize = 20;
const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(2);
const AIM: Duration = Duration::from_secs(2);

struct Row {
    size: usize,
    limit: usize,
    /// Until the flood was written.
    written: Duration,
    /// Until what is brought of it was here.
    brought: Duration,
    /// How long the calm member's records took, each, before the flood and during it.
    alone: Vec<Duration>,
    during: Vec<Duration>,
    cpu: Duration,
    peak_mib: f64,
}

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for size in sizes([10_000])? {
        for limit in [RECORDS_PER_MEMBER, size] {
            rows.push(measure(size, limit).await.with_context(|| format!("{size} records, limit {limit}"))?);
        }
    }
    print(&rows)
}

/// A broker in this process and the records at it; those that the controller brings here.
struct Site {
    _broker: Server,
    at_broker: Api<GatewayExIp>,
    here: Api<GatewayExIp>,
}

impl Site {
    async fn start(cluster: &Cluster, kubeconfig: &Path) -> anyhow::Result<Site> {
        let broker =
            Server::start(Config { name: "broker".into(), history: 100_000, ..Config::default() }).await?;
        broker.write_kubeconfig(kubeconfig)?;
        let client = Client::new(broker.router(), "default");
        apply::crds(&client, causeway_api::vpc::crds()).await?;
        apply::one(&client, objects::namespace(MEETING)).await?;
        let here = Api::namespaced(cluster.client(), SYSTEM);
        Ok(Site { _broker: broker, at_broker: Api::namespaced(client, MEETING), here })
    }

    /// Publishes a gateway, as its cluster would.
    async fn publish(&self, member: &str, number: usize) -> anyhow::Result<()> {
        let record = json!({
            "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp",
            "metadata": {
                "name": format!("gw{number:05}.{member}"), "namespace": MEETING,
                "labels": {
                    "localGateway": format!("gw{number:05}"), "localCluster": member,
                    "submariner-io/clusterID": member, "submariner-io/originatingNamespace": SYSTEM,
                },
            },
            "spec": {"externalip": "172.50.16.99", "globalnetcidr": "242.99.0.0/16"},
        });
        self.at_broker.create(&PostParams::default(), &serde_json::from_value(record)?).await?;
        Ok(())
    }

    /// How long a new record of the calm member takes from the broker to here.
    async fn one(&self, number: usize) -> anyhow::Result<Duration> {
        let start = Instant::now();
        self.publish("calm", number).await?;
        while self.here.get_opt(&format!("gw{number:05}-calm")).await?.is_none() {
            ensure!(start.elapsed() < PATIENCE, "the calm member's record {number} never came");
            sleep(POLL).await;
        }
        Ok(start.elapsed())
    }

    /// Publishes one of the calm member's records after another.
    async fn go_on(&self, took: &mut Vec<Duration>) -> anyhow::Result<Infallible> {
        loop {
            sleep(Duration::from_millis(50)).await;
            took.push(self.one(ALONE + took.len()).await?);
        }
    }

    async fn flood(&self, size: usize) -> anyhow::Result<()> {
        let all = stream::iter(0..size).map(Ok);
        all.try_for_each_concurrent(HANDS, |number| self.publish("flood", number)).await
    }

    /// Waits until so many of the flood's records are here.
    async fn holds(&self, many: usize) -> anyhow::Result<()> {
        let floods = ListParams::default().labels("localCluster=flood");
        while self.here.list_metadata(&floods).await?.items.len() < many {
            sleep(Duration::from_millis(250)).await;
        }
        Ok(())
    }
}

async fn measure(size: usize, limit: usize) -> anyhow::Result<Row> {
    let gateways = Arc::new(Gateways::create(1)?);
    let exec = Arc::new(GatewayExec::new(gateways.clone()));
    let cluster = Cluster::start(exec, gateways.folder(), Shape { gateways: 1, peers: 1 }).await?;
    let kubeconfig = gateways.folder().join("broker.kubeconfig");
    let site = Site::start(&cluster, &kubeconfig).await?;
    let most = limit.to_string();
    let flags = ["--records-per-member", &most];
    let controller = Controller::start_with(&cluster, gateways.folder(), Some(&kubeconfig), &flags)?;
    timeout(PATIENCE, cluster.published()).await.context("the gateway's record")??;
    let mut alone = Vec::new();
    for number in 0..ALONE {
        alone.push(site.one(number).await?);
    }

    let (cpu, start) = (controller.cpu()?, Instant::now());
    let flood = async {
        site.flood(size).await?;
        let written = start.elapsed();
        timeout(PATIENCE, site.holds(limit.min(size))).await.context("the flood's records")??;
        anyhow::Ok((written, start.elapsed()))
    };
    let mut during = Vec::new();
    let (written, brought) = tokio::select! {
        times = flood => times?,
        never = site.go_on(&mut during) => match never? {},
    };
    let (cpu, peak_mib) = (controller.cpu()? - cpu, controller.peak_mib()?);
    controller.end().await?;
    cluster.end().await?;
    Ok(Row { size, limit, written, brought, alone, during, cpu, peak_mib })
}

fn print(rows: &[Row]) -> anyhow::Result<()> {
    let mut grid = Grid::new([
        "RECORDS",
        "LIMIT",
        "WRITTEN s",
        "BROUGHT s",
        "ANOTHER'S, ALONE p50 s",
        "MEANWHILE p50 s",
        "WORST s",
        "OF",
        "CPU s",
        "PEAK MiB",
    ]);
    let worst = |row: &Row| row.during.iter().max().copied().unwrap_or_default();
    let fine = |duration: Duration| format!("{:.3}", duration.as_secs_f64());
    for row in rows {
        grid.row([
            row.size.to_string(),
            row.limit.to_string(),
            seconds(row.written),
            seconds(row.brought),
            fine(middle(&row.alone)),
            fine(middle(&row.during)),
            fine(worst(row)),
            row.during.len().to_string(),
            seconds(row.cpu),
            format!("{:.0}", row.peak_mib),
        ]);
    }
    grid.print("One member publishes many records at once, and another one record at a time")?;
    let kept = rows.iter().all(|row| worst(row) < AIM);
    writeln!(std::io::stdout().lock(), "each of another's within {} s: {}", AIM.as_secs(), met(kept))?;
    Ok(())
}
