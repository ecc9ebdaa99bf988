//! Compiles the protocol files without protoc: `protox` parses them, `tonic-prost-build` generates messages and
//! clients, `pbjson-build` their proto3 JSON mapping. The descriptor set is kept for gRPC reflection. The services take messages as
//! bytes (`codec`), so that these are counted before anything is made of them.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use prost::Message as _;
use tonic_prost_build::{FileDescriptorSet, manual};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["si/v1/si.proto", "callboard/v1/callboard.proto"];
    for file in files {
        println!("cargo:rerun-if-changed=proto/{file}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = protox::compile(files, ["proto"])?;
    let bytes = descriptors.encode_to_vec();
    fs::write(out.join("callboard_descriptor.bin"), &bytes)?;

    let services = services(&descriptors);
    tonic_prost_build::configure().build_server(false).btree_map(".").compile_fds(descriptors)?;
    manual::Builder::new().build_client(false).compile(&services);

    let mut json = pbjson_build::Builder::new();
    json.btree_map(["."]).register_descriptors(&bytes)?.build(&[".si.v1", ".callboard.v1"])?;
    keep_numbers(&out.join("si.v1.serde.rs"))?;
    Ok(())
}

/// Numbers of enums are taken as they come, as the wire has them, also those that nothing is called by.
fn keep_numbers(file: &Path) -> io::Result<()> {
    let keeps = |line: &str| match (line.split_once("next_value::<"), line.strip_suffix(">()? as i32);")) {
        (Some((before, _)), Some(whole)) => {
            let name = &whole[before.len() + "next_value::<".len()..];
            format!("{before}next_value::<crate::decode::Number<{name}>>()?.0);\n")
        }
        _ => format!("{line}\n"),
    };
    let text = fs::read_to_string(file)?;
    fs::write(file, text.lines().map(keeps).collect::<String>())
}

/// The services of the files, whose methods take bytes.
fn services(descriptors: &FileDescriptorSet) -> Vec<manual::Service> {
    let mut services = Vec::new();
    for file in &descriptors.file {
        for service in &file.service {
            let mut built = manual::Service::builder().name(service.name()).package(file.package());
            for method in &service.method {
                // `.si.v1.NodeResponse` is `crate::v1::NodeResponse`, `.callboard.v1.Call` is `crate::ext::Call`.
                let output = method.output_type().replace(".si.v1.", "crate::v1::");
                let output = output.replace(".callboard.v1.", "crate::ext::");
                let mut one = manual::Method::builder()
                    .name(snake(method.name()))
                    .route_name(method.name())
                    .input_type("crate::codec::Wire")
                    .output_type(output)
                    .codec_path("crate::codec::WireCodec");
                if method.client_streaming() {
                    one = one.client_streaming();
                }
                if method.server_streaming() {
                    one = one.server_streaming();
                }
                built = built.method(one.build());
            }
            services.push(built.build());
        }
    }
    services
}

/// `UpdateNode` as `update_node`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}
