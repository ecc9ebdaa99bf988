//! `si.v1.Scheduler`.

use std::sync::Arc;

use tonic::{Request, Response, Status, Streaming};

use super::{
    guard, keyed,
    plain::{ALLOCATIONS, APPLICATIONS, NODES, Outgoing, Plain, serve},
    status,
};
use crate::{
    actors::topology::{Registration, Topology},
    messages::rm::Predicates,
    si::{codec::Wire, intake::MAX_ENTRIES, service::Scheduler, v1},
};

/// The service.
pub struct SchedulerDoor {
    /// The wiring.
    pub topology: Arc<Topology>,
}

impl SchedulerDoor {
    fn stream<T: Send + 'static>(
        &self,
        plain: Plain<T>,
        request: Request<Streaming<Wire>>,
    ) -> Result<Response<Outgoing<T>>, Status> {
        let (caller, arrived) = (guard::caller(request.extensions())?, guard::arrived(request.extensions()));
        let traced = guard::traced(request.extensions());
        Ok(Response::new(serve(plain, self.topology.clone(), caller, arrived, traced, request.into_inner())))
    }
}

#[tonic::async_trait]
impl Scheduler for SchedulerDoor {
    async fn register_resource_manager(
        &self,
        request: Request<Wire>,
    ) -> Result<Response<v1::RegisterResourceManagerResponse>, Status> {
        let caller = guard::caller(request.extensions())?;
        let sender = guard::sender(request.extensions());
        let detail = guard::detail(request.extensions());
        let asked = keyed::asked(request.metadata(), "RegisterResourceManagerRequest", &request.get_ref().0)?;
        let request =
            request.into_inner().message("RegisterResourceManagerRequest", &[], MAX_ENTRIES).map_err(status::fault)?;
        let request: v1::RegisterResourceManagerRequest = request;
        detail.tell(format!("resource manager {}", request.rm_id));
        caller.acts_for(&request.rm_id)?;
        let registration = Registration {
            rm: request.rm_id,
            version: request.version,
            policy_group: request.policy_group,
            build_info: request.build_info,
            config: request.config,
            extra: request.extra_config,
            // The extension stream says whether the shim wants to be asked.
            predicates: Predicates::Off,
            state_dump: false,
            sender,
            asked,
        };
        let register = self.topology.register(registration);
        let registered = status::guarded(async { register.await.map_err(status::refusals) }).await?;
        detail.tell(registered.notes.audited());
        Ok(status::noted(v1::RegisterResourceManagerResponse {}, &registered.notes))
    }

    type UpdateAllocationStream = Outgoing<v1::AllocationResponse>;

    async fn update_allocation(
        &self,
        request: Request<Streaming<Wire>>,
    ) -> Result<Response<Self::UpdateAllocationStream>, Status> {
        self.stream(ALLOCATIONS, request)
    }

    type UpdateApplicationStream = Outgoing<v1::ApplicationResponse>;

    async fn update_application(
        &self,
        request: Request<Streaming<Wire>>,
    ) -> Result<Response<Self::UpdateApplicationStream>, Status> {
        self.stream(APPLICATIONS, request)
    }

    type UpdateNodeStream = Outgoing<v1::NodeResponse>;

    async fn update_node(&self, request: Request<Streaming<Wire>>) -> Result<Response<Self::UpdateNodeStream>, Status> {
        self.stream(NODES, request)
    }
}
