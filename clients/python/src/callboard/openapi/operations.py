# SPDX-License-Identifier: Apache-2.0
"""Generated from the description of the HTTP doors by generate.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal, cast

from callboard.door import Door, quote
from callboard.openapi import models


class Api(Door):
    """Paths under `/api/v1/`."""

    def audit(
        self, *, from_: int | None = None, follow: bool | None = None, redact: bool | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """GET `/api/v1/audit`."""
        return self._lines("GET", f"/api/v1/audit", query={"from": from_, "follow": follow, "redact": redact})

    async def cluster(self) -> models.Cluster:
        """GET `/api/v1/cluster`."""
        return cast("models.Cluster", await self._call("GET", f"/api/v1/cluster"))

    async def cluster_config(self) -> models.ClusterConfig:
        """GET `/api/v1/cluster/config`."""
        return cast("models.ClusterConfig", await self._call("GET", f"/api/v1/cluster/config"))

    async def post_cluster_config(self, body: models.ApiPostClusterConfigBody) -> models.ClusterConfigChange:
        """POST `/api/v1/cluster/config`."""
        return cast("models.ClusterConfigChange", await self._call("POST", f"/api/v1/cluster/config", json=body))

    async def cluster_drain(self, body: models.ApiClusterDrainBody) -> models.Cluster:
        """POST `/api/v1/cluster/drain`."""
        return cast("models.Cluster", await self._call("POST", f"/api/v1/cluster/drain", json=body))

    async def cluster_move(self, body: models.ApiClusterMoveBody) -> models.Cluster:
        """POST `/api/v1/cluster/move`."""
        return cast("models.Cluster", await self._call("POST", f"/api/v1/cluster/move", json=body))

    async def cluster_undrain(self, body: models.ApiClusterUndrainBody) -> models.Cluster:
        """POST `/api/v1/cluster/undrain`."""
        return cast("models.Cluster", await self._call("POST", f"/api/v1/cluster/undrain", json=body))

    def events(
        self,
        *,
        from_: int | None = None,
        count: int | None = None,
        last: int | None = None,
        before: int | None = None,
        follow: bool | None = None,
        rm: str | None = None,
        object: str | None = None,
        children: bool | None = None,
        type: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """GET `/api/v1/events`."""
        return self._lines(
            "GET",
            f"/api/v1/events",
            query={
                "from": from_,
                "count": count,
                "last": last,
                "before": before,
                "follow": follow,
                "rm": rm,
                "object": object,
                "children": children,
                "type": type,
                "since": since,
                "until": until,
            },
        )

    async def flight(self) -> models.Flight:
        """GET `/api/v1/flight`."""
        return cast("models.Flight", await self._call("GET", f"/api/v1/flight"))

    async def post_flight(self, body: models.FlightMoment) -> models.Flight:
        """POST `/api/v1/flight`."""
        return cast("models.Flight", await self._call("POST", f"/api/v1/flight", json=body))

    async def log_level(self) -> models.LogLevel:
        """GET `/api/v1/log/level`."""
        return cast("models.LogLevel", await self._call("GET", f"/api/v1/log/level"))

    async def post_log_level(self, body: models.ApiPostLogLevelBody) -> models.LogLevel:
        """POST `/api/v1/log/level`."""
        return cast("models.LogLevel", await self._call("POST", f"/api/v1/log/level", json=body))

    async def overview(self) -> models.Overview:
        """GET `/api/v1/overview`."""
        return cast("models.Overview", await self._call("GET", f"/api/v1/overview"))

    async def application_explain(
        self,
        partition: str,
        application: str,
        *,
        ask: str | None = None,
        remedies: bool | None = None,
        timeline: bool | None = None,
    ) -> models.Explained:
        """GET `/api/v1/partition/{partition}/application/{application}/explain`."""
        return cast(
            "models.Explained",
            await self._call(
                "GET",
                f"/api/v1/partition/{quote(partition)}/application/{quote(application)}/explain",
                query={"ask": ask, "remedies": remedies, "timeline": timeline},
            ),
        )

    async def application_wait(
        self, partition: str, application: str, *, for_: Literal["running", "completed", "placed"], timeout: str | None = None
    ) -> models.Waited:
        """GET `/api/v1/partition/{partition}/application/{application}/wait`."""
        return cast(
            "models.Waited",
            await self._call(
                "GET",
                f"/api/v1/partition/{quote(partition)}/application/{quote(application)}/wait",
                query={"for": for_, "timeout": timeout},
            ),
        )

    async def applications(
        self,
        partition: str,
        *,
        list: Literal["active", "completed", "rejected"] | None = None,
        queue: str | None = None,
        user: str | None = None,
        state: str | None = None,
        reason: str | None = None,
        text: str | None = None,
        waiting: bool | None = None,
        sort: str | None = None,
        limit: int | None = None,
    ) -> models.ApplicationsInShort:
        """GET `/api/v1/partition/{partition}/applications`."""
        return cast(
            "models.ApplicationsInShort",
            await self._call(
                "GET",
                f"/api/v1/partition/{quote(partition)}/applications",
                query={
                    "list": list,
                    "queue": queue,
                    "user": user,
                    "state": state,
                    "reason": reason,
                    "text": text,
                    "waiting": waiting,
                    "sort": sort,
                    "limit": limit,
                },
            ),
        )

    async def demand(self, partition: str) -> models.Demand:
        """GET `/api/v1/partition/{partition}/demand`."""
        return cast("models.Demand", await self._call("GET", f"/api/v1/partition/{quote(partition)}/demand"))

    async def node_wait(
        self, partition: str, node: str, *, for_: Literal["empty", "online", "drained"], timeout: str | None = None
    ) -> models.Waited:
        """GET `/api/v1/partition/{partition}/node/{node}/wait`."""
        return cast(
            "models.Waited",
            await self._call(
                "GET", f"/api/v1/partition/{quote(partition)}/node/{quote(node)}/wait", query={"for": for_, "timeout": timeout}
            ),
        )

    async def nodes(self, partition: str, *, node: str | None = None) -> models.NodesInShort:
        """GET `/api/v1/partition/{partition}/nodes`."""
        return cast(
            "models.NodesInShort", await self._call("GET", f"/api/v1/partition/{quote(partition)}/nodes", query={"node": node})
        )

    async def orders(self, partition: str) -> models.QueueOrders:
        """GET `/api/v1/partition/{partition}/orders`."""
        return cast("models.QueueOrders", await self._call("GET", f"/api/v1/partition/{quote(partition)}/orders"))

    async def queue(self, partition: str, queue: str) -> models.QueueDoor:
        """GET `/api/v1/partition/{partition}/queue/{queue}`."""
        return cast("models.QueueDoor", await self._call("GET", f"/api/v1/partition/{quote(partition)}/queue/{quote(queue)}"))

    async def queue_drain(self, partition: str, queue: str, body: models.ApiQueueDrainBody) -> models.QueueOrdered:
        """POST `/api/v1/partition/{partition}/queue/{queue}/drain`."""
        return cast(
            "models.QueueOrdered",
            await self._call("POST", f"/api/v1/partition/{quote(partition)}/queue/{quote(queue)}/drain", json=body),
        )

    async def queue_resume(self, partition: str, queue: str, body: models.ApiQueueResumeBody) -> models.QueueOrdered:
        """POST `/api/v1/partition/{partition}/queue/{queue}/resume`."""
        return cast(
            "models.QueueOrdered",
            await self._call("POST", f"/api/v1/partition/{quote(partition)}/queue/{quote(queue)}/resume", json=body),
        )

    async def queue_stop(self, partition: str, queue: str, body: models.ApiQueueStopBody) -> models.QueueOrdered:
        """POST `/api/v1/partition/{partition}/queue/{queue}/stop`."""
        return cast(
            "models.QueueOrdered",
            await self._call("POST", f"/api/v1/partition/{quote(partition)}/queue/{quote(queue)}/stop", json=body),
        )

    async def queue_wait(
        self, partition: str, queue: str, *, for_: Literal["empty", "room"], timeout: str | None = None
    ) -> models.Waited:
        """GET `/api/v1/partition/{partition}/queue/{queue}/wait`."""
        return cast(
            "models.Waited",
            await self._call(
                "GET", f"/api/v1/partition/{quote(partition)}/queue/{quote(queue)}/wait", query={"for": for_, "timeout": timeout}
            ),
        )

    async def releases(self, partition: str) -> models.Releases:
        """GET `/api/v1/partition/{partition}/releases`."""
        return cast("models.Releases", await self._call("GET", f"/api/v1/partition/{quote(partition)}/releases"))

    async def resource_drain(self, partition: str, body: models.ApiResourceDrainBody) -> dict[str, Any]:
        """POST `/api/v1/partition/{partition}/resource/drain`."""
        return cast("dict[str, Any]", await self._call("POST", f"/api/v1/partition/{quote(partition)}/resource/drain", json=body))

    async def resource_expiration(self, partition: str, body: models.ApiResourceExpirationBody) -> dict[str, Any]:
        """POST `/api/v1/partition/{partition}/resource/expiration`."""
        return cast(
            "dict[str, Any]", await self._call("POST", f"/api/v1/partition/{quote(partition)}/resource/expiration", json=body)
        )

    def resource_journal(
        self, partition: str, *, historical: bool | None = None, follow: bool | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """GET `/api/v1/partition/{partition}/resource/journal`."""
        return self._lines(
            "GET", f"/api/v1/partition/{quote(partition)}/resource/journal", query={"historical": historical, "follow": follow}
        )

    async def resource_journal_cancel(self, partition: str, stream: str) -> dict[str, Any]:
        """POST `/api/v1/partition/{partition}/resource/journal/{stream}/cancel`."""
        return cast(
            "dict[str, Any]",
            await self._call("POST", f"/api/v1/partition/{quote(partition)}/resource/journal/{quote(stream)}/cancel"),
        )

    async def resource_status(self, partition: str) -> models.ResourceStatus:
        """GET `/api/v1/partition/{partition}/resource/status`."""
        return cast("models.ResourceStatus", await self._call("GET", f"/api/v1/partition/{quote(partition)}/resource/status"))

    async def resource_undrain(self, partition: str, body: models.ApiResourceUndrainBody) -> dict[str, Any]:
        """POST `/api/v1/partition/{partition}/resource/undrain`."""
        return cast(
            "dict[str, Any]", await self._call("POST", f"/api/v1/partition/{quote(partition)}/resource/undrain", json=body)
        )

    async def trends(
        self,
        partition: str,
        *,
        of: Literal["partition", "queue", "user", "group", "node"] | None = None,
        name: str | None = None,
        queue: str | None = None,
        since: str | None = None,
        until: str | None = None,
        step: str | None = None,
    ) -> models.Trends:
        """GET `/api/v1/partition/{partition}/trends`."""
        return cast(
            "models.Trends",
            await self._call(
                "GET",
                f"/api/v1/partition/{quote(partition)}/trends",
                query={"of": of, "name": name, "queue": queue, "since": since, "until": until, "step": step},
            ),
        )

    def usage_history(
        self,
        partition: str,
        *,
        by: Literal["user", "group", "queue"],
        queue: str | None = None,
        since: str | None = None,
        until: str | None = None,
        step: str | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """GET `/api/v1/partition/{partition}/usage/history`."""
        return self._lines(
            "GET",
            f"/api/v1/partition/{quote(partition)}/usage/history",
            query={"by": by, "queue": queue, "since": since, "until": until, "step": step},
        )

    async def plan(self, body: str, *, rm: str | None = None) -> models.Plan:
        """POST `/api/v1/plan`."""
        return cast("models.Plan", await self._call("POST", f"/api/v1/plan", query={"rm": rm}, text=body))

    async def settings(self) -> models.Settings:
        """GET `/api/v1/settings`."""
        return cast("models.Settings", await self._call("GET", f"/api/v1/settings"))

    async def whatif(self, body: models.WhatIfRequest, *, partition: str | None = None) -> models.WhatIf:
        """POST `/api/v1/whatif`."""
        return cast("models.WhatIf", await self._call("POST", f"/api/v1/whatif", query={"partition": partition}, json=body))


class Ws(Door):
    """Paths under `/ws/v1/`."""

    async def clusters(self) -> list[models.Cluster2]:
        """GET `/ws/v1/clusters`."""
        return cast("list[models.Cluster2]", await self._call("GET", f"/ws/v1/clusters"))

    async def config(self, *, rm: str | None = None) -> models.WsConfigAnswer:
        """GET `/ws/v1/config`."""
        return cast("models.WsConfigAnswer", await self._call("GET", f"/ws/v1/config", query={"rm": rm}))

    async def events_batch(self, *, count: int | None = None, start: int | None = None) -> models.WsEventsBatchAnswer:
        """GET `/ws/v1/events/batch`."""
        return cast(
            "models.WsEventsBatchAnswer", await self._call("GET", f"/ws/v1/events/batch", query={"count": count, "start": start})
        )

    async def history_apps(self) -> list[models.Apps]:
        """GET `/ws/v1/history/apps`."""
        return cast("list[models.Apps]", await self._call("GET", f"/ws/v1/history/apps"))

    async def history_containers(self) -> list[models.Containers]:
        """GET `/ws/v1/history/containers`."""
        return cast("list[models.Containers]", await self._call("GET", f"/ws/v1/history/containers"))

    async def application(self, partition: str, application: str) -> models.Application:
        """GET `/ws/v1/partition/{partition}/application/{application}`."""
        return cast(
            "models.Application", await self._call("GET", f"/ws/v1/partition/{quote(partition)}/application/{quote(application)}")
        )

    async def applications(self, partition: str, state: str, *, status: str | None = None) -> list[models.Application]:
        """GET `/ws/v1/partition/{partition}/applications/{state}`."""
        return cast(
            "list[models.Application]",
            await self._call("GET", f"/ws/v1/partition/{quote(partition)}/applications/{quote(state)}", query={"status": status}),
        )

    async def node(self, partition: str, node: str) -> models.Node:
        """GET `/ws/v1/partition/{partition}/node/{node}`."""
        return cast("models.Node", await self._call("GET", f"/ws/v1/partition/{quote(partition)}/node/{quote(node)}"))

    async def nodes(self, partition: str) -> list[models.Node]:
        """GET `/ws/v1/partition/{partition}/nodes`."""
        return cast("list[models.Node]", await self._call("GET", f"/ws/v1/partition/{quote(partition)}/nodes"))

    async def placementrules(self, partition: str) -> list[models.Rule]:
        """GET `/ws/v1/partition/{partition}/placementrules`."""
        return cast("list[models.Rule]", await self._call("GET", f"/ws/v1/partition/{quote(partition)}/placementrules"))

    async def queue(self, partition: str, queue: str, *, subtree: str | None = None) -> models.Queue:
        """GET `/ws/v1/partition/{partition}/queue/{queue}`."""
        return cast(
            "models.Queue",
            await self._call("GET", f"/ws/v1/partition/{quote(partition)}/queue/{quote(queue)}", query={"subtree": subtree}),
        )

    async def queue_application(self, partition: str, queue: str, application: str) -> models.Application:
        """GET `/ws/v1/partition/{partition}/queue/{queue}/application/{application}`."""
        return cast(
            "models.Application",
            await self._call("GET", f"/ws/v1/partition/{quote(partition)}/queue/{quote(queue)}/application/{quote(application)}"),
        )

    async def queue_applications(self, partition: str, queue: str) -> list[models.Application]:
        """GET `/ws/v1/partition/{partition}/queue/{queue}/applications`."""
        return cast(
            "list[models.Application]",
            await self._call("GET", f"/ws/v1/partition/{quote(partition)}/queue/{quote(queue)}/applications"),
        )

    async def queue_applications_state(
        self, partition: str, queue: str, state: str, *, status: str | None = None
    ) -> list[models.Application]:
        """GET `/ws/v1/partition/{partition}/queue/{queue}/applications/{state}`."""
        return cast(
            "list[models.Application]",
            await self._call(
                "GET",
                f"/ws/v1/partition/{quote(partition)}/queue/{quote(queue)}/applications/{quote(state)}",
                query={"status": status},
            ),
        )

    async def queues(self, partition: str) -> models.Queue:
        """GET `/ws/v1/partition/{partition}/queues`."""
        return cast("models.Queue", await self._call("GET", f"/ws/v1/partition/{quote(partition)}/queues"))

    async def usage_group(self, partition: str, group: str) -> models.Group:
        """GET `/ws/v1/partition/{partition}/usage/group/{group}`."""
        return cast("models.Group", await self._call("GET", f"/ws/v1/partition/{quote(partition)}/usage/group/{quote(group)}"))

    async def usage_groups(self, partition: str) -> list[models.Group]:
        """GET `/ws/v1/partition/{partition}/usage/groups`."""
        return cast("list[models.Group]", await self._call("GET", f"/ws/v1/partition/{quote(partition)}/usage/groups"))

    async def usage_user(self, partition: str, user: str) -> models.User:
        """GET `/ws/v1/partition/{partition}/usage/user/{user}`."""
        return cast("models.User", await self._call("GET", f"/ws/v1/partition/{quote(partition)}/usage/user/{quote(user)}"))

    async def usage_users(self, partition: str) -> list[models.User]:
        """GET `/ws/v1/partition/{partition}/usage/users`."""
        return cast("list[models.User]", await self._call("GET", f"/ws/v1/partition/{quote(partition)}/usage/users"))

    async def partitions(self) -> list[models.Partition]:
        """GET `/ws/v1/partitions`."""
        return cast("list[models.Partition]", await self._call("GET", f"/ws/v1/partitions"))

    async def scheduler_healthcheck(self) -> models.Health:
        """GET `/ws/v1/scheduler/healthcheck`."""
        return cast("models.Health", await self._call("GET", f"/ws/v1/scheduler/healthcheck"))

    async def scheduler_node_utilizations(self) -> models.WsSchedulerNodeUtilizationsAnswer:
        """GET `/ws/v1/scheduler/node-utilizations`."""
        return cast("models.WsSchedulerNodeUtilizationsAnswer", await self._call("GET", f"/ws/v1/scheduler/node-utilizations"))

    async def validate_conf(self, body: str) -> models.Verdict:
        """POST `/ws/v1/validate-conf`."""
        return cast("models.Verdict", await self._call("POST", f"/ws/v1/validate-conf", text=body))


class Si(Door):
    """Paths under `/si/v1/`."""

    async def rms(self) -> list[models.ResourceManager]:
        """GET `/si/v1/rm`."""
        return cast("list[models.ResourceManager]", await self._call("GET", f"/si/v1/rm"))

    async def rm(self, rm: str) -> models.ResourceManager:
        """GET `/si/v1/rm/{rm}`."""
        return cast("models.ResourceManager", await self._call("GET", f"/si/v1/rm/{quote(rm)}"))
