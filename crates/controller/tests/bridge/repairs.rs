//! What is found after crashes and after others were at it, and what is never touched.

use causeway_core::networks::cloud::Clue;
use causeway_core::networks::plan::{Goal, Want};
use causeway_core::networks::{Home, Look, Step};
use causeway_datapath::networks::mark::link_name;

use crate::site::{Site, absent, home, want};

const RANGE: &str = "10.1.0.0/24";
const GATEWAY: &str = "10.1.0.1";

fn its() -> Want {
    want("a", RANGE, GATEWAY)
}

#[tokio::test]
async fn a_bridge_that_was_made_and_not_marked_is_found_and_finished() {
    let mut site = Site::new(false);
    let create =
        || Step::CreateNetwork { uid: "a".into(), name: "ns1/a".into(), description: home().description() };
    site.apply(create()).await.expect("made");
    let again = site.apply(create()).await.expect_err("it is there");
    assert_eq!(again.reason(), "Changed", "{again}");
    site.restart(false);
    let all = site.look(Look::All).await;
    assert_eq!((all.len(), all[0].name.as_deref()), (1, Some("")));
    assert_eq!(all[0].description, home().description());
    let clue = |uid: &str| Look::One(Clue { uid: uid.into(), name: "ns1/a".into(), ids: [].into() });
    assert_eq!(site.look(clue("a")).await[0].name.as_deref(), Some("ns1/a"));
    assert_eq!(site.look(clue("b")).await, []);
    // Another cluster that works on the same machine would take it for lost.
    let ours = std::mem::replace(&mut site.home, Home::new(Some("west"), "other"));
    assert_eq!(site.look(Look::All).await, []);
    site.home = ours;
    assert_eq!(site.converge(&its()).await.expect("finished"), ["tag_network", "create_subnet"]);
    let held = site.look(Look::All).await.remove(0);
    assert_eq!((held.name, held.description.as_str(), held.broken), (None, "", None));
    assert_eq!(held.subnets.keys().collect::<Vec<_>>(), [RANGE]);
    assert_eq!(site.converge(&absent("a")).await.expect("gone"), ["delete_network"]);
}

#[tokio::test]
async fn whatever_somebody_does_to_a_bridge_is_put_right() {
    let site = Site::new(false);
    let bridge = link_name("a");
    site.converge(&its()).await.expect("made");
    site.converge(&want("b", "10.2.0.0/24", "10.2.0.1")).await.expect("made");
    let before = listing(&site);
    let cases: [(&str, &[&str]); 11] = [
        ("ip link set {} down", &["repair_network"]),
        ("ip link set {} type bridge stp_state 1", &["repair_network"]),
        ("ip link set {} group default", &["repair_network"]),
        ("ip link set {} group 7; ip link set {} down", &["repair_network"]),
        ("ip link set {} alias ''", &["tag_network", "tag_subnet"]),
        ("ip link set {} alias causeway-uid=a", &["tag_network", "tag_subnet"]),
        ("ip addr flush dev {}", &["repair_network", "create_subnet"]),
        ("ip addr add 10.1.0.7/24 dev {}", &["change_subnet"]),
        ("ip link del {}", &["create_network", "tag_network", "create_subnet"]),
        ("nft delete table inet causeway-networks", &["repair_network"]),
        ("nft add rule inet causeway-networks forward accept", &["repair_network"]),
    ];
    for (change, steps) in cases {
        site.machine.sh(&change.replace("{}", &bridge));
        let done = site.converge(&its()).await.expect("repaired");
        assert_eq!(done, steps, "{change}");
        assert_eq!(listing(&site), before, "{change}");
    }
}

/// All of ours, without what follows from whether anything is attached.
fn listing(site: &Site) -> String {
    site.machine.sh(
        r"ip -d -o link show type bridge | sed -E 's/^.*(cw[0-9a-f]{13}): <([^>]*)>.* group ([0-9a-z]+).*ether ([^ ]*).*forward_delay ([0-9]+).*stp_state ([0-9]).*(alias .*)/\1 \2 \3 \4 \5 \6 \7/; s/NO-CARRIER,//' | sort
          ip -o addr show scope global | cut -d: -f2- | sort; nft list table inet causeway-networks",
    )
}

