use proptest::prelude::*;

use super::*;

fn place(region: Option<&str>, interface: Interface) -> Place {
    Place { endpoint: None, region: region.map(str::to_owned), interface }
}

fn catalog() -> Vec<CatalogEntry> {
    let endpoint = |interface: &str, region: &str, url: &str| json!({"interface": interface, "region": region, "region_id": region, "url": url});
    let value = json!([
        {"type": "identity", "endpoints": [endpoint("public", "one", "http://k")]},
        {"type": "network", "endpoints": [
            endpoint("public", "one", "https://n1:9696"),
            endpoint("internal", "one", "http://n1.internal:9696/v2.0/"),
            endpoint("public", "two", "https://two/network/"),
        ]},
    ]);
    serde_json::from_value(value).expect("a catalog")
}

#[test]
fn the_catalog_says_where_neutron_is() {
    let find = |region, interface| place(region, interface).find(&catalog()).map(|base| base.to_string());
    assert_eq!(find(Some("one"), Interface::Public).as_deref(), Ok("https://n1:9696/v2.0"));
    assert_eq!(find(Some("two"), Interface::Public).as_deref(), Ok("https://two/network/v2.0"));
    assert_eq!(find(None, Interface::Internal).as_deref(), Ok("http://n1.internal:9696/v2.0"));
    assert_eq!(
        find(None, Interface::Public).expect_err("two"),
        "its catalog has several regions (public in one, public in two): say which"
    );
    assert_eq!(
        find(Some("two"), Interface::Admin).expect_err("none"),
        "its catalog has no admin endpoint of type network in region two; of that type there is: internal in one, \
         public in one, public in two"
    );
}

#[test]
fn a_login_says_no_more_than_is_needed() {
    let user = Named::Name("u".into(), Domain::Name("d".into()));
    let project = Some(Named::Id("p".into()));
    let request = Identity::Password { user, password: Secret::new("open-sesame"), project }.request();
    assert_eq!(
        request,
        json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": "u", "domain": {"name": "d"}, "password": "open-sesame"}}},
            "scope": {"project": {"id": "p"}},
        }})
    );
    let credential = Credential::Id("c".into());
    let request = Identity::Application { credential, secret: Secret::new("open-sesame") }.request();
    let it = json!({"id": "c", "secret": "open-sesame"});
    assert_eq!(
        request,
        json!({"auth": {"identity": {"methods": ["application_credential"], "application_credential": it}}})
    );
}

fn life(issued: Option<&str>, expires: Option<&str>) -> (Duration, Duration) {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let token = Token { issued_at: text(issued), expires_at: text(expires), project: None, catalog: None };
    let begun = Instant::now();
    let life = token.life(begun);
    (life.renew - begun, life.end - begun)
}

#[test]
fn a_token_is_renewed_before_it_ends_whatever_the_servers_clock_shows() {
    let seconds = |(renew, end): (Duration, Duration)| (renew.as_secs(), end.as_secs());
    let of = |end: &str| seconds(life(Some("1999-01-01T00:00:00.000000Z"), Some(end)));
    assert_eq!(of("1999-01-01T01:00:00.000000Z"), (3300, 3600));
    assert_eq!(of("1999-01-01T00:01:00.000000Z"), (54, 60));
    assert_eq!(of("1999-01-01T00:00:10.000000Z"), (8, 10));
    assert_eq!(of("1999-01-01T00:00:02.000000Z"), (1, 2));
    assert_eq!(of("1998-01-01T00:00:02.000000Z"), (0, 0), "over already: for the one request");
    assert_eq!(seconds(life(None, None)), (270, 300));
}

proptest! {
    #[test]
    fn any_answer_is_a_login_or_an_error(body in "\\{\"token\": ?(\\{|\\[|\"(catalog|expires_at|project)\"|:|\\}|null|,|1){0,8}\\}|\\PC{0,40}") {
        let config = Config::open();
        let identity =
            Identity::Application { credential: Credential::Id("c".into()), secret: Secret::new("open-sesame") };
        let keystone = Keystone::new(Base::parse("http://k").expect("an address"), identity, &config);
        let mut headers = http::HeaderMap::new();
        headers.insert("x-subject-token", "gAAAA".parse().expect("a header"));
        let answer = Answer { status: StatusCode::CREATED, headers, body: body.into() };
        let _ = keystone.read(&answer, Instant::now());
    }
}
