//! Compiles the protocol file of etcd without protoc: what is said to it, the client's side only. Names the commit where the build says
//! which it is of, so that two builds of a version can be told apart.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/etcd/rpc.proto");
    println!("cargo:rerun-if-env-changed=CALLBOARD_COMMIT");
    let commit = std::env::var("CALLBOARD_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    println!("cargo:rustc-env=CALLBOARD_BUILD={}{commit}", env!("CARGO_PKG_VERSION"));
    let etcd = protox::compile(["etcd/rpc.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(etcd)?;
    Ok(())
}
