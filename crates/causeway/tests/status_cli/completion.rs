//! Scripts for shells.

use std::process::{Command, Stdio};

fn script(shell: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_causeway")).args(["completion", shell]).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{shell}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_shell_learns_every_command_and_flag() {
    for shell in ["bash", "zsh", "fish"] {
        let script = script(shell);
        for word in [
            "status",
            "diagnose",
            "check",
            "gather",
            "sandbox",
            "all-contexts",
            "kube-annotation-prefix",
            "wide",
        ] {
            assert!(script.contains(word), "{word} for {shell}");
        }
    }
}

#[test]
fn bash_completes_with_it() {
    let program = format!(
        "{}\nCOMP_WORDS=(causeway status --all-c) COMP_CWORD=2\n_causeway causeway --all-c status\necho \"${{COMPREPLY[@]}}\"",
        script("bash")
    );
    let output =
        Command::new("bash").args(["-c", &program]).stdin(Stdio::null()).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "--all-contexts", "{output:?}");
}
