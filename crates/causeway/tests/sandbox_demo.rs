//! `causeway sandbox --demo …`: something breaks under traffic, a picture says what came of it, and the exit code whether
//! packets cross again.

mod support;

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::can_run;

fn demo(args: &[&str]) -> Output {
    can_run(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args(["sandbox", "--once", "--demo"]).args(args).stdin(Stdio::null());
    command.output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a demonstration to its end, and gives what it tells programs.
fn story(name: &str) -> Value {
    let output = demo(&[name, "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
    assert!(output.status.success(), "{report:#}");
    let story = report["demo"].clone();
    assert_eq!((&story["demo"], &story["flowsAgain"]), (&name.into(), &true.into()), "{story:#}");
    assert_eq!(
        story["sent"].as_u64(),
        Some(story["answered"].as_u64().expect("a count") + story["lost"].as_u64().expect("a count"))
    );
    story
}

/// When something happened, by a part of its words.
fn at(story: &Value, words: &str) -> f64 {
    let moments = story["moments"].as_array().expect("moments");
    let says = |moment: &&Value| moment["what"].as_str().is_some_and(|what| what.contains(words));
    let moment = moments.iter().find(says).unwrap_or_else(|| panic!("{words:?} in {story:#}"));
    moment["ms"].as_f64().expect("a time")
}

/// Asserts that these things happened one after the other.
fn in_order(story: &Value, words: &[&str]) {
    let times: Vec<f64> = words.iter().map(|words| at(story, words)).collect();
    assert!(times.is_sorted(), "{words:?} at {times:?}: {story:#}");
}

fn forwarded(story: &Value, gateway: &str) -> u64 {
    let all = story["forwarded"].as_array().expect("counts");
    let its =
        all.iter().find(|it| it["gateway"] == gateway).unwrap_or_else(|| panic!("{gateway} in {story:#}"));
    its["packets"].as_u64().expect("a count")
}

#[test]
fn failover_shows_when_the_standby_took_over_and_what_it_cost() {
    let story = story("failover");
    in_order(
        &story,
        &[
            "the deletion of gw1's pod is asked for",
            "the VPC's record names gw2",
            "the VPC's routes lead to gw2",
            "the first packet goes through gw2",
            "its answer, or a later one, is here",
            "gw1 is back, and stands by",
        ],
    );
    assert!(at(&story, "the controller elects gw2") < at(&story, "the first packet goes through gw2"));
    assert!(forwarded(&story, "cluster1 gw1") > 0 && forwarded(&story, "cluster1 gw2") > 0, "{story:#}");
    // A tenth of that where nothing else runs.
    assert!(story["lost"].as_u64() < Some(1_000), "two seconds at most: {story:#}");
}

#[test]
fn a_gateway_that_dies_in_silence_is_missed_by_its_standby() {
    let output = demo(&["failover", "--silent", "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(output.status.success(), "{report:#}");
    let order = ["gw1 dies", "gw2 says that gw1 is silent", "the VPC's routes lead to gw2", "through gw2"];
    in_order(&report["demo"], &order);
}

#[test]
fn rounds_take_turns_and_are_told_as_times_and_losses() {
    let output = demo(&["failover", "--rounds", "2", "--tunnels", "3", "-o", "json"]);
    let measured: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
    assert!(output.status.success(), "{measured:#}");
    assert_eq!((&measured["tunnels"], &measured["silent"]), (&3.into(), &false.into()));
    for name in ["written", "firstPacket", "firstAnswer"] {
        assert_eq!(measured[name]["samplesMs"].as_array().map(Vec::len), Some(2), "{measured:#}");
    }
    assert!(measured["written"]["p50Ms"].as_f64() < measured["firstAnswer"]["p50Ms"].as_f64());
    assert_eq!(measured["lost"].as_array().map(Vec::len), Some(2));
}

#[test]
fn broker_shows_that_packets_cross_without_it_and_what_arrives_afterwards() {
    let story = story("broker");
    in_order(
        &story,
        &[
            "the broker answers nobody",
            "cluster2's main gateway gw1 is killed",
            "the first packet goes through gw2",
            "the broker answers again",
            "cluster1 has the record that names gw2",
            "cluster1's end leads to 172.50.16.22",
        ],
    );
    let said = story["said"].to_string();
    assert!(said.contains("cluster1's tunnel goes by gw1 to 172.50.16.21"), "it could not know: {said}");
    assert!(said.contains("cluster2's tunnel goes by gw2 to 172.50.16.11"), "{said}");
    assert!(forwarded(&story, "cluster2 gw2") > 0, "{story:#}");
    assert!(story["lost"].as_u64() < Some(1_000), "two seconds at most: {story:#}");
}

#[test]
fn reboot_shows_how_a_gateway_is_rebuilt_that_lost_everything() {
    let story = story("reboot");
    in_order(
        &story,
        &[
            "gw1 is told to restart",
            "its network is gone",
            "its pod runs again",
            "the controller looks at it",
            "and builds the tunnel anew",
            "the first answer is here",
        ],
    );
    assert!(story["lost"].as_u64() > Some(0), "nobody took over: {story:#}");
    assert_eq!(forwarded(&story, "cluster1 gw2"), 0, "nobody took over: {story:#}");
}

#[test]
fn people_get_a_picture_with_a_letter_for_each_thing_that_happened() {
    let output = demo(&["failover"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    let (_, picture) = said.split_once("\nfailover: ").expect("its title");
    let strip = picture.lines().find(|line| line.trim_start().starts_with("answered")).expect("a strip");
    assert!(strip.contains('█'), "{picture}");
    let marks = picture.lines().find(|line| line.trim_start().starts_with('a')).expect("marks");
    assert!(marks.contains('a'), "{picture}");
    assert!(picture.contains("  a       0.0 ms  the deletion of gw1's pod is asked for"), "{picture}");
    assert!(picture.contains("✔ ") && picture.contains(" packets at 500 a second, "), "{picture}");
    let widest =
        picture.lines().skip(1).take_while(|line| !line.starts_with("  a  ")).map(|it| it.chars().count());
    assert!(widest.max() <= Some(84), "{picture}");
}

#[test]
fn a_demonstration_brings_tunnels_of_its_own() {
    for other in [&["--bare"][..], &["--measure", "3"], &["--apply", "x.yaml"], &["--kubeconfig", "a,b,c"]] {
        let output = demo(&[&["failover"], other].concat());
        assert_eq!(output.status.code(), Some(2), "{other:?}");
        assert!(text(&output.stderr).contains("cannot be used with"), "{}", text(&output.stderr));
    }
    let output = demo(&["reboot", "--silent"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--silent and --rounds are about --demo failover"), "{output:?}");
    let output = demo(&["explosion"]);
    assert!(text(&output.stderr).contains("[possible values: failover, broker, reboot]"), "{output:?}");
}
