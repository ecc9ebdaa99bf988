//! The clients of this project, given several addresses: they find the leader, and go on at the next.

use callboard::{
    cli::client::{Callbacks, Incoming, Message, http::HttpShim, trust::Trust},
    si::v1::{
        AddApplicationRequest, Allocation, AllocationRequest, ApplicationRequest, NodeInfo, NodeRequest, Quantity,
        RegisterResourceManagerRequest, Resource, UserGroupInformation, node_info::ActionFromRm,
    },
};

use crate::{
    cluster::rig::{self, NEVER, sees, start},
    common::LIMIT,
    shim::server::CONFIG,
};

fn memory(value: i64) -> Option<Resource> {
    Some(Resource { resources: [("memory".to_owned(), Quantity { value })].into() })
}

fn asks(keys: &[&str]) -> AllocationRequest {
    let ask = |key: &&str| Allocation {
        allocation_key: key.to_string(),
        application_id: "app".into(),
        partition_name: "default".into(),
        resource_per_alloc: memory(1),
        ..Default::default()
    };
    AllocationRequest { rm_id: "rm-1".into(), allocations: keys.iter().map(ask).collect(), ..Default::default() }
}

/// Reads until this key is allocated; gives how often the stream was taken up again.
async fn allocated(callbacks: &mut Callbacks, wanted: &str) -> usize {
    let mut resumed = 0;
    loop {
        let next = tokio::time::timeout(LIMIT, callbacks.recv()).await.expect("in time").expect("not over");
        match next {
            Incoming::Resumed => resumed += 1,
            Incoming::Ended(error) => panic!("{error}"),
            Incoming::Message { message: Message::Allocation(response), .. } => {
                if response.new.iter().any(|new| new.allocation_key == wanted) {
                    return resumed;
                }
            }
            Incoming::Message { .. } => {}
        }
    }
}

#[tokio::test]
async fn a_shim_with_several_addresses_goes_on_at_the_next_server() {
    let Some(etcd) = rig::etcd("a_shim_with_several_addresses_goes_on_at_the_next_server") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (mut first, second) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    let urls = format!("{},{}", first.url(""), second.url(""));
    let register = RegisterResourceManagerRequest { rm_id: "rm-1".into(), config: CONFIG.into(), ..Default::default() };
    let (shim, mut callbacks) = HttpShim::register(&urls, &Trust::default(), register).await.expect("registered");
    let node = NodeInfo {
        node_id: "n1".into(),
        action: ActionFromRm::Create.into(),
        schedulable_resource: memory(1_000),
        ..Default::default()
    };
    shim.nodes(NodeRequest { rm_id: "rm-1".into(), nodes: vec![node] }).await.expect("taken");
    let app = AddApplicationRequest {
        application_id: "app".into(),
        queue_name: "root.a".into(),
        partition_name: "default".into(),
        ugi: Some(UserGroupInformation { user: "u".into(), groups: vec!["g".into()] }),
        ..Default::default()
    };
    shim.applications(ApplicationRequest { rm_id: "rm-1".into(), new: vec![app], remove: Vec::new() })
        .await
        .expect("taken");
    shim.allocations(asks(&["k1"])).await.expect("taken");
    assert_eq!(allocated(&mut callbacks, "k1").await, 0);
    // While the other takes over, the shim waits for it.
    first.program.kill();
    shim.allocations(asks(&["k2"])).await.expect("taken by the other");
    assert!(allocated(&mut callbacks, "k2").await > 0);
    // And back again, by hand-over: the second knows where the first is.
    let data = one.path().display().to_string();
    let at = urls.split(',').next().expect("an address").trim_start_matches("http://");
    let args = ["--data", &data, "--cluster", &etcd.url(), "--http", at];
    let _first = crate::shim::server::Server::start(&args);
    sees(&second, 2).await;
    second.program.signal("TERM");
    assert_eq!(second.program.ended().await, Some(0));
    shim.allocations(asks(&["k3"])).await.expect("taken by the first");
    assert!(allocated(&mut callbacks, "k3").await > 0);
    shim.unregister().await.expect("ended");
}
