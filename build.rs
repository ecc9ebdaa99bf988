//! Compiles the protocol file of etcd without protoc: what is said to it, the client's side only.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/etcd/rpc.proto");
    let etcd = protox::compile(["etcd/rpc.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(etcd)?;
    Ok(())
}
