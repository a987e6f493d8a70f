//! What a look at a gateway with many tunnels costs. Measured, not asserted:
//! `cargo test --release -p causeway-datapath --test scale -- --ignored --nocapture`

#![allow(clippy::print_stdout)] // a measurement is printed

mod lab;

use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::time::Instant;

use causeway_core::names::ObjectKey;
use causeway_core::vpc::{Plan, TunnelKind, TunnelWant, Variant, Want, plan};
use causeway_datapath::vpc::{Commands, Datapath};
use causeway_datapath::{Output, Run, RunError};
use lab::want::{VXLAN, demo};
use lab::{Lab, Local, observed, require};

/// Keeps what the command said.
struct Recording {
    inner: Local,
    said: Mutex<Vec<u8>>,
}

#[async_trait::async_trait]
impl Run for &Recording {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        let output = self.inner.run(argv, stdin).await?;
        self.said.lock().expect("alone").clone_from(&output.stdout);
        Ok(output)
    }
}

/// Says what was said before.
struct Replay(Vec<u8>);

#[async_trait::async_trait]
impl Run for Replay {
    async fn run(&self, _: &[&str], _: &[u8]) -> Result<Output, RunError> {
        Ok(Output { stdout: self.0.clone(), ..Output::default() })
    }
}

fn want(tunnels: u32) -> Want {
    let mut want = demo(0, VXLAN);
    let like = want.tunnels.values().next().expect("one").clone();
    for n in 1..tunnels {
        let tunnel = TunnelWant {
            owner: ObjectKey::new("ns1", &format!("t{n}")).expect("a name"),
            kind: TunnelKind::Vxlan { vni: 100 + n, port: 4789 },
            remote: Ipv4Addr::from(0xac33_0000 + n),
            address: format!("{}/30", Ipv4Addr::from(0x0a65_0001 + 4 * n)).parse().expect("an address"),
            remote_range: format!("{}/24", Ipv4Addr::from(0xf300_0000 + 256 * n)).parse().expect("a range"),
            ..like.clone()
        };
        want.tunnels.insert(format!("t{n}").parse().expect("a name"), tunnel);
    }
    want
}

async fn report(what: &str, tunnels: u32, recording: &Recording, work: impl AsyncFn()) {
    let mut fastest = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        work().await;
        fastest = fastest.min(start.elapsed().as_secs_f64() * 1000.0);
    }
    let bytes = recording.said.lock().expect("alone").len();
    println!("{tunnels:>5} tunnels: {what:<18} {bytes:>8} bytes {fastest:>8.1} ms");
}

#[tokio::test]
#[ignore = "a measurement"]
async fn looking_and_changing_by_the_number_of_tunnels() {
    require(&[]);
    for tunnels in [1, 100, 1000] {
        let lab = Lab::new(Variant::Nft);
        let want = want(tunnels);
        let build = plan(&want, &observed(&lab.datapath(0)).await);
        let start = Instant::now();
        let applied = lab.datapath(0).apply(&build, Some(1)).await.expect("applied");
        println!("{tunnels:>5} tunnels: made in {:.0} ms", start.elapsed().as_secs_f64() * 1000.0);
        assert_eq!(plan(&want, &applied.listing.have), Plan::default());
        let recording = Recording { inner: lab.gateways[0].runner(), said: Mutex::default() };
        let datapath = Commands::new(&recording);
        let digest = applied.listing.digest;
        report("look, the same", tunnels, &recording, async || {
            datapath.observe(digest.as_ref()).await.expect("observed");
        })
        .await;
        report("change of nothing", tunnels, &recording, async || {
            datapath.apply(&Plan::default(), Some(1)).await.expect("applied");
        })
        .await;
        report("look, all", tunnels, &recording, async || {
            datapath.observe(None).await.expect("observed");
        })
        .await;
        let replay = Commands::new(Replay(recording.said.lock().expect("alone").clone()));
        report("of which parsing", tunnels, &recording, async || {
            replay.observe(None).await.expect("read");
        })
        .await;
    }
}
