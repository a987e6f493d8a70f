//! Serves an empty cluster: `serve [PORT] [KUBECONFIG]`. Commands of `kubectl exec` run here, as
//! processes of this machine.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use causeway_apiserver::{Config, Exec, ExecEnd, ExecIo, ExecRequest, Server};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

struct Here;

#[async_trait::async_trait]
impl Exec for Here {
    async fn admit(&self, _: &ExecRequest) -> Result<(), (u16, String, String)> {
        Ok(())
    }

    async fn run(&self, request: ExecRequest, io: ExecIo) -> ExecEnd {
        let ExecIo { mut stdin, mut stdout, mut stderr, resize: _resize } = io;
        let command = Command::new(&request.command[0])
            .args(&request.command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = match command {
            Ok(child) => child,
            Err(why) => return ExecEnd::Failed(format!("{}: {why}", request.command[0])),
        };
        let (mut input, mut output, mut errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let Some(input) = &mut input {
                let _ = tokio::io::copy(&mut stdin, input).await;
                let _ = input.shutdown().await;
            }
            input = None;
            std::future::pending::<()>().await;
        };
        let finish = async {
            if let (Some(output), Some(errors)) = (&mut output, &mut errors) {
                let _ =
                    tokio::join!(tokio::io::copy(output, &mut stdout), tokio::io::copy(errors, &mut stderr));
            }
            child.wait().await
        };
        let ended = tokio::select! {
            ended = finish => ended,
            () = feed => unreachable!("feeding never ends"),
        };
        match ended {
            Ok(status) => ExecEnd::Exited(status.code().unwrap_or(137)),
            Err(why) => ExecEnd::Failed(why.to_string()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let path = PathBuf::from(arguments.next().unwrap_or_else(|| "kubeconfig".to_owned()));
    let config =
        Config { listen: ([127, 0, 0, 1], port).into(), exec: Some(Arc::new(Here)), ..Config::default() };
    let server = Server::start(config).await?;
    server.write_kubeconfig(&path)?;
    eprintln!("{} with kubeconfig {}", server.url(), path.display());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
