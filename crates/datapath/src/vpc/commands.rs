//! The command datapath: constant scripts in a gateway, everything that varies on their stdin.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use async_trait::async_trait;
use causeway_core::names::Ipv4Cidr;
use causeway_core::vpc::Plan;
use sha1::{Digest as _, Sha1};

use super::render::Input;
use super::{Applied, Datapath, Digest, Flow, Listing, Looked, outcome, parse};
use crate::Trouble;
use crate::done::end_of;
use crate::run::{Output, Run, RunError};
use crate::sections::Sections;

/// Looks. Its input is the digest of the listing that the reader has, or nothing.
static OBSERVE: LazyLock<String> =
    LazyLock::new(|| lean(&[include_str!("find.sh"), include_str!("observe.sh"), include_str!("look.sh")]));
/// Changes.
static APPLY: LazyLock<String> = LazyLock::new(|| {
    lean(&[
        include_str!("input.sh"),
        include_str!("find.sh"),
        include_str!("observe.sh"),
        include_str!("apply.sh"),
    ])
});
/// Runs a script that comes with its input ([`started`]): most are too long for a URL.
pub(super) static START: LazyLock<String> =
    LazyLock::new(|| lean(&[include_str!("../tools.sh"), include_str!("../start.sh")]));

/// A script and its input, as [`START`] takes them.
pub(super) fn started(script: &str, input: &[u8]) -> Vec<u8> {
    let lengths = format!("{} {}\n", script.len(), input.len());
    [lengths.as_bytes(), script.as_bytes(), input].concat()
}

/// Scripts joined, without comments and indentation: they travel in a URL, and proxies bound its length.
pub(super) fn lean(scripts: &[&str]) -> String {
    let lines = scripts.iter().flat_map(|script| script.lines()).map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .fold(String::new(), |all, line| all + line + "\n")
}

/// A gateway reached by running commands in it.
#[derive(Debug, Clone)]
pub struct Commands<R> {
    runner: R,
}

impl<R: Run> Commands<R> {
    /// Over a way to run commands there.
    pub fn new(runner: R) -> Self {
        Self { runner }
    }

    /// The name is for whoever reads audits or lists processes.
    pub(super) async fn run(&self, script: &str, name: &str, stdin: &[u8]) -> Result<Answer, Trouble> {
        let output = self.runner.run(&["bash", "-c", script, name], stdin).await.map_err(without_bash)?;
        if never_began(&output) {
            return Err(Trouble::ToolMissing("bash".into()));
        }
        Ok(Answer { sections: Sections::parse(&output.stdout)?, stdout: output.stdout })
    }
}

/// A container without bash is refused by the runtime in many words.
fn without_bash(error: RunError) -> Trouble {
    match error {
        RunError::Refused(why) if says_no_bash(&why) => Trouble::ToolMissing("bash".into()),
        error => error.into(),
    }
}

fn never_began(output: &Output) -> bool {
    end_of(&output.stdout).is_none()
        && matches!(output.status, Some(126 | 127))
        && says_no_bash(&String::from_utf8_lossy(&output.stderr))
}

fn says_no_bash(text: &str) -> bool {
    text.contains("bash")
        && ["not found", "no such file"].iter().any(|words| text.to_lowercase().contains(words))
}

/// A listing, from what a script said.
fn listing(answer: &Answer) -> Result<Listing, Trouble> {
    Ok(Listing { have: parse::have(&answer.sections)?, digest: Digest::of(&answer.stdout) })
}

impl Digest {
    /// That of the listing at the end of a script's output: what the gateway makes of it as well.
    pub fn of(stdout: &[u8]) -> Option<Self> {
        let line = |text: &str, from_end: bool| {
            let mut places = stdout.windows(text.len()).enumerate();
            let is_it = |(_, window): &(usize, &[u8])| *window == text.as_bytes();
            if from_end { places.rfind(is_it) } else { places.find(is_it) }.map(|(at, _)| at)
        };
        let listing =
            stdout.get(line("@@causeway begin kernel\n", false)?..line("\n@@causeway done ", true)?)?;
        let digest = Sha1::digest(listing);
        Some(Self(digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))))
    }
}

/// A script's answer.
pub(super) struct Answer {
    stdout: Vec<u8>,
    pub(super) sections: Sections,
}

#[async_trait]
impl<R: Run> Datapath for Commands<R> {
    async fn observe(&self, known: Option<&Digest>) -> Result<Looked, Trouble> {
        let known = known.map_or("", |digest| &digest.0);
        let answer = self.run(&START, "causeway-observe", &started(&OBSERVE, known.as_bytes())).await?;
        if answer.sections.same { Ok(Looked::Same) } else { listing(&answer).map(Looked::Listed) }
    }

    async fn apply(&self, plan: &Plan, term: Option<u64>) -> Result<Applied, Trouble> {
        let input = Input::of(plan);
        let answer = self.run(&START, "causeway-apply", &started(&APPLY, &input.bytes(term))).await?;
        let failures = outcome::failures(plan, &input, &answer.sections);
        Ok(Applied { listing: listing(&answer)?, failures })
    }

    async fn flows(&self, ranges: &[Ipv4Cidr]) -> Result<BTreeSet<Flow>, Trouble> {
        self.list_flows(ranges).await
    }

