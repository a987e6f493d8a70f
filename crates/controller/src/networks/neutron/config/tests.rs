use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const SECRETS: [&str; 3] = ["open-sesame", "s3cr3t-of-an-app", "0123"];

/// What `load` makes of variables and files.
fn loaded(
    endpoint: Option<&str>,
    cloud: Option<&str>,
    variables: &[(&str, &str)],
    files: &[(&str, &str)],
) -> anyhow::Result<Config> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    let files: BTreeMap<_, _> = files.iter().map(|(path, text)| (PathBuf::from(path), *text)).collect();
    load(endpoint, cloud, &|name| variables.get(name).map(|value| (*value).to_owned()), &|path| {
        Ok(files.get(path).map(|text| (*text).to_owned()))
    })
}

/// Why it could not, in all its words, which have no secret in them.
#[track_caller]
fn refused(variables: &[(&str, &str)], files: &[(&str, &str)]) -> String {
    let error = loaded(None, None, variables, files).expect_err("refused");
    let words = format!("{error:#} {error:?}");
    assert!(!SECRETS.iter().any(|secret| words.contains(secret)), "{words}");
    format!("{error:#}")
}

const PASSWORD: [(&str, &str); 5] = [
    ("OS_AUTH_URL", "https://keystone.example:5000"),
    ("OS_USERNAME", "causeway"),
    ("OS_PASSWORD", "open-sesame"),
    ("OS_PROJECT_NAME", "networks"),
    ("OS_USER_DOMAIN_NAME", "people"),
];

const CLOUDS: &str = "
clouds:
  lab:
    auth:
      auth_url: http://keystone.lab/identity/v3/
      username: causeway
      password: 0123
      project_id: p1
    region_name: RegionOne
    interface: internalURL
    verify: False
  prod:
    auth_type: v3applicationcredential
    auth: {auth_url: 'https://keystone.prod:5000', application_credential_id: c1}
    cacert: ~/prod.pem
    network_endpoint_override: https://neutron.prod/network/v2.0/
";

fn keystone(config: &Config) -> (String, String) {
    match &config.auth {
        Auth::Keystone { url, identity } => (url.to_string(), format!("{identity:?}")),
        Auth::Open => panic!("{config:?}"),
    }
}

#[test]
fn an_endpoint_needs_nothing_else() {
    let config = loaded(Some("http://127.0.0.1:9696/"), None, &PASSWORD, &[]).expect("a configuration");
    assert!(matches!(config.auth, Auth::Open));
    assert_eq!(config.endpoint.expect("given").to_string(), "http://127.0.0.1:9696/v2.0");
}

#[test]
fn variables_name_a_user_in_a_project() {
    let config = loaded(None, None, &PASSWORD, &[]).expect("a configuration");
    let (url, identity) = keystone(&config);
    assert_eq!(url, "https://keystone.example:5000/v3");
    assert_eq!(
        identity,
        "Password { user: Name(\"causeway\", Name(\"people\")), password: …, \
         project: Some(Name(\"networks\", Id(\"default\"))) }"
    );
    assert_eq!((config.interface, config.insecure, config.endpoint), (Interface::Public, false, None));
}

#[test]
fn variables_name_an_application_credential_by_id_or_by_name() {
    let url = ("OS_AUTH_URL", "http://k/v3");
    let secret = ("OS_APPLICATION_CREDENTIAL_SECRET", "s3cr3t-of-an-app");
    let by_id = [url, secret, ("OS_APPLICATION_CREDENTIAL_ID", "c1")];
    let (_, identity) = keystone(&loaded(None, None, &by_id, &[]).expect("a configuration"));
    assert_eq!(identity, "Application { credential: Id(\"c1\"), secret: … }");
    let by_name = [url, secret, ("OS_APPLICATION_CREDENTIAL_NAME", "app"), ("OS_USER_ID", "u1")];
    let (_, identity) = keystone(&loaded(None, None, &by_name, &[]).expect("a configuration"));
    assert_eq!(identity, "Application { credential: Name(\"app\", Id(\"u1\")), secret: … }");
}

#[test]
fn variables_may_ask_for_no_login_at_all() {
    for name in ["OS_ENDPOINT", "OS_NETWORK_ENDPOINT_OVERRIDE"] {
        let variables = [("OS_AUTH_TYPE", "none"), (name, "http://n:9696/v2.0")];
        let config = loaded(None, None, &variables, &[]).expect("a configuration");
        assert!(matches!(config.auth, Auth::Open));
        assert_eq!(config.endpoint.expect("given").to_string(), "http://n:9696/v2.0");
    }
}

#[test]
fn a_cloud_of_a_file_is_chosen_by_name() {
    let files = [
        ("/c/clouds.yaml", CLOUDS),
        ("/c/secure.yaml", "clouds: {prod: {auth: {application_credential_secret: s3cr3t-of-an-app}}}"),
    ];
    let file = ("OS_CLIENT_CONFIG_FILE", "/c/clouds.yaml");
    let lab = loaded(None, Some("lab"), &[file, ("OS_CLOUD", "prod")], &files).expect("a configuration");
    let (url, identity) = keystone(&lab);
    assert_eq!(url, "http://keystone.lab/identity/v3");
    assert!(identity.ends_with("project: Some(Id(\"p1\")) }"), "{identity}");
    assert_eq!((lab.region.as_deref(), lab.interface), (Some("RegionOne"), Interface::Internal));
    assert!(lab.insecure);
    let Auth::Keystone { identity: Identity::Password { password, .. }, .. } = &lab.auth else { panic!() };
    assert_eq!(password.reveal(), "0123", "it is no number");

    // Variables of a login are not mixed with a cloud that is named.
    let variables = [&PASSWORD[..], &[file, ("OS_CLOUD", "prod"), ("HOME", "/home/me")]].concat();
    let prod = loaded(None, None, &variables, &files).expect("a configuration");
    assert_eq!(keystone(&prod).1, "Application { credential: Id(\"c1\"), secret: … }");
    assert_eq!(prod.ca, Some("/home/me/prod.pem".into()));
    assert_eq!(prod.endpoint.expect("given").to_string(), "https://neutron.prod/network/v2.0");
}

