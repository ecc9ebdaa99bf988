#!/usr/bin/env python3
"""A small resource manager for the tutorials: python3 shim.py [--server URL] [--config FILE] < SCENE

It registers with Callboard, plays the lines of a scene, and does what every resource manager has to do with the answers:
it starts what was placed, and ends, and says so, what Callboard wants ended. Nothing but Python and its own library is needed.

    node node-1 memory=16G vcore=8           a node with this capacity
    app etl root.batch alice,staff           an application: id, queue, user and groups; "gang:memory=4G,vcore=4" for a gang,
                                             "tag:namespace=web" for a tag
    ask etl task x3 memory=1G vcore=1        three asks; also priority=N, group=NAME (task group), placeholder, waited=60s
    release etl task-1                       one of them has ended
    wait 3 task                              until three allocations run whose key begins with "task"
    config FILE                              another queue configuration, from now on
    show                                     what runs and what waits
"""
import argparse, json, sys, threading, time, urllib.request

RM = "tutorial"
UNITS = {"k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


class Shim:
    def __init__(self, server, config):
        self.server, self.running, self.asked, self.known, self.seq = server, {}, {}, set(), 0
        self.changed = threading.Condition()
        self.post("", {"rmID": RM, "version": "1", "policyGroup": "queues", "config": config})
        threading.Thread(target=self.follow, daemon=True).start()

    def post(self, path, body, method="POST"):
        """Sends a request. What is wrong with it as a whole comes back at once, all else on the stream."""
        request = urllib.request.Request(
            f"{self.server}/si/v1/rm{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            sys.exit(f"{path or 'registration'} was refused: {json.load(refused)['detail']}")

    def send(self, kind, **items):
        self.post(f"/{RM}/{kind}", {"rmID": RM, **items})

    def follow(self):
        """Reads callbacks for as long as the server is there. A lost stream goes on where it ended: `after` is the last
        line that was handled."""
        while True:
            try:
                with urllib.request.urlopen(f"{self.server}/si/v1/rm/{RM}/stream?after={self.seq}") as lines:
                    for line in lines:
                        if line.strip():
                            self.handle(json.loads(line))
            except urllib.error.HTTPError as refused:
                if refused.code in (404, 409, 410):
                    # A resource manager that is to live for longer registers again here, and tells what runs.
                    print(f"gone      {json.load(refused)['detail']}")
                    return
                time.sleep(0.2)
            except (OSError, ValueError):
                time.sleep(0.2)

    def handle(self, line):
        """One callback. The order of the lines is the order of what happened, so they are handled one after the other."""
        confirm = []
        with self.changed:
            for new in line.get("allocation", {}).get("new", []):
                self.running[new["allocationKey"]] = new
                print(f"started   {new['allocationKey']} on {new['nodeID']}")
            for gone in line.get("allocation", {}).get("released", []):
                key, kind = gone["allocationKey"], gone.get("terminationType", "UNKNOWN_TERMINATION_TYPE")
                self.running.pop(key, None)
                self.asked.get(gone["applicationID"], set()).discard(key)
                print(f"ended     {key} {kind}")
                if kind in ("PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED", "TIMEOUT"):
                    # Callboard waits for this: until then what is to end still counts.
                    confirm.append({name: gone[name] for name in ("applicationID", "allocationKey", "terminationType")})
            for taken in line.get("application", {}).get("accepted", []):
                self.known.add(taken["applicationID"])
            for refused in line.get("application", {}).get("rejected", []):
                self.known.add(refused["applicationID"])
                self.asked.pop(refused["applicationID"], None)
                print(f"rejected  {refused['applicationID']}: {refused['reason']}")
            for refused in line.get("allocation", {}).get("rejectedAllocations", []):
                print(f"rejected  {refused['allocationKey']}: {refused['reason']}")
            self.seq = line.get("seq", self.seq)
            self.changed.notify_all()
        if confirm:
            releases = [{"partitionName": "default", **release} for release in confirm]
            self.send("allocations", releases={"allocationsToRelease": releases})

    def until(self, what, true, limit=60):
        with self.changed:
            if not self.changed.wait_for(true, limit):
                sys.exit(f"{what}: not within {limit} s")

    def wait(self, count, prefix=""):
        running = lambda: sum(key.startswith(prefix) for key in self.running)
        self.until(f"{count} running {prefix}", lambda: running() == count)

    def show(self):
        with self.changed:
            for app, keys in self.asked.items():
                here = sorted(key for key in keys if key in self.running)
                waits = len(keys) - len(here)
                print(f"{app} in {self.queue(app)}: {len(here)} run, {waits} wait")

    def queue(self, app):
        with urllib.request.urlopen(f"{self.server}/ws/v1/partition/default/application/{app}") as answer:
            return json.load(answer)["queueName"]


def quantity(kind, text):
    number = text.rstrip("kMGi")
    amount = int(number) * UNITS.get(text[len(number) :], 1)
    return {"value": str(amount * 1000 if kind == "vcore" else amount)}


def resource(words):
    pairs = (word.split("=", 1) for word in words)
    return {"resources": {kind: quantity(kind, text) for kind, text in pairs}}


def play(shim, line):
    what, *words = line.split()
    match what:
        case "node":
            node = {"nodeID": words[0], "action": "CREATE", "schedulableResource": resource(words[1:])}
            shim.send("nodes", nodes=[node])
        case "app":
            name, queue, who, *more = words
            user, *groups = who.split(",")
            app = {"applicationID": name, "queueName": queue, "partitionName": "default", "ugi": {"user": user}}
            app["ugi"]["groups"] = groups or [user]
            for word in more:
                if word.startswith("tag:"):
                    app.setdefault("tags", {}).update([word.removeprefix("tag:").split("=", 1)])
                else:
                    app |= {"placeholderAsk": resource(word.removeprefix("gang:").split(",")), "gangSchedulingStyle": "Hard"}
            shim.asked[name] = set()
            shim.send("applications", new=[app])
            shim.until(f"an answer about {name}", lambda: name in shim.known)
        case "ask":
            app, name, *rest = words
            count = int(rest.pop(0)[1:]) if rest[0].startswith("x") else 0
            ask = {"applicationID": app, "partitionName": "default", "placeholder": "placeholder" in rest}
            options = dict(word.split("=", 1) for word in rest if "=" in word)
            ask["priority"], ask["taskGroupName"] = int(options.pop("priority", 0)), options.pop("group", "")
            waited = int(options.pop("waited", "0s").removesuffix("s"))
            ask["allocationTags"] = {"creationTime": str(int(time.time()) - waited)} if waited else {}
            ask["preemptionPolicy"] = {"allowPreemptSelf": True, "allowPreemptOther": True}
            ask["resourcePerAlloc"] = resource(f"{kind}={text}" for kind, text in options.items())
            keys = [f"{name}-{n}" for n in range(1, count + 1)] if count else [name]
            shim.asked[app].update(keys)
            shim.send("allocations", allocations=[{"allocationKey": key, **ask} for key in keys])
        case "release":
            release = {"partitionName": "default", "applicationID": words[0], "allocationKey": words[1]}
            release["terminationType"] = "STOPPED_BY_RM"
            shim.running.pop(words[1], None)
            shim.asked[words[0]].discard(words[1])
            shim.send("allocations", releases={"allocationsToRelease": [release]})
        case "wait":
            shim.wait(int(words[0]), *words[1:])
        case "config":
            shim.post(f"/{RM}/configuration", {"rmID": RM, "policyGroup": "queues", "config": open(words[0]).read()}, "PUT")
        case "show":
            shim.show()
        case _:
            sys.exit(f"what is {line!r}?")


if __name__ == "__main__":
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--server", default="http://127.0.0.1:9080")
    options.add_argument("--config")
    args = options.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    the_shim = Shim(args.server, open(args.config).read() if args.config else "")
    for scene_line in sys.stdin:
        if scene_line.strip() and not scene_line.startswith("#"):
            play(the_shim, scene_line)