#[tokio::test]
async fn bridges_of_others_are_never_touched() {
    let site = Site::new(true);
    let mut seed = 20_261_117_u32;
    let mut chance = move |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % below
    };
    for number in 0..30 {
        // Any bytes but the one that ends a text; some look like ours.
        let bytes: String = (0..chance(40)).map(|_| format!("\\x{:02x}", 1 + chance(255))).collect();
        let odd =
            ["", "causeway", "causeway-uid=z", "x causeway-cluster=west causeway-home=h causeway-uid=a"];
        let (odd, group) = (odd[chance(4) as usize], [0, 7, 0x6376_0000][chance(3) as usize]);
        site.machine.sh(&format!(
            "ip link add br{number} group {group} type bridge stp_state {}; ip addr add 172.16.{number}.1/24 dev br{number}
             ip link set br{number} alias $'{odd} '$'{bytes}'",
            chance(2)
        ));
    }
    let listing = || {
        site.machine.sh("ip -d -o link show type bridge | grep ' br[0-9]'; ip -o -4 addr | grep ' br[0-9]'")
    };
    let before = listing();
    site.converge(&its()).await.expect("made");
    assert_eq!(site.look(Look::All).await.len(), 1);
    site.machine.sh("nft delete table inet causeway-networks");
    site.converge(&its()).await.expect("repaired");
    site.converge(&absent("a")).await.expect("gone");
    assert_eq!(listing(), before);
    site.machine.sh("ip link add plain0 type bridge");
    let trouble = site
        .apply(Step::DeleteNetwork { id: "plain0".into(), revision: None })
        .await
        .expect_err("it is another's");
    assert_eq!(trouble.reason(), "Changed");
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_says_why() {
    let site = Site::new(false);
    site.machine.sh(&format!("ip link add {} type veth peer name other", link_name("a")));
    let trouble = site.converge(&its()).await.expect_err("the name is taken");
    assert_eq!(trouble.reason(), "Refused");
    assert!(trouble.to_string().contains(&link_name("a")), "{trouble}");
    site.machine.sh("ip addr add 10.1.0.77/16 dev other");
    let trouble = site.converge(&want("b", RANGE, GATEWAY)).await.expect_err("the addresses are taken");
    assert!(
        trouble.reason() == "Refused" && trouble.to_string().contains("10.1.0.0/16 on link other"),
        "{trouble}"
    );
    site.machine.sh(r#"ip link add 'br"*' type bridge"#);
    let odd = Step::TagNetwork { id: r#"br"*"#.into(), tags: home().tags("c") };
    let trouble = site.apply(odd).await.expect_err("no rule can be about it");
    assert_eq!(trouble.reason(), "Refused", "{trouble}");
    let missing = site
        .apply(Step::DeleteNetwork { id: "nobody".into(), revision: None })
        .await
        .expect_err("it is not there");
    assert_eq!(missing.reason(), "Missing");
}

#[tokio::test]
async fn what_is_let_go_stays_and_is_nobodys() {
    let site = Site::new(true);
    site.converge(&its()).await.expect("made");
    let released = Want { goal: Goal::Released { known: None }, ..its() };
    assert_eq!(site.converge(&released).await.expect("let go"), ["tag_subnet", "tag_network"]);
    assert_eq!((site.look(Look::All).await, site.table()), (vec![], None));
    let left = site.machine.sh(&format!("ip -d link show {0}; ip addr show {0}", link_name("a")));
    assert!(left.contains("group default") && !left.contains("causeway") && left.contains(GATEWAY), "{left}");
    // If the machine's owner gives it away it can be taken over, and is whole again; what is on it stays either way.
    let Goal::Present { spec, .. } = its().goal else { panic!("it should be there") };
    let adopt = Some(link_name("a"));
    let goal = Goal::Present { spec, may_replace: false, adopt, known: None };
    let z = Want { uid: "z".into(), name: "ns1/z".into(), subnet: None, goal };
    let trouble = site.converge(&z).await.expect_err("it is the machine's");
    assert!(trouble.to_string().contains("alias causeway-adoptable"), "{trouble}");
    assert_eq!((site.look(Look::All).await, site.table()), (vec![], None));
    site.machine.sh(&format!("ip link set dev {} alias causeway-adoptable", link_name("a")));
    assert_eq!(site.converge(&z).await.expect("taken over"), ["tag_network", "tag_subnet"]);
}
