//! Compiles the two protocol files without protoc: `protox` parses them, `tonic-prost-build` generates messages and
//! services, `pbjson-build` their proto3 JSON mapping. The descriptor set is kept for gRPC reflection.

use std::{env, fs, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["si/v1/si.proto", "callboard/v1/callboard.proto"];
    for file in files {
        println!("cargo:rerun-if-changed=proto/{file}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = protox::compile(files, ["proto"])?;
    let bytes = descriptors.encode_to_vec();
    fs::write(out.join("callboard_descriptor.bin"), &bytes)?;

    tonic_prost_build::configure().compile_fds(descriptors)?;

    pbjson_build::Builder::new().register_descriptors(&bytes)?.build(&[".si.v1", ".callboard.v1"])?;
    Ok(())
}