#[test]
fn files_are_looked_for_where_openstacks_own_tools_do() {
    let lab = |url: &str| {
        format!("clouds: {{a: {{auth: {{auth_url: '{url}', username: u, password: open-sesame}}}}}}")
    };
    let (here, own, system) = (lab("http://here"), lab("http://own"), lab("http://system"));
    let all = [
        ("./clouds.yaml", here.as_str()),
        ("/home/me/.config/openstack/clouds.yaml", own.as_str()),
        ("/etc/openstack/clouds.yaml", system.as_str()),
    ];
    for (skipped, url) in [(0, "http://here/v3"), (1, "http://own/v3"), (2, "http://system/v3")] {
        let config = loaded(None, None, &[("HOME", "/home/me")], &all[skipped..]).expect("a configuration");
        assert_eq!(keystone(&config).0, url);
    }
}

#[test]
fn what_is_missing_or_wrong_is_named_and_no_secret_is() {
    let but = |name: &str| PASSWORD.iter().copied().filter(|(it, _)| *it != name).collect::<Vec<_>>();
    let and = |more: (&'static str, &'static str)| [&PASSWORD[..], &[more]].concat();
    assert_eq!(refused(&but("OS_PASSWORD"), &[]), "OS_* variables: OS_PASSWORD is missing");
    assert_eq!(refused(&but("OS_USERNAME"), &[]), "OS_* variables: OS_USERNAME or OS_USER_ID is missing");
    assert_eq!(
        refused(&and(("OS_AUTH_TYPE", "v3oidcpassword")), &[]),
        "OS_* variables: OS_AUTH_TYPE is `v3oidcpassword`; there is v3password, v3applicationcredential and none"
    );
    assert_eq!(
        refused(&and(("OS_INTERFACE", "private")), &[]),
        "OS_* variables: OS_INTERFACE: it should be public, internal or admin"
    );
    let url =
        [("OS_AUTH_URL", "http://me:open-sesame@k/v3"), ("OS_USERNAME", "u"), ("OS_PASSWORD", "open-sesame")];
    assert_eq!(refused(&url, &[]), "OS_* variables: OS_AUTH_URL: the address has a name or a password in it");
    assert!(
        refused(&[], &[]).starts_with("nothing says where the cloud is: give an endpoint, or set OS_CLOUD")
    );
    let two = [("./clouds.yaml", CLOUDS)];
    assert_eq!(refused(&[], &two), "./clouds.yaml has several clouds (lab, prod): say which by OS_CLOUD");
    assert_eq!(
        refused(&[("OS_CLOUD", "test")], &two),
        "./clouds.yaml has no cloud `test`; it has: lab, prod"
    );
    assert_eq!(
        refused(&[("OS_CLOUD", "prod")], &two),
        "cloud `prod` in ./clouds.yaml: application_credential_secret is missing"
    );
    let missing = refused(&[("OS_CLOUD", "a"), ("OS_CLIENT_CONFIG_FILE", "/c.yaml")], &[]);
    assert_eq!(missing, "cloud `a` is named, and there is no clouds.yaml: none of /c.yaml");
}

#[test]
fn a_file_that_is_no_file_of_clouds_is_not_quoted() {
    let texts = [
        "clouds: {a: {auth: {password: [open-sesame]}}}",
        "clouds:\n  a:\n    auth: open-sesame",
        "clouds:\n  a:\n   password: 'open-sesame",
        "\t- open-sesame: {",
        "clouds: {a: {auth: {password: open-sesame, password: open-sesame}}}",
    ];
    for text in texts {
        let words = refused(&[], &[("./clouds.yaml", text)]);
        assert!(words.starts_with("./clouds.yaml is not a file of clouds"), "{words}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_file_and_any_variables_are_a_configuration_or_an_error(
        text in "(clouds|auth|a|password|open-sesame|[:\\[\\]{}#&*'\"|>!-]|\n| |\t|[0-9]|\\PC){0,40}",
        url in "(https?://)?[a-z@:/?#\\[\\]0-9]{0,20}",
    ) {
        let _ = loaded(None, None, &[], &[("./clouds.yaml", &text)]);
        if let Err(error) = loaded(None, None, &[("OS_AUTH_URL", &url), ("OS_PASSWORD", "open-sesame")], &[]) {
            let words = format!("{error:?}");
            prop_assert!(!words.contains("open-sesame"));
        }
        if let Ok(base) = Base::parse(&url) {
            let whole = format!("{}/networks?limit=1", base.of_neutron());
            prop_assert!(whole.parse::<Uri>().is_ok(), "{}", whole);
        }
    }
}