    async fn take_flows(&self, flows: &BTreeSet<Flow>) -> Result<(), Trouble> {
        self.learn_flows(flows).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_a_script_fits_the_url_that_common_proxies_accept() {
        let spared = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~+".contains(&byte);
        let encoded: usize = START.bytes().map(|byte| if spared(byte) { 1 } else { 3 }).sum();
        assert!(encoded < 7400, "{encoded}");
    }

    #[test]
    fn an_image_without_bash_differs_from_a_refusal() {
        let runtime = "OCI runtime exec failed: exec: \"bash\": executable file not found in $PATH: unknown";
        assert_eq!(without_bash(RunError::Refused(runtime.into())), Trouble::ToolMissing("bash".into()));
        let forbidden = RunError::Refused("pods \"gw-0\" is forbidden".into());
        assert_eq!(without_bash(forbidden.clone()), Trouble::Run(forbidden));
    }

    #[test]
    fn the_script_writes_to_no_other_file_than_the_settings_it_knows() {
        let (settings, _) = include_str!("apply.sh").split_once("feed() {").expect("the function after");
        let lines = [
            "ipv4/conf/../ip_forward 1",
            "ipv4/../core/somaxconn 1",
            "kernel/hostname 1",
            "ipv4/ip_forward 1; true",
            "ipv4/conf/a/b/proxy_arp 1",
            "ipv4/ip_forward",
        ];
        let script = format!("{settings}\nprintf '%s\\n' \"$@\" | write");
        let output = std::process::Command::new("bash").args(["-c", &script, "bash"]).args(lines).output();
        let output = output.expect("bash runs");
        let refused: String = (1..=lines.len()).map(|n| format!("Command failed -:{n}\n")).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), refused);
        assert_eq!(output.stderr, b"", "none was tried");
    }

    /// The functions that forget flows, with a `conntrack` of a test's own; `tools` are those that are there.
    fn forgetting(tools: &str, conntrack: &str) -> String {
        let (_, forget) = include_str!("apply.sh").split_once("number() {").expect("the function");
        let (forget, _) = forget.split_once("change() {").expect("its use");
        format!(
            r#"has() {{ [[ " {tools} " == *" $1 "* ]]; }}
               bounded() {{ "$@"; }}
               conntrack() {{ {conntrack}
               }}
               number() {{{forget}"#
        )
    }

    #[test]
    fn flows_astray_are_forgotten_by_their_source_however_many_they_are() {
        let conntrack = r#"
            if [[ $1 == -D ]]; then echo "$@"; return; fi
            [[ $# -eq 1 || $3 == 242.1.0.0/16 ]] || return
            flow() { echo "udp 17 9 src=10.0.1.10 dst=$1 sport=9 dport=$3 [UNREPLIED] src=$1 dst=$2 sport=$3 dport=9 use=1"; }
            for i in {1..300}; do flow 242.1.1.20 172.50.16.101 "$i"; done
            flow 242.1.255.255 242.0.0.9 7
            flow 242.1.1.20 242.0.0.8 7
            flow 242.2.1.20 172.50.16.101 7
            flow 242.3.1.20 242.0.0.1 7
            flow 242.1.1.20 242.7.3.4 7
            flow 242.4.1.20 242.0.0.3 7
            flow 242.4.1.20 242.0.0.9 7
            flow ff02::1 ff02::2 7
            echo "nothing that makes sense""#;
        for tools in ["awk", ""] {
            let script = forgetting(tools, conntrack)
                + "printf '%s\\n' '242.1.0.0/16 242.0.0.1 242.0.0.8 242.7.0.0/16' '242.3.0.0/17 242.0.0.2 242.0.0.2 242.7.0.0/16' '242.4.0.0/16 242.0.0.1 242.0.0.8 -' | forget";
            let output =
                std::process::Command::new("bash").args(["-c", &script]).output().expect("bash runs");
            let forgotten = "-D -d 242.1.0.0/16 -q 172.50.16.101\n-D -d 242.1.0.0/16 -q 242.0.0.9\n\
                             -D -d 242.3.0.0/17 -q 242.0.0.1\n-D -d 242.4.0.0/16 -q 242.0.0.3\n";
            assert_eq!(String::from_utf8_lossy(&output.stdout), forgotten, "with `{tools}`");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        }
    }

    /// The CPU time of forgetting with so many tunnels, each with a range and with a flow of its own packets;
    /// the best of three.
    fn time_to_forget(tunnels: u32) -> f64 {
        let forgetting = forgetting("awk", r#"printf '%s\n' "$flows""#);
        let script = format!(
            r#"each() {{ for ((i = 0; i < {tunnels}; i++)); do printf "$1" $((i / 250)) $((i % 250)); done; }}
               flows=$(each 'udp src=172.50.16.1 dst=172.50.%s.%s sport=9 src=172.50.1.1 dst=172.50.16.1 sport=9\n')
               ranges=$(each '242.%s.%s.0/24 242.0.0.1 242.0.0.8 242.0.0.0/16\n')
               {forgetting}
               TIMEFORMAT='%U %S'
               for try in 1 2 3; do time forget <<<"$ranges"; done"#
        );
        let output = std::process::Command::new("bash").args(["-c", &script]).output().expect("bash runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "none goes astray");
        let times = String::from_utf8_lossy(&output.stderr);
        let sum = |line: &str| line.split(' ').map(|time| time.parse::<f64>().expect("a time")).sum();
        times.lines().map(sum).fold(f64::MAX, f64::min)
    }

    #[test]
    fn forgetting_takes_ten_times_the_tunnels_no_more_than_about_ten_times_the_work() {
        let (few, many) = (time_to_forget(100), time_to_forget(1000));
        assert!(many < 30.0 * few.max(0.005), "{few} s for 100, {many} s for 1,000");
    }
}
