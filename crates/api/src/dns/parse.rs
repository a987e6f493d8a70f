//! From objects to the values that decisions rest on.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use causeway_core::ObjectKey;
use causeway_core::dns::annotation::{Entry, Routes};
use causeway_core::dns::deployment::{ROUTES, Script};
use causeway_core::dns::vpc_dns::{COREFILE as USUAL, of_deployment};
use causeway_core::dns::{Corefile, Deployment, Forward, ForwardStatus, VpcDns};
use causeway_core::names::parse_address;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::Value;

use super::forward::{LooseForward, VpcDnsForwardSpec, VpcDnsForwardStatus};
use super::{ABANDON, COREFILE, INIT_ROUTE, RECORD, record, workload};
use crate::condition;
use crate::meta::{annotation, key};
use crate::vpc::foreign::kube_ovn;

/// How the name of an annotation with a switch ends, after its provider.
const SWITCH: &str = ".kubernetes.io/logical_switch";
/// The default subnet, which is a switch too.
pub const DEFAULT_SUBNET: &str = "ovn-default";
/// The longest name that an annotation's first part may have.
const PREFIX_MAX: usize = 253;

/// A forward, as any definition lets it be: what makes no sense is carried as the sentence that says why. Nothing for an
/// object whose name is none.
pub fn forward(object: &LooseForward) -> Option<Forward> {
    let meta = &object.metadata;
    Some(Forward {
        key: key(meta)?,
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        abandon: annotation(meta, ABANDON) == Some("true"),
        vpc: vpc(&object.spec),
        status: status(object.status()),
    })
}

fn vpc(spec: &Value) -> Result<String, String> {
    let spec = VpcDnsForwardSpec::deserialize(spec)
        .map_err(|why| format!("the object cannot be read: {}", few(&why.to_string())))?;
    match is_name(&spec.vpc) {
        true => Ok(spec.vpc),
        false => Err(format!(
            "spec.vpc `{}` is not a name: use lower-case letters, digits, `-` and `.`",
            few(&spec.vpc)
        )),
    }
}

/// Whether an object of the cluster can be called so.
fn is_name(text: &str) -> bool {
    ObjectKey::new("any", text).is_ok()
}

/// Others' words as far as anybody wants to read them: they may be of any length, and a condition's message may not.
fn few(text: &str) -> &str {
    const ENOUGH: usize = 256;
    &text[..text.floor_char_boundary(ENOUGH)]
}

fn status(status: VpcDnsForwardStatus) -> ForwardStatus {
    ForwardStatus {
        vpc: status.vpc,
        vpc_dns: status.vpc_dns,
        kube_dns: status.kube_dns,
        gateway: status.gateway,
        // What is no name is nobody's ConfigMap.
        corefiles: status.corefiles.into_iter().filter(|name| is_name(name)).collect(),
        observed_generation: status.observed_generation,
        conditions: condition::read(&status.conditions),
    }
}

/// A DNS server; nothing for one that is of no VPC.
pub fn vpc_dns(object: &kube_ovn::VpcDns) -> Option<VpcDns> {
    let status = object.status.clone().unwrap_or_default();
    let corefile = object.spec.corefile.clone().filter(|name| is_name(name));
    Some(VpcDns {
        vpc: object.spec.vpc.clone()?,
        active: status.active == Some(true),
        corefile: corefile.unwrap_or_else(|| USUAL.to_owned()),
    })
}

/// A Deployment of a DNS server; nothing for any other.
pub fn deployment(object: &workload::Deployment) -> Option<Deployment> {
    of_deployment(object.metadata.name.as_deref()?)?;
    let meta = &object.metadata;
    let pods =
        object.spec.template.metadata.as_ref().and_then(|meta| meta.annotations.clone()).unwrap_or_default();
    let inits = object.spec.template.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let init = inits.into_iter().find(|container| container.name == INIT_ROUTE);
    let written = annotation(meta, RECORD);
    Some(Deployment {
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        record: written.and_then(record::read),
        has_record: meta.annotations.as_ref().is_some_and(|all| all.contains_key(RECORD)),
        has_copy: pods.contains_key(RECORD),
        script: init.map(script),
        providers: pods
            .iter()
            .filter(|(_, switch)| *switch == DEFAULT_SUBNET)
            .filter_map(provider_of)
            .collect(),
        routes: pods.iter().filter(|(key, _)| key.ends_with(ROUTES)).map(routes).collect(),
    })
}

fn script(container: &workload::Container) -> Result<Script, String> {
    let none = || format!("its init container {INIT_ROUTE} runs no script of a shell (-c)");
    container.script().ok_or_else(none)
}

fn provider_of((key, _): (&String, &String)) -> Option<String> {
    key.strip_suffix(SWITCH).filter(|provider| is_provider(provider)).map(str::to_owned)
}

fn routes((key, text): (&String, &String)) -> (String, Routes) {
    let read = serde_json::from_str::<Vec<Value>>(text);
    let routes = match read {
        Ok(entries) => {
            let field = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let entries = entries.iter().map(|it| Entry { dst: field(it, "dst"), gw: field(it, "gw") });
            Routes::List { text: text.clone(), entries: entries.collect() }
        }
        Err(why) => Routes::Unreadable(few(&why.to_string()).to_owned()),
    };
    (key.clone(), routes)
}

/// A ConfigMap with a Corefile.
pub fn corefile(object: &ConfigMap) -> Option<Corefile> {
    Some(Corefile {
        resource_version: object.resource_version().unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        text: object.data.as_ref().and_then(|data| data.get(COREFILE)).cloned(),
    })
}

/// The IPv4 address of a Service, or why there is none.
pub fn address(object: &workload::Service) -> Result<Ipv4Addr, String> {
    let many = object.spec.cluster_ips.iter().flatten();
    let mut all = many.chain(&object.spec.cluster_ip);
    let address = all.find_map(|text| text.parse::<Ipv4Addr>().ok()).filter(|it| !it.is_unspecified());
    address.ok_or_else(|| format!("Service kube-system/{} has no IPv4 address", object.name_any()))
}

/// The IPv4 gateway of a subnet, or why there is none.
pub fn gateway(object: &kube_ovn::Subnet) -> Result<Ipv4Addr, String> {
    let gateway = object.spec.gateway.as_deref().unwrap_or_default();
    let usable = parse_address(gateway).ok().filter(|it| !it.is_unspecified());
    usable.ok_or_else(|| {
        format!("Subnet {} has no IPv4 gateway: spec.gateway is `{}`", object.name_any(), few(gateway))
    })
}

/// The provider of the default network that kube-ovn is configured with.
pub fn provider(object: &ConfigMap) -> Option<String> {
    let data: &BTreeMap<String, String> = object.data.as_ref()?;
    data.get("nad-provider")
        .map(|provider| provider.trim().to_owned())
        .filter(|provider| is_provider(provider))
}

/// Whether the name of an annotation can begin so.
fn is_provider(text: &str) -> bool {
    is_name(text) && text.len() + ".kubernetes.io".len() <= PREFIX_MAX
}
