//! What gets through: single questions, and streams that notice every lost packet.

use kube::api::AttachedProcess;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::cluster::{Cluster, PATIENCE, Said, finish};

/// How many echo requests a stream sends per second.
pub(crate) const RATE: u32 = 50;

impl Cluster {
    /// Asserts that the client of this cluster reaches an address: three pings, three answers.
    pub(crate) async fn reaches(&self, target: &str) {
        let said = self.in_client(&format!("ping -n -c 3 -i 0.2 -W 5 {target}")).await;
        assert!(said.out.contains(" 3 received"), "{target} from {}: {said:?}", self.name);
    }

    /// Waits until a ping to an address is answered.
    pub(crate) async fn comes_to_reach(&self, target: &str) {
        self.until(&format!("an answer from {target}"), PATIENCE, async || {
            let said = self.in_client(&format!("ping -n -c 1 -W 1 {target}")).await;
            if said.code == 0 { Ok(()) } else { Err(said.out) }
        })
        .await;
    }

    /// What comes back from the echo service of an address over TCP.
    pub(crate) async fn echo(&self, target: &str, text: &str) -> Said {
        let script =
            format!("exec 3<>/dev/tcp/{target}/7; echo '{text}' >&3; read -r -t 20 line <&3; echo \"$line\"");
        self.in_client(&script).await
    }

    /// Starts an unbroken stream of pings from the client, once the first has been answered.
    pub(crate) async fn stream(&self, target: &str) -> Stream {
        self.comes_to_reach(target).await;
        let interval = 1.0 / f64::from(RATE);
        // Ends with a line on its input, so that what ping said can be counted.
        let script = format!(
            "said=$(mktemp); trap 'rm -f $said' EXIT; ping -n -i {interval} -W 5 {target} >$said & ping=$!; \
             read -r _; kill -INT $ping; wait $ping; awk '{COUNT}' $said"
        );
        Stream { process: self.start("ns1", "client", &["bash", "-c", &script]).await }
    }
}

/// Pings that run by themselves: whoever started them, and the API server over which that was, may go.
pub(crate) struct Pings {
    cluster: Cluster,
    pid: u32,
}

impl Cluster {
    /// Starts pings from the client, once the first has been answered.
    pub(crate) async fn pings(&self, target: &str) -> Pings {
        self.comes_to_reach(target).await;
        let interval = 1.0 / f64::from(RATE);
        let script = format!("ping -n -i {interval} -W 5 {target} >$HOME/pings 2>&1 </dev/null & echo $!");
        let pid = self.in_client(&script).await.ok().trim().parse().expect("its pid");
        Pings { cluster: self.clone(), pid }
    }
}

impl Pings {
    /// Ends them and says what they counted.
    pub(crate) async fn end(self) -> Count {
        let script = format!(
            "kill -INT {0}; while kill -0 {0} 2>/dev/null; do sleep 0.02; done; awk '{COUNT}' $HOME/pings",
            self.pid
        );
        Count::read(&self.cluster.in_client(&script).await)
    }
}

/// Counts what ping said. A question that was under way when the stream ended is no loss.
const COUNT: &str = r#"
/icmp_seq=/ { match($0, /icmp_seq=[0-9]+/); seq = substr($0, RSTART + 9, RLENGTH - 9) + 0; if (seq > last) last = seq; n++ }
/ packets transmitted/ { sent = $1 }
END { if (sent - last == 1) sent = last; print sent " packets transmitted, " n + 0 " received" }
"#;

/// A running stream of pings.
pub(crate) struct Stream {
    process: AttachedProcess,
}

/// What a stream counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) sent: u32,
    pub(crate) received: u32,
}

impl Count {
    fn read(said: &Said) -> Count {
        let number = |before: &str| {
            let (text, _) = said.out.split_once(before)?;
            text.rsplit([' ', '\n']).next()?.parse().ok()
        };
        let sent = number(" packets transmitted");
        let (Some(sent), Some(received)) = (sent, number(" received")) else { panic!("{said:?}") };
        Count { sent, received }
    }

    /// How many answers never came.
    pub(crate) fn lost(self) -> u32 {
        self.sent - self.received
    }
}

impl Stream {
    /// Ends the stream and says what it counted.
    pub(crate) async fn end(mut self) -> Count {
        let mut stdin = self.process.stdin().expect("stdin");
        stdin.write_all(b"\n").await.expect("the stream still runs");
        let said = finish(self.process).await;
        drop(stdin);
        Count::read(&said)
    }
}

/// Answers every HTTP request on port 80 of an address with the address that the caller has here.
const WHO_ARE_YOU: &str = r#"
$| = 1;
my $server = IO::Socket::INET->new(LocalAddr => $ARGV[0], LocalPort => 80, Listen => 9, ReuseAddr => 1) or die $!;
print "listening\n";
while (my $caller = $server->accept) {
    while (my $line = <$caller>) { last if $line =~ /^\r?\n$/ }
    my $who = $caller->peerhost . "\n";
    printf $caller "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s", length $who, $who;
    close $caller;
}
"#;

impl Cluster {
    /// Serves HTTP in the server's pod for as long as the value lives: the answer is who asked.
    pub(crate) async fn serve_http(&self, address: &str) -> AttachedProcess {
        let argv = ["perl", "-MIO::Socket::INET", "-e", WHO_ARE_YOU, address];
        let mut process = self.start("ns1", "server", &argv).await;
        let mut lines = BufReader::new(process.stdout().expect("stdout")).lines();
        assert_eq!(lines.next_line().await.expect("its output").as_deref(), Some("listening"));
        process
    }

    /// Asks for a page as the client; gives the answer's first line and its body.
    pub(crate) async fn http(&self, target: &str) -> (String, String) {
        let script =
            format!("exec 3<>/dev/tcp/{target}/80; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
        let answer = self.in_client(&script).await.ok();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        (head.lines().next().unwrap_or_default().to_owned(), body.trim().to_owned())
    }
}
