use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use proptest::prelude::*;

use super::*;

fn place(named: Option<&str>, variable: Option<&str>) -> Place {
    Place::new(named.map(Path::new), variable.map(OsStr::new), Some("/home/me".into()))
}

#[test]
fn a_named_file_wins_over_the_variable_and_that_over_the_usual_one() {
    assert_eq!(place(Some("x"), Some("a:b")), Place::Named("x".into()));
    assert_eq!(place(None, Some("a:b")), Place::Listed(vec!["a".into(), "b".into()]));
    assert_eq!(place(None, Some(":b::b:a:")), Place::Listed(vec!["b".into(), "a".into()]));
    let usual = Place::Usual("/home/me/.kube/config".into());
    for nothing in [None, Some(""), Some(":"), Some("::")] {
        assert_eq!(place(None, nothing), usual, "{nothing:?}");
    }
    assert_eq!(Place::new(None, None, None), Place::Nowhere);
}

/// A kubeconfig with contexts, each of a cluster of its own.
fn written(folder: &Path, name: &str, current: Option<&str>, contexts: &[(&str, &str)]) -> PathBuf {
    let mut text = "apiVersion: v1\nkind: Config\n".to_owned();
    if let Some(current) = current {
        text += &format!("current-context: {current:?}\n");
    }
    for (section, part) in [("clusters", "cluster"), ("users", "user"), ("contexts", "context")] {
        text += &format!("{section}:\n");
        for (context, server) in contexts {
            let body = match section {
                "clusters" => format!("{{server: {server:?}}}"),
                "users" => "{token: t}".into(),
                _ => format!("{{cluster: {context:?}, user: {context:?}}}"),
            };
            text += &format!("- name: {context:?}\n  {part}: {body}\n");
        }
    }
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

fn listing(paths: &[&Path]) -> Kubeconfigs {
    let paths = paths.iter().map(|path| path.to_path_buf()).collect();
    Kubeconfigs::at(Place::Listed(paths)).expect("they can be merged").expect("there are some")
}

#[tokio::test]
async fn of_two_files_the_first_is_right_and_missing_ones_are_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let unset = written(at, "unset", Some(""), &[("both", "https://first:1")]);
    let second =
        written(at, "second", Some("own"), &[("both", "https://second:1"), ("own", "https://own:1")]);
    let files = listing(&[&at.join("missing"), &unset, &second]);
    assert_eq!(files.current().expect("a context"), "own", "an empty current-context is none");
    assert_eq!(files.all().expect("contexts"), ["both", "own"]);
    let config = files.config("both").await.expect("a configuration");
    assert_eq!(config.cluster_url.to_string(), "https://first:1/");

    let nothing = Kubeconfigs::at(Place::Listed(vec![at.join("missing")])).expect_err("no file");
    assert!(nothing.to_string().contains("none of the files in the variable KUBECONFIG exists"), "{nothing}");
    assert!(Kubeconfigs::at(Place::Usual(at.join("missing"))).expect("no fault").is_none());
}

#[test]
fn contexts_are_chosen_by_name_once_each_and_a_comma_may_be_part_of_a_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let contexts = [("a", "https://a"), ("b", "https://b"), ("a,b", "https://ab")];
    let path = written(folder.path(), "config", None, &contexts);
    let files = listing(&[&path]);
    let chosen = |asked: &[&str]| {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        files.chosen(&asked).map_err(|trouble| trouble.to_string())
    };
    assert_eq!(chosen(&["b", "a"]), Ok(vec!["b".into(), "a".into()]));
    assert_eq!(chosen(&["b, a,b"]), Ok(vec!["b".into(), "a".into()]));
    assert_eq!(chosen(&["a,b"]), Ok(vec!["a,b".into()]));
    let unknown = chosen(&["c"]).expect_err("there is none");
    assert!(unknown.contains("there is no context `c` in ") && unknown.ends_with("there is: a, b, a,b"));
    assert!(chosen(&[","]).is_err());
    let none = files.current().expect_err("none is current").to_string();
    assert!(none.contains("no context is the current one") && none.contains("--context"), "{none}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_variable_is_files_in_their_order_or_none(bytes in proptest::collection::vec(1..=u8::MAX, 0..40)) {
        let variable = OsString::from_vec(bytes);
        let place = Place::new(None, Some(&variable), Some("/home/me".into()));
        match place {
            Place::Listed(paths) => {
                prop_assert!(!paths.is_empty() && paths.iter().all(|path| !path.as_os_str().is_empty()));
                let mut twice = paths.clone();
                twice.sort();
                twice.dedup();
                prop_assert_eq!(twice.len(), paths.len());
            }
            Place::Usual(_) => prop_assert!(variable.as_encoded_bytes().iter().all(|byte| *byte == b':')),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    /// Whatever a file holds, it is a kubeconfig or a complaint of one line.
    #[test]
    fn any_file_is_read_or_complained_of_in_one_line(text in "[ -~\n]{0,80}|(clusters|contexts|current-context): [-a-z\\[\\]{}: \n]{0,40}") {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        std::fs::write(&path, text).expect("written");
        if let Err(trouble) = Kubeconfigs::at(Place::Named(path)).and_then(|files| files.map(|it| it.current()).transpose()) {
            let said = trouble.to_string();
            prop_assert_eq!(said.lines().count(), 1, "{}", said);
        }
    }
}
