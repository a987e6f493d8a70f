//! The network's configuration, as `net-conf.json` has it.

use causeway_core::leases::{Mode, Network};
use causeway_core::{Cidr, Family};
use serde::Deserialize;
use serde_json::{Map, Value};

/// How the network is meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// One for each family, IPv4 first.
    pub networks: Vec<Network>,
    /// The largest packet, where that is not to be found out.
    pub mtu: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
struct File {
    network: Option<String>,
    ipv6network: Option<String>,
    enableipv4: Option<bool>,
    enableipv6: Option<bool>,
    backend: Option<BackendFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
struct BackendFile {
    r#type: Option<String>,
    vni: Option<u32>,
    port: Option<u16>,
    directrouting: Option<bool>,
    mtu: Option<u32>,
}

const DEFAULT_VNI: u32 = 1;
/// Older than the number that was assigned to VXLAN, and what flannel uses.
const DEFAULT_PORT: u16 = 8472;
const LARGEST_VNI: u32 = (1 << 24) - 1;
/// Every link of IPv4 takes packets of this size, and IPv6 needs more.
const SMALLEST_MTU: u32 = 576;
const SMALLEST_MTU_OF_IPV6: u32 = 1280;
const LARGEST_MTU: u32 = 65_535;

/// Reads it; what is wrong with it is a sentence.
pub fn config(text: &str) -> Result<Config, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let file: File = serde_json::from_value(lowercase(value)).map_err(|error| error.to_string())?;
    let backend =
        file.backend.ok_or("Backend is missing: use {\"Type\": \"vxlan\"} or {\"Type\": \"host-gw\"}")?;
    let mode = mode(&backend)?;
    let smallest = if file.enableipv6.unwrap_or_default() { SMALLEST_MTU_OF_IPV6 } else { SMALLEST_MTU };
    if let Some(mtu) = backend.mtu.filter(|mtu| *mtu != 0 && !(smallest..=LARGEST_MTU).contains(mtu)) {
        return Err(format!("Backend.MTU {mtu} is not a number from {smallest} to {LARGEST_MTU}"));
    }
    let mut networks = Vec::new();
    let families = [
        (Family::V4, "Network", file.network, file.enableipv4.unwrap_or(true)),
        (Family::V6, "IPv6Network", file.ipv6network, file.enableipv6.unwrap_or(false)),
    ];
    for (family, name, range, enabled) in families {
        if !enabled {
            continue;
        }
        let text = range.ok_or_else(|| format!("{name} is missing, and {family} is enabled"))?;
        let range: Cidr = text.parse().map_err(|why| format!("{name}: {why}"))?;
        if range.family() != family {
            return Err(format!("{name}: {text} is not a range of {family}"));
        }
        if range.prefix() == 0 {
            return Err(format!("{name}: {text} is every address there is"));
        }
        networks.push(Network { range, mode });
    }
    if networks.is_empty() {
        return Err("neither EnableIPv4 nor EnableIPv6 is true".into());
    }
    Ok(Config { networks, mtu: backend.mtu.filter(|mtu| *mtu != 0) })
}

fn mode(backend: &BackendFile) -> Result<Mode, String> {
    match backend.r#type.as_deref().unwrap_or_default() {
        "host-gw" => Ok(Mode::HostGw),
        "vxlan" => {
            let vni = backend.vni.unwrap_or(DEFAULT_VNI);
            if vni > LARGEST_VNI {
                return Err(format!("Backend.VNI {vni} is not a number from 0 to {LARGEST_VNI}"));
            }
            let port = backend.port.filter(|port| *port != 0).unwrap_or(DEFAULT_PORT);
            Ok(Mode::Vxlan { vni, port, direct: backend.directrouting.unwrap_or_default() })
        }
        "" => Err("Backend.Type is missing: vxlan and host-gw are supported".into()),
        other => Err(format!("Backend.Type `{other}` is not supported: vxlan and host-gw are")),
    }
}

/// Keys may be written in any case.
fn lowercase(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key.to_lowercase(), lowercase(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flannels_own_file_is_read() {
        let config =
            config(r#"{"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan"}}"#);
        let config = config.expect("it is flannel's");
        let [network] = config.networks[..] else { panic!("{config:?}") };
        assert_eq!(network.range.to_string(), "10.244.0.0/16");
        assert_eq!(network.mode, Mode::Vxlan { vni: 1, port: 8472, direct: false });
    }

    #[test]
    fn keys_are_read_in_any_case_and_both_families_at_once() {
        let text = r#"{"network": "10.244.0.0/16", "IPV6NETWORK": "fd00:10:244::/56", "enableIPv6": true,
                       "backend": {"TYPE": "host-gw", "mtu": 1400}}"#;
        let config = config(text).expect("a configuration");
        let ranges: Vec<_> = config.networks.iter().map(|network| network.range.to_string()).collect();
        assert_eq!(ranges, ["10.244.0.0/16", "fd00:10:244::/56"]);
        assert_eq!((config.networks[1].mode, config.mtu), (Mode::HostGw, Some(1400)));
    }

    #[test]
    fn what_is_wrong_is_a_sentence() {
        let cases = [
            ("{", "it is not JSON"),
            (r#"{"Network": "10.244.0.0/16"}"#, "Backend is missing"),
            (r#"{"Network": "10.244.0.0/16", "Backend": {}}"#, "Backend.Type is missing"),
            (
                r#"{"Network": "10.244.0.0/16", "Backend": {"Type": "udp"}}"#,
                "Backend.Type `udp` is not supported",
            ),
            (
                r#"{"Network": "10.244.0.0/40", "Backend": {"Type": "host-gw"}}"#,
                "Network: `10.244.0.0/40` is not",
            ),
            (r#"{"Network": "0.0.0.0/0", "Backend": {"Type": "host-gw"}}"#, "is every address there is"),
            (r#"{"Network": "fd00::/56", "Backend": {"Type": "host-gw"}}"#, "is not a range of IPv4"),
            (r#"{"EnableIPv4": false, "Backend": {"Type": "host-gw"}}"#, "neither EnableIPv4 nor EnableIPv6"),
            (r#"{"Backend": {"Type": "host-gw"}}"#, "Network is missing, and IPv4 is enabled"),
            (
                r#"{"Network": "10.0.0.0/8", "Backend": {"Type": "vxlan", "VNI": 16777216}}"#,
                "Backend.VNI 16777216",
            ),
            (r#"{"Network": "10.0.0.0/8", "Backend": {"Type": "vxlan", "MTU": 70000}}"#, "Backend.MTU 70000"),
        ];
        for (text, why) in cases {
            let said = config(text).expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
