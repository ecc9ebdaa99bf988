# SPDX-License-Identifier: Apache-2.0
"""Makes the types and methods of the REST interface from the server's description of its HTTP doors.

Texts of the description are left out: what is checked in changes where the interface does, and not where its words do.
"""

from __future__ import annotations

import json
import keyword
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

Json = dict[str, Any]

# Prefixes of paths, and the class that gets them. Shims use /si/v1 by the client, so it is only read here.
DOORS = {"/api/v1/": "Api", "/ws/v1/": "Ws", "/si/v1/": "Si"}
LEFT_OUT = {"/api/v1/openapi.json", "/ws/v1/stack", "/ws/v1/fullstatedump", "/ws/v1/events/stream"}
JSON, LINES = "application/json", "application/x-ndjson"
PREFIX = "#/components/schemas/"


def description(program: str) -> Json:
    """What this server says of its doors."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CALLBOARD_", "RUST_LOG"))}
    flags = ["serve", "--ephemeral", "--http", "127.0.0.1:0", "--grpc", "off"]
    with subprocess.Popen([program, *flags], env=clean, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            ready = server.stdout.readline()
            if not (address := re.search(r" http=(\S+)", ready)):
                sys.exit(f"{program} does not start: {ready!r}")
            without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with without_proxy.open(f"http://{address[1]}/api/v1/openapi.json", timeout=60) as answer:
                told: Json = json.load(answer)
                return told
        finally:
            server.kill()


class Operations:
    """The methods, and the schemas that they use."""

    def __init__(self, told: Json) -> None:
        """Reads all operations."""
        self.schemas: Json = {_plain(name): schema for name, schema in told["components"]["schemas"].items()}
        self.used: set[str] = set()
        self.methods: dict[str, list[str]] = {name: [] for name in DOORS.values()}
        names: dict[str, set[str]] = {name: set() for name in DOORS.values()}
        for path, methods in sorted(told["paths"].items()):
            for prefix, door in DOORS.items():
                if path.startswith(prefix) and path not in LEFT_OUT:
                    for verb, operation in sorted(methods.items()):
                        if verb == "get" or door != "Si":
                            self._operation(door, verb, path, operation, names[door])

    def _operation(self, door: str, verb: str, path: str, operation: Json, names: set[str]) -> None:
        told = (answer.get("content") for code, answer in operation["responses"].items() if code[0] == "2")
        answer: Json = next(filter(None, told), {})
        if JSON not in answer and (LINES not in answer or path.endswith("/stream")):
            return
        name = _name(door, verb, path, names)
        names.add(name)
        stem = door + "".join(word.capitalize() for word in name.split("_"))
        required, query = ["self"], []
        optional: list[str] = []
        for parameter in operation.get("parameters", []):
            wire, schema = parameter["name"], parameter["schema"]
            python = wire + "_" if keyword.iskeyword(wire) else wire
            if parameter["in"] == "path":
                required.append(f"{python}: str")
            elif parameter["in"] == "query":
                query.append(f'"{wire}": {python}')
                if parameter.get("required"):
                    optional.insert(0, f"{python}: {_scalar(schema)}")
                else:
                    optional.append(f"{python}: {_scalar(schema)} | None = None")
        arguments = [f'"{verb.upper()}"', 'f"' + re.sub(r"{(\w+)}", r"{quote(\1)}", path) + '"']
        if query:
            arguments.append(f"query={{{', '.join(query)}}}")
        for kind, body in operation.get("requestBody", {}).get("content", {}).items():
            if kind == JSON:
                required.append(f"body: {self._type(stem + 'Body', body['schema'])}")
                arguments.append("json=body")
            else:
                required.append("body: str")
                arguments.append("text=body")
        if optional:
            required += ["*", *optional]
        text = f'        """{verb.upper()} `{path}`."""'
        if LINES in answer:
            head = f"    def {name}({', '.join(required)}) -> AsyncIterator[dict[str, Any]]:"
            self.methods[door].append(f"{head}\n{text}\n        return self._lines({', '.join(arguments)})")
            return
        result = self._type(stem + "Answer", answer[JSON].get("schema", {}))
        head = f"    async def {name}({', '.join(required)}) -> {result}:"
        self.methods[door].append(f"{head}\n{text}\n        return cast({result!r}, await self._call({', '.join(arguments)}))")

    def _type(self, name: str, schema: Json) -> str:
        """The type of a schema, which gets this name where it has none."""
        if reference := schema.get("$ref"):
            name = _plain(reference.removeprefix(PREFIX))
        elif schema.get("type") == "array" and "$ref" in schema["items"]:
            return f"list[{self._type(name, schema['items'])}]"
        elif schema.get("maxProperties") == 0:
            return "dict[str, Any]"
        else:
            self.schemas[name] = schema
        self._use(name)
        return f"models.{name}"

    def _use(self, name: str) -> None:
        if name not in self.used:
            self.used.add(name)
            for inner in re.findall(rf'"{PREFIX}([^"]+)"', json.dumps(self.schemas[name])):
                self._use(_plain(inner))

    def description(self) -> str:
        """The schemas that are used, as a description of its own."""
        schemas = {name: _bare(self.schemas[name]) for name in sorted(self.used)}
        frame = {"openapi": "3.1.0", "info": {"title": "", "version": ""}, "paths": {}}
        return json.dumps(frame | {"components": {"schemas": schemas}})

    def python(self) -> str:
        """The module with the methods."""
        head = (
            "# SPDX-License-Identifier: Apache-2.0\n"
            '"""Generated from the description of the HTTP doors by generate.py."""\n\n'
            "from __future__ import annotations\n\n"
            "from collections.abc import AsyncIterator\nfrom typing import Any, Literal, cast\n\n"
            "from callboard.door import Door, quote\nfrom callboard.openapi import models\n"
        )
        classes = [
            f'\n\nclass {door}(Door):\n    """Paths under `{prefix}`."""\n\n' + "\n\n".join(self.methods[door])
            for prefix, door in DOORS.items()
        ]
        return head + "".join(classes) + "\n"


def _plain(name: str) -> str:
    """`si.v1.Allocation` as `SiAllocation`: beside it there is another `Allocation`."""
    return name.replace("si.v1.", "Si")


def _name(door: str, verb: str, path: str, taken: set[str]) -> str:
    """What is asked for, in the words of the path; the verb too where something else is called so."""
    words = [word for word in path.split("/")[3:] if word and word[0] != "{"]
    if words[0] == "partition" and len(words) > 1:
        words = words[1:]
    name = "_".join(words).replace("-", "_")
    if door == "Si" and not path.endswith("}"):
        name += "s"
    if name in taken:
        name = f"{verb}_{name}" if verb != "get" else name + "_" + path.split("/")[-1].strip("{}")
    return name


def _scalar(schema: Json) -> str:
    """The type of a parameter."""
    if values := schema.get("enum"):
        return "bool" if set(values) == {"true", "false"} else f"Literal[{', '.join(map(repr, values))}]"
    return {"integer": "int", "number": "float", "boolean": "bool"}.get(schema.get("type", ""), "str")


def _bare(schema: Any) -> Any:
    """A schema without its texts and limits, which no type says."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(reference := schema.get("$ref"), str):
        return {"$ref": PREFIX + _plain(reference.removeprefix(PREFIX))}
    kept: Json = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: _bare(one) for name, one in sorted(value.items())}
        elif key == "additionalProperties" and value is False:
            # A type that is closed is for newer Pythons.
            continue
        elif key in ("type", "enum", "required", "items", "additionalProperties", "anyOf", "oneOf", "allOf", "const"):
            kept[key] = sorted(value) if key == "required" else _bare(value)
    return kept


