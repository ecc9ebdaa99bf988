#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A whole shim: runs shell commands on this machine, each when Callboard gives it room.

python shim.py 127.0.0.1:9090 'sleep 1; echo one' 'echo two'
"""

import asyncio
import os
import sys

from callboard import Client, Options, ResourceManagerCallback, si

CONFIG = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: commands}]}]}]"
RM, APP, NODE = "commands", "app-1", os.uname().nodename
# What ended since the scheduler wanted it is confirmed with the same type.
CONFIRMED = {si.TerminationType.TIMEOUT, si.TerminationType.PREEMPTED_BY_SCHEDULER, si.TerminationType.PLACEHOLDER_REPLACED}


class Shim(ResourceManagerCallback):
    def __init__(self, client: Client, commands: dict[str, str]) -> None:
        self.client, self.commands = client, commands
        self.running: dict[str, asyncio.subprocess.Process] = {}
        self.reasons: dict[str, si.TerminationType.ValueType] = {}
        self.watches: set[asyncio.Task[None]] = set()
        self.left = asyncio.Queue[str]()

    async def update_allocation(self, response: si.AllocationResponse) -> None:
        for new in response.new:
            self.running[new.allocationKey] = await asyncio.create_subprocess_shell(self.commands[new.allocationKey])
            self.watches.add(asyncio.create_task(self.watch(new.allocationKey)))
        for released in response.released:
            process = self.running.get(released.allocationKey)
            if process and process.returncode is None and released.terminationType in CONFIRMED:
                self.reasons[released.allocationKey] = released.terminationType
                process.kill()
        for rejected in response.rejectedAllocations:
            self.left.put_nowait(f"{rejected.allocationKey} was rejected: {rejected.reason}")

    async def predicates(self, args: si.PredicatesArgs) -> str | None:
        return None if args.nodeID == NODE else f"{args.nodeID} is another machine"

    async def watch(self, key: str) -> None:
        status = await self.running[key].wait()
        await self.release(key, self.reasons.get(key, si.TerminationType.STOPPED_BY_RM))
        self.left.put_nowait(f"{key} ended with status {status}")

    async def release(self, key: str, why: si.TerminationType.ValueType) -> None:
        going = si.AllocationRelease(partitionName="default", applicationID=APP, allocationKey=key, terminationType=why)
        releases = si.AllocationReleasesRequest(allocationsToRelease=[going])
        await self.client.update_allocation(si.AllocationRequest(rmID=RM, releases=releases))


async def main(addr: str, commands: list[str]) -> None:
    async with Client(Options(addrs=[addr])) as client:
        shim = Shim(client, {f"task-{n}": command for n, command in enumerate(commands, 1)})
        registration = si.RegisterResourceManagerRequest(rmID=RM, policyGroup="queues", config=CONFIG)
        await client.register_resource_manager(registration, shim)
        room = si.Resource(resources={"vcore": si.Quantity(value=1000 * (os.cpu_count() or 1))})
        node = si.NodeInfo(nodeID=NODE, action=si.NodeInfo.CREATE, schedulableResource=room)
        await client.update_node(si.NodeRequest(rmID=RM, nodes=[node]))
        app = si.AddApplicationRequest(applicationID=APP, queueName="root.commands", ugi=si.UserGroupInformation(user="me"))
        await client.update_application(si.ApplicationRequest(rmID=RM, new=[app]))
        size = si.Resource(resources={"vcore": si.Quantity(value=1000)})
        asks = [si.Allocation(allocationKey=key, applicationID=APP, resourcePerAlloc=size) for key in shim.commands]
        await client.update_allocation(si.AllocationRequest(rmID=RM, allocations=asks))
        for _ in asks:
            # In one piece, whatever the commands print meanwhile.
            print(f"{await shim.left.get()}\n", end="", flush=True)
        await client.unregister()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} HOST:PORT COMMAND...")
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
