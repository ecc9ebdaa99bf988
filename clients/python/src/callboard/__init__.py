# SPDX-License-Identifier: Apache-2.0
"""Puts a shim on a Callboard server, with asyncio.

`si` holds the messages of the scheduler interface, `Client` is the scheduler, `ResourceManagerCallback` what a shim does about
what it is told.
"""

from callboard.callback import ResourceManagerCallback
from callboard.client import Client
from callboard.errors import (
    CallboardError,
    LostError,
    NotRegisteredError,
    ProblemError,
    RefusedError,
    StoppedError,
    TooLargeError,
    UnreachableError,
)
from callboard.options import TLS, Metrics, Options
from callboard.proto.si.v1 import si_pb2 as si
from callboard.rest import Rest
from callboard.stats import Stats

__all__ = [
    "TLS",
    "CallboardError",
    "Client",
    "LostError",
    "Metrics",
    "NotRegisteredError",
    "Options",
    "ProblemError",
    "RefusedError",
    "ResourceManagerCallback",
    "Rest",
    "Stats",
    "StoppedError",
    "TooLargeError",
    "UnreachableError",
    "si",
]
