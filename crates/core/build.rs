//! Messages of the room `rules`, from the protocol's definitions.

use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

const FILES: [&str; 7] = [
    "transport/v1.proto",
    "common/v1.proto",
    "fault_tolerance/v1.proto",
    "router/v1.proto",
    "envoy/core.proto",
    "envoy/matcher.proto",
    "envoy/route.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    prost_build::Config::new().enable_type_names().include_file("messages.rs").compile_fds(descriptors)?;
    Ok(())
}