def generate(out: Path, program: str) -> None:
    """Writes the package into this folder."""
    operations = Operations(description(program))
    (out / "__init__.py").write_text('"""Generated from the description of the HTTP doors by generate.py."""\n')
    (out / "operations.py").write_text(operations.python())
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "openapi.json"), Path(folder, "models.py")
        given.write_text(operations.description())
        command = [sys.executable, "-W", "ignore", "-m", "datamodel_code_generator", f"--input={given}", f"--output={made}"]
        command += ["--input-file-type=openapi", "--output-model-type=typing.TypedDict", "--target-python-version=3.11"]
        command += ["--use-union-operator", "--use-standard-collections", "--enum-field-as-literal=all", "--disable-timestamp"]
        command += ["--formatters", "ruff-format", "--disable-warnings"]
        subprocess.run(command, check=True)
        text = made.read_text()
    text = text[text.index("from __future__") :].replace("from typing_extensions import TypedDict\n", "")
    text = text.replace("from typing import ", "from typing import TypedDict, ", 1)
    head = '# SPDX-License-Identifier: Apache-2.0\n"""Generated from the description of the HTTP doors by generate.py."""\n\n'
    (out / "models.py").write_text(head + text)
    for command in (["check", "--fix", "--select=I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--isolated", "--line-length=130", str(out)]
        subprocess.run(ruff, check=True)
