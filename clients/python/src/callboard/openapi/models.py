# SPDX-License-Identifier: Apache-2.0
"""Generated from the description of the HTTP doors by generate.py."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class AllocationName(TypedDict):
    allocationKey: str
    applicationID: str


Amounts: TypeAlias = dict[str, int]


class ApiClusterDrainBody(TypedDict):
    reason: NotRequired[str | None]
    server: str


class ApiClusterMoveBody(TypedDict):
    rm: str
    server: str


class ApiClusterUndrainBody(TypedDict):
    server: str


class ApiPostClusterConfigBody(TypedDict):
    config: NotRequired[str | None]
    force: NotRequired[bool]
    plan: NotRequired[bool]
    settings: NotRequired[dict[str, str | None]]


class ApiPostLogLevelBody(TypedDict):
    level: Literal["debug", "info", "warn", "error"] | None


class ApiQueueDrainBody(TypedDict):
    overwrite: NotRequired[bool]
    reason: NotRequired[str | None]


class ApiQueueResumeBody(TypedDict):
    overwrite: NotRequired[bool]
    reason: NotRequired[str | None]


class ApiQueueStopBody(TypedDict):
    overwrite: NotRequired[bool]
    reason: NotRequired[str | None]


class ApiResourceDrainBody(TypedDict):
    deadline: NotRequired[str | None]
    overwrite: NotRequired[int | None]
    reason: NotRequired[str | None]
    targets: str


class ApiResourceExpirationBody(TypedDict):
    expiration: float


class ApiResourceUndrainBody(TypedDict):
    overwrite: NotRequired[int | None]
    reason: NotRequired[str | None]
    targets: str


class AppRefusal(TypedDict):
    applicationID: str
    reason: str
    time: str


class ApplicationPlan(TypedDict):
    applicationID: str
    queueName: str
    reason: str
    state: str
    user: str


class Apps(TypedDict):
    timestamp: int
    totalApplications: str


class AskState(TypedDict):
    key: str
    node: NotRequired[str | None]
    state: str


class Bucket(TypedDict):
    bucketName: str
    nodeNames: NotRequired[list[str]]
    numOfNodes: NotRequired[int]


class Capacity(TypedDict):
    capacity: NotRequired[Amounts]
    usedCapacity: NotRequired[Amounts]
    utilization: NotRequired[Amounts]


class Check(TypedDict):
    Description: str
    DiagnosisMessage: str
    Name: str
    Succeeded: bool


class Cluster2(TypedDict):
    clusterName: str
    partition: str
    rmBuildInformation: NotRequired[list[dict[str, str]]]
    startTime: NotRequired[int]


class ClusterConfig(TypedDict):
    by: str
    config: NotRequired[str | None]
    settings: dict[str, str]
    since: str


class ClusterDrain(TypedDict):
    by: str
    reason: str
    since: str


class ConfigurationWarning(TypedDict):
    column: int
    line: int
    message: str
    rule: str


class Containers(TypedDict):
    timestamp: int
    totalContainers: str


class DemandRow(TypedDict):
    applications: int
    asks: int
    highestPriority: int
    queueName: str
    resource: dict[str, int]
    waitingSince: str


class DrainedTargets(TypedDict):
    by: list[str]
    deadline: NotRequired[float | None]
    idset: str
    nodelist: str
    operatorReason: NotRequired[str | None]
    reason: NotRequired[str | None]
    timestamp: float


class EnteredState(TypedDict):
    at: str
    state: str


class EtcdStatus(TypedDict):
    bytes: NotRequired[int | None]
    members: str
    trouble: NotRequired[str | None]
    version: NotRequired[str | None]


class ExceededQuota(TypedDict):
    group: NotRequired[str | None]
    limit: int
    preemptedAfterSeconds: NotRequired[int | None]
    queueName: str
    used: int
    user: NotRequired[str | None]
    what: str


class Filter(TypedDict):
    groupExp: NotRequired[str | None]
    groupList: NotRequired[list[str]]
    type: str
    userExp: NotRequired[str | None]
    userList: NotRequired[list[str]]


class FlightMoment(TypedDict):
    index: int | None
    time: str | None


class FlightPoint(TypedDict):
    index: int
    time: str


class FollowStatus(TypedDict):
    applied: int
    fault: NotRequired[str | None]
    rmID: str


class Foreign(TypedDict):
    allocationKey: str
    allocationTags: NotRequired[dict[str, str]]
    allocationTime: NotRequired[int]
    nodeId: NotRequired[str]
    preemptable: NotRequired[bool]
    priority: str
    resource: NotRequired[Amounts]


class GivenOrder(TypedDict):
    by: str
    order: str
    queue: str
    reason: str
    since: str
    state: str


class GroupStatus(TypedDict):
    applied: NotRequired[int | None]
    bytes: int
    epoch: int
    fault: NotRequired[str | None]
    index: int
    lag: NotRequired[float | None]
    leader: str
    led: bool
    maxBytes: int
    rmID: str
    role: str


class History(TypedDict):
    placeholderResource: NotRequired[dict[str, Amounts]]
    preemptedResource: NotRequired[dict[str, Amounts]]
    resourceUsage: NotRequired[dict[str, Amounts]]


class Holder(TypedDict):
    amount: int
    name: str


class Log(TypedDict):
    count: NotRequired[int]
    lastOccurrence: NotRequired[int]
    message: NotRequired[str]


class LogEntry(TypedDict):
    count: int
    last: str
    message: str


class LogLevel(TypedDict):
    environment: NotRequired[str | None]
    level: str
    operator: bool


class MoreGroups(TypedDict):
    asks: int
    groups: int


class NodeAdd(TypedDict):
    count: int
    like: str


class NodeInShort(TypedDict):
    allocations: NotRequired[int]
    drained: NotRequired[str | None]
    drainedSince: NotRequired[str | None]
    host: NotRequired[str | None]
    id: str
    offline: NotRequired[bool]
    rank: NotRequired[int | None]
    reserved: NotRequired[bool]
    torpid: NotRequired[bool]
    used: list[int | None]


class NodesInShort(TypedDict):
    nodes: list[NodeInShort]
    partition: str
    types: list[str]


class NodesInVain(TypedDict):
    drained: int
    full: int
    open: int
    refused: int
    reserved: int
    tooSmall: int


class NodesOfOverview(TypedDict):
    drained: int
    offline: int
    reserved: int
    torpid: int
    total: int


class OpenStream(TypedDict):
    door: str
    kinds: list[str]
    since: str


class OverdueNode(TypedDict):
    allocations: int
    applications: list[str]
    deadline: str
    host: str
    moreApplications: NotRequired[int]
    node: str
    reason: NotRequired[str | None]


PartitionChange: TypeAlias = Literal["added", "kept", "removed"]


class PlaceInLine(TypedDict):
    by: str
    of: int
    place: int
    queue: NotRequired[str | None]
    what: str


class Placeholder(TypedDict):
    count: NotRequired[int]
    minResource: NotRequired[Amounts]
    replaced: NotRequired[int]
    taskGroupName: NotRequired[str]
    timedout: NotRequired[int]


class PlanInShort(TypedDict):
    applications: int
    exceeded: int


Quantity: TypeAlias = int | str


class QueueChange(TypedDict):
    queue: str
    set: dict[str, Quantity]


class QueueLevel(TypedDict):
    guaranteed: NotRequired[Amounts]
    max: NotRequired[Amounts]
    maxRunning: NotRequired[int]
    order: NotRequired[str | None]
    queue: str
    running: int
    used: Amounts


class QueueOrder(TypedDict):
    by: str
    order: str
    queue: str
    reason: str
    since: str


class QueueOrdered(TypedDict):
    queue: str
    state: str
    why: NotRequired[str | None]


class QueueOrders(TypedDict):
    orders: list[GivenOrder]
    partition: str


class ReasonOfOverview(TypedDict):
    applications: int
    asks: int
    code: str
    title: str


class Remedy(TypedDict):
    afterSeconds: float
    allocations: NotRequired[list[AllocationName]]
    copy: NotRequired[str | None]
    kind: str
    nodes: NotRequired[list[str]]
    placedBefore: int
    plan: NotRequired[PlanInShort | None]
    preempted: int
    queue: NotRequired[str | None]
    size: float
    text: str
    who: str


class Request(TypedDict):
    allocationKey: str
    allocationLog: NotRequired[list[Log]]
    allocationTags: NotRequired[dict[str, str]]
    applicationId: NotRequired[str]
    originator: NotRequired[bool]
    placeholder: NotRequired[bool]
    priority: str
    requestTime: NotRequired[int]
    requiredNodeId: NotRequired[str]
    resource: NotRequired[Amounts]
    schedulingAttempted: NotRequired[bool]
    taskGroupName: NotRequired[str]
    triggeredPreemption: NotRequired[bool]
    triggeredScaleUp: NotRequired[bool]


class ResourceManagerOfOverview(TypedDict):
    rmID: str
    since: NotRequired[str | None]
    state: str
    why: NotRequired[str | None]


class Rule(TypedDict):
    filter: NotRequired[Filter | None]
    name: str
    parameters: dict[str, str]
    parentRule: NotRequired[Rule | None]


class ServerOption(TypedDict):
    default: NotRequired[str | None]
    description: str
    environment: NotRequired[str | None]
    name: str
    set: bool
    type: str
    value: str | None


class ServerStatus(TypedDict):
    drained: NotRequired[ClusterDrain | None]
    follows: NotRequired[list[FollowStatus]]
    grpc: str
    http: str
    id: str
    leads: int
    state: str
    version: str


class Setting(TypedDict):
    default: NotRequired[str | None]
    description: str
    key: str
    live: bool
    set: bool
    type: str
    unreadable: NotRequired[str | None]
    value: str | None


SettingChange = TypedDict(
    "SettingChange",
    {
        "from": str | None,
        "setting": str,
        "to": str | None,
    },
)


class SettingsOfResourceManager(TypedDict):
    rmID: str
    settings: list[Setting]


class Shortage(TypedDict):
    available: int
    kept: NotRequired[int | None]
    limit: NotRequired[int | None]
    promised: NotRequired[int | None]
    resource: str
    used: NotRequired[int | None]
    wanted: int


class Sorting(TypedDict):
    resourceWeights: NotRequired[dict[str, float]]
    type: str


class StandbyOfOverview(TypedDict):
    index: int
    lag: float
    leader: str


class State(TypedDict):
    applicationState: str
    time: NotRequired[int]


class StateChange(TypedDict):
    at: str
    state: str
    why: str


class Targets(TypedDict):
    idset: str
    nodelist: str


class TaskGroupInShort(TypedDict):
    live: int
    name: str
    placed: int
    placeholders: int
    replaced: int
    timedOut: int


class Template(TypedDict):
    guaranteedResource: NotRequired[Amounts]
    maxApplications: NotRequired[int]
    maxResource: NotRequired[Amounts]
    properties: NotRequired[dict[str, str]]


class TimelineRow(TypedDict):
    at: str
    count: int
    name: str
    of: str
    text: str


class Trends(TypedDict):
    guaranteed: dict[str, list[int | None]]
    leftOut: NotRequired[bool]
    max: dict[str, list[int | None]]
    pending: dict[str, list[int | None]]
    sampled: NotRequired[str | None]
    times: list[int]
    used: dict[str, list[int | None]]
    waiting: dict[str, list[int | None]]


class Type(TypedDict):
    type: str
    utilization: list[Bucket]


class UnconfirmedRelease(TypedDict):
    ageMilliseconds: int
    allocationKey: str
    applicationID: str
    message: str
    sent: int
    since: str
    terminationType: str


class Usage(TypedDict):
    children: NotRequired[list[Usage]]
    maxApplications: NotRequired[int]
    maxResources: NotRequired[Amounts]
    queuePath: str
    resourceUsage: NotRequired[Amounts]
    runningApplications: NotRequired[list[str]]


class User(TypedDict):
    groups: NotRequired[dict[str, str]]
    queues: Usage
    userName: str


class Utilization(TypedDict):
    clusterId: str
    partition: str
    utilizations: NotRequired[list[Type]]


class Verdict(TypedDict):
    allowed: bool
    reason: NotRequired[str | None]
    warnings: NotRequired[list[ConfigurationWarning]]


Waited = TypedDict(
    "Waited",
    {
        "for": str,
        "kind": str,
        "met": bool,
        "name": str,
        "never": NotRequired[bool],
        "partition": str,
        "state": str,
        "waitedMilliseconds": int,
        "why": NotRequired[str | None],
    },
)


class WaitingOfOverview(TypedDict):
    applications: int
    asks: int
    reasons: list[ReasonOfOverview]


class Warning(TypedDict):
    Description: str
    DiagnosisMessage: str
    Name: str


class WhatIfAsks(TypedDict):
    count: NotRequired[int | None]
    node: NotRequired[str | None]
    preempts: NotRequired[bool | None]
    priority: NotRequired[int | None]
    resource: dict[str, Quantity]


class WhatIfRefused(TypedDict):
    reason: str
    what: str


class WhatIfWaits(TypedDict):
    asks: int
    longestSeconds: float
    p50Seconds: float
    p90Seconds: float


class WhatIfWhole(TypedDict):
    allocations: int
    averageCapacity: dict[str, int]
    averageUsed: dict[str, int]
    capacity: dict[str, int]
    placed: int
    preempted: int
    used: dict[str, int]
    waiting: int
    waits: WhatIfWaits


class WhenPlaced(TypedDict):
    ended: int
    known: int
    outlasting: int
    p50Seconds: NotRequired[float | None]
    p90Seconds: NotRequired[float | None]
    running: int
    runs: int
    text: str


WithoutAndWithMapOfInt64 = TypedDict(
    "WithoutAndWithMapOfInt64",
    {
        "with": dict[str, int],
        "without": dict[str, int],
    },
)


WithoutAndWithNullableDouble = TypedDict(
    "WithoutAndWithNullableDouble",
    {
        "with": float | None,
        "without": float | None,
    },
)


WithoutAndWithNullableString = TypedDict(
    "WithoutAndWithNullableString",
    {
        "with": str | None,
        "without": str | None,
    },
)


WithoutAndWithWhatIfWaits = TypedDict(
    "WithoutAndWithWhatIfWaits",
    {
        "with": WhatIfWaits,
        "without": WhatIfWaits,
    },
)


WithoutAndWithWhatIfWhole = TypedDict(
    "WithoutAndWithWhatIfWhole",
    {
        "with": WhatIfWhole,
        "without": WhatIfWhole,
    },
)


WithoutAndWithBoolean = TypedDict(
    "WithoutAndWithBoolean",
    {
        "with": bool,
        "without": bool,
    },
)


WithoutAndWithUint64 = TypedDict(
    "WithoutAndWithUint64",
    {
        "with": int,
        "without": int,
    },
)


class WsConfigAnswer(TypedDict):
    pass


class Resources(TypedDict):
    value: NotRequired[int]


class Resource(TypedDict):
    resources: NotRequired[dict[str, Resources]]


class EventRecord(TypedDict):
    eventChangeDetail: NotRequired[int]
    eventChangeType: NotRequired[int]
    message: NotRequired[str]
    objectID: NotRequired[str]
    referenceID: NotRequired[str]
    resource: NotRequired[Resource]
    timestampNano: NotRequired[int]
    type: NotRequired[int]


class WsEventsBatchAnswer(TypedDict):
    EventRecords: list[EventRecord] | None
    HighestID: int
    InstanceUUID: str
    LowestID: int


WsSchedulerNodeUtilizationsAnswer: TypeAlias = list[Utilization] | None


class Advice(TypedDict):
    complete: bool
    none: NotRequired[str | None]
    remedies: list[Remedy]
    tried: int


class Allocation(TypedDict):
    allocationDelay: NotRequired[int]
    allocationKey: str
    allocationTags: NotRequired[dict[str, str]]
    allocationTime: NotRequired[int]
    applicationId: NotRequired[str]
    nodeId: NotRequired[str]
    originator: NotRequired[bool]
    placeholder: NotRequired[bool]
    placeholderUsed: NotRequired[bool]
    preempted: NotRequired[bool]
    priority: str
    requestTime: NotRequired[int]
    resource: NotRequired[Amounts]
    taskGroupName: NotRequired[str]


class Application(TypedDict):
    allocations: NotRequired[list[Allocation]]
    applicationID: str
    applicationState: NotRequired[str]
    backoffDeadline: NotRequired[str | None]
    finishedTime: NotRequired[int]
    groups: NotRequired[list[str]]
    hasReserved: NotRequired[bool]
    maxRequestPriority: NotRequired[int]
    maxUsedResource: NotRequired[Amounts]
    partition: str
    pendingResource: NotRequired[Amounts]
    placeholderData: NotRequired[list[Placeholder]]
    queueName: str
    rejectedMessage: NotRequired[str]
    requests: NotRequired[list[Request]]
    reservations: NotRequired[list[str]]
    resourceHistory: History
    startTime: int
    stateLog: NotRequired[list[State]]
    submissionTime: NotRequired[int]
    usedResource: NotRequired[Amounts]
    user: NotRequired[str]


class Cluster(TypedDict):
    etcd: EtcdStatus
    prefix: str
    resourceManagers: list[GroupStatus]
    server: str
    servers: list[ServerStatus]


class Demand(TypedDict):
    demand: list[DemandRow]
    partition: str
    total: dict[str, int]


class Flight(TypedDict):
    differs: NotRequired[int | None]
    ends: NotRequired[str | None]
    first: FlightPoint
    last: FlightPoint
    moment: FlightPoint
    redacted: bool
    rmID: str


class Group(TypedDict):
    applications: NotRequired[list[str]]
    groupName: str
    queues: Usage


class Health(TypedDict):
    HealthChecks: list[Check]
    Healthy: bool
    Warnings: NotRequired[list[Warning]]


class HeldBy(TypedDict):
    applications: list[Holder]
    foreign: NotRequired[int]
    queues: list[Holder]
    resource: NotRequired[str | None]
    total: int
    users: list[Holder]


class Node(TypedDict):
    allocated: NotRequired[Amounts]
    allocations: NotRequired[list[Allocation]]
    attributes: NotRequired[dict[str, str]]
    available: NotRequired[Amounts]
    capacity: NotRequired[Amounts]
    foreignAllocations: NotRequired[list[Foreign]]
    hostName: NotRequired[str]
    isReserved: bool
    nodeID: str
    occupied: NotRequired[Amounts]
    rackName: NotRequired[str]
    reservations: NotRequired[list[str]]
    schedulable: bool
    utilized: NotRequired[Amounts]


class OverdueDrains(TypedDict):
    count: int
    nodes: list[OverdueNode]


class Partition(TypedDict):
    applications: dict[str, int]
    capacity: Capacity
    clusterId: str
    lastStateTransitionTime: NotRequired[int]
    name: str
    nodeSortingPolicy: Sorting
    preemptionEnabled: bool
    quotaPreemptionEnabled: bool
    state: NotRequired[str]
    totalContainers: NotRequired[int]
    totalNodes: NotRequired[int]


class PartitionOfOverview(TypedDict):
    allocations: int
    applications: dict[str, int]
    capacity: Amounts
    faults: NotRequired[list[str]]
    log: NotRequired[str | None]
    name: str
    nodes: NodesOfOverview
    overdue: OverdueDrains
    pending: Amounts
    rm: str
    rmSince: NotRequired[str | None]
    rmState: str
    rmWhy: NotRequired[str | None]
    standby: NotRequired[StandbyOfOverview | None]
    state: str
    used: Amounts
    waiting: WaitingOfOverview


class Queue(TypedDict):
    absUsedCapacity: NotRequired[Amounts]
    allocatedResource: NotRequired[Amounts]
    allocatingAcceptedApps: NotRequired[list[str]]
    childNames: NotRequired[list[str]]
    children: NotRequired[list[Queue]]
    currentPriority: int
    guaranteedResource: NotRequired[Amounts]
    headroom: NotRequired[Amounts]
    isLeaf: bool
    isManaged: bool
    isPreemptionFence: bool
    isPriorityFence: bool
    maxResource: NotRequired[Amounts]
    maxRunningApps: NotRequired[int]
    parent: NotRequired[str]
    partition: str
    pendingResource: NotRequired[Amounts]
    preemptingResource: NotRequired[Amounts]
    preemptionDelay: str
    preemptionEnabled: bool
    priorityOffset: NotRequired[int]
    prioritySorting: bool
    properties: NotRequired[dict[str, str]]
    queuename: str
    quotaPreemptionDelay: str
    runningApps: NotRequired[int]
    sortingPolicy: str
    status: NotRequired[str]
    template: NotRequired[Template | None]


class QueueDoor(TypedDict):
    admitted: int
    empty: bool
    managed: bool
    order: NotRequired[QueueOrder | None]
    partition: str
    queue: str
    refusals: list[AppRefusal]
    refused: int
    state: str


class QueuePlan(TypedDict):
    applications: int
    change: str
    queueName: str
    settings: list[SettingChange]


class Reason(TypedDict):
    code: str
    group: NotRequired[str | None]
    node: NotRequired[str | None]
    nodes: NotRequired[NodesInVain | None]
    queue: NotRequired[str | None]
    short: NotRequired[list[Shortage]]
    text: str
    user: NotRequired[str | None]


class Releases(TypedDict):
    partition: str
    releases: list[UnconfirmedRelease]


class ResourceManager(TypedDict):
    buffered: int
    deliveredSequence: int
    epoch: int
    failing: NotRequired[str | None]
    full: NotRequired[str | None]
    history: list[StateChange]
    lastSequence: int
    partitions: list[str]
    policyGroup: str
    predicates: str
    registered: str | None
    rmID: str
    state: str
    streams: list[OpenStream]
    unread: str | None


class ResourceStatus(TypedDict):
    R: NotRequired[Any]
    all: Targets
    allocated: Targets
    drained: list[DrainedTargets]
    faults: list[str]
    offline: Targets
    online: Targets
    overdue: OverdueDrains
    streams: int
    torpid: Targets


class Settings(TypedDict):
    options: list[ServerOption]
    resourceManagers: list[SettingsOfResourceManager]
    server: list[Setting]


class Timeline(TypedDict):
    complete: bool
    rows: list[TimelineRow]


class WaitingGroup(TypedDict):
    advice: NotRequired[Advice | None]
    asks: int
    first: str
    heldBy: NotRequired[HeldBy | None]
    line: list[PlaceInLine]
    log: list[LogEntry]
    placeholder: NotRequired[bool]
    priority: int
    reason: Reason
    resource: Amounts
    since: str
    taskGroup: NotRequired[str]
    when: NotRequired[WhenPlaced | None]


class WhatIfApplication(TypedDict):
    applicationID: NotRequired[str]
    asks: list[WhatIfAsks]
    gang: NotRequired[str | None]
    groups: NotRequired[list[str]]
    queue: NotRequired[str]
    tags: NotRequired[dict[str, str]]
    user: NotRequired[str]


class WhatIfFate(TypedDict):
    allocations: WithoutAndWithUint64
    applicationID: str
    firstSeconds: WithoutAndWithNullableDouble
    later: int
    new: bool
    placedOnly: WithoutAndWithUint64
    preempted: WithoutAndWithUint64
    queueName: str
    sooner: int
    state: WithoutAndWithNullableString
    user: str
    waiting: WithoutAndWithUint64
    why: NotRequired[str | None]


class WhatIfQueue(TypedDict):
    pending: WithoutAndWithMapOfInt64
    queueName: str
    running: WithoutAndWithUint64
    there: WithoutAndWithBoolean
    used: WithoutAndWithMapOfInt64
    waits: WithoutAndWithWhatIfWaits


WhatIfRecorded = TypedDict(
    "WhatIfRecorded",
    {
        "from": str,
        "placed": int,
        "to": str,
        "waits": WhatIfWaits,
    },
)


WhatIfRequest = TypedDict(
    "WhatIfRequest",
    {
        "config": NotRequired[str | None],
        "for": NotRequired[str | None],
        "nodeAdd": NotRequired[list[NodeAdd]],
        "nodeDrain": NotRequired[list[str]],
        "nodeUndrain": NotRequired[list[str]],
        "queue": NotRequired[list[QueueChange]],
        "submit": NotRequired[list[WhatIfApplication]],
    },
)


class ApplicationInShort(TypedDict):
    allocations: int
    applicationID: str
    asks: NotRequired[int]
    finished: NotRequired[str | None]
    message: NotRequired[str | None]
    pending: NotRequired[Amounts]
    placeholders: NotRequired[int]
    queueName: str
    reason: NotRequired[Reason | None]
    reasons: NotRequired[int]
    state: str
    submitted: str
    used: NotRequired[Amounts]
    user: str
    waitingSince: NotRequired[str | None]


class ApplicationsInShort(TypedDict):
    applications: list[ApplicationInShort]
    matched: int
    partition: str
    total: int


class Explained(TypedDict):
    advice: NotRequired[Advice | None]
    allocations: int
    applicationID: str
    ask: NotRequired[AskState | None]
    groups: list[str]
    message: NotRequired[str | None]
    more: NotRequired[MoreGroups | None]
    partition: str
    pending: Amounts
    queueName: str
    queues: list[QueueLevel]
    state: str
    stateLog: list[EnteredState]
    submitted: str
    tags: dict[str, str]
    taskGroups: list[TaskGroupInShort]
    timeline: NotRequired[Timeline | None]
    used: Amounts
    user: str
    userAvailable: NotRequired[Amounts | None]
    waiting: list[WaitingGroup]


class Overview(TypedDict):
    nextEvent: int | None
    now: str
    partitions: list[PartitionOfOverview]
    resourceManagers: list[ResourceManagerOfOverview]
    role: str
    unanswered: NotRequired[list[str]]
    version: str


class PartitionPlan(TypedDict):
    applications: list[ApplicationPlan]
    change: PartitionChange
    exceeded: list[ExceededQuota]
    more: NotRequired[int]
    partition: str
    queues: list[QueuePlan]
    settings: list[SettingChange]


class Plan(TypedDict):
    checksum: str
    partitions: list[PartitionPlan]
    rmID: str
    unchanged: bool
    warnings: list[ConfigurationWarning]


class WhatIf(TypedDict):
    applications: list[WhatIfFate]
    complete: bool
    copy: NotRequired[str | None]
    ends: str
    forSeconds: float
    moreApplications: int
    moreQueues: int
    partition: str
    queues: list[WhatIfQueue]
    recorded: NotRequired[WhatIfRecorded | None]
    refused: NotRequired[list[WhatIfRefused]]
    seenSeconds: float
    warnings: NotRequired[list[ConfigurationWarning]]
    whole: WithoutAndWithWhatIfWhole


class ClusterConfigChange(TypedDict):
    applied: bool
    config: ClusterConfig
    plans: list[Plan]
