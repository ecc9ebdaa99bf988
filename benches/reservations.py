#!/usr/bin/env python3
"""Makes the table of docs/performance.md that shows what reservations give and cost.

  benches/reservations.py PROGRAM --dlrm FILE --openb NODES PODS [--days N]

Each trace is played in process on its own clock, with reservations and without, so the table is the same on every machine.
The days are generated (`generate --size 2`, seeds from 1000 on) and filled with copies of batch and research jobs, begun up to
two hours before or after, until their load is 90 to 130 % of the cluster; of the mixed ones, one batch job in eight has
tasks of 16 or 32 cores.
"""

import argparse
import concurrent.futures
import csv
import io
import json
import os
import pathlib
import random
import subprocess
import tempfile

DAY = 24 * 3600
GROWS = ("batch-", "research-")


def run(program, *arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


def replay(program, *arguments):
    """Summaries of a trace without and with reservations."""
    return [json.loads(run(program, "replay", "--json", *arguments, *more)) for more in (["--no-reservations"], [])]


def denser(pods, times, to):
    """A pod file whose pods arrive so many times as densely, and run as long as before."""
    with open(pods, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        start = int(row["creation_time"])
        for column in ("deletion_time", "scheduled_time"):
            if row[column]:
                row[column] = start // times + int(row[column]) - start
        row["creation_time"] = start // times
    with open(to, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def day(program, seed, load, mixed, to):
    """A generated day that asks for so many times what the cluster has."""
    chance = random.Random(seed)
    lines = run(program, "generate", "--seed", str(seed), "--size", "2").splitlines()
    lines = [line for line in lines if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    amounts = ("cpu_milli", "memory_mib", "gpu_milli")
    whole = {name: sum(int(row[name] or 0) for row in rows if row["kind"] == "node") * DAY for name in amounts}
    jobs = {}
    for row in rows:
        if row["kind"] == "ask":
            jobs.setdefault(row["application"], []).append(row)
    if mixed:
        for name in sorted(jobs):
            if name.startswith("batch-") and chance.randrange(8) == 0:
                cores = chance.choice((16_000, 32_000))
                for row in jobs[name]:
                    row["cpu_milli"] = cores
    area = dict.fromkeys(amounts, 0)

    def count(job):
        for row in job:
            for name in amounts:
                area[name] += int(row[name] or 0) * (int(row["end_s"] or DAY) - int(row["start_s"]))

    for job in jobs.values():
        count(job)
    kinds = sorted(name for name in jobs if name.startswith(GROWS))
    copies = 0
    while max(area[name] / whole[name] for name in amounts) < load:
        source, shift = chance.choice(kinds), chance.randint(-7200, 7200)
        shift = max(shift, -min(int(row["start_s"]) for row in jobs[source]))
        copies += 1
        copy = []
        for row in jobs[source]:
            row = dict(row, application=f"{row['application']}-c{copies}", start_s=int(row["start_s"]) + shift)
            row["key" if "key" in row else "id"] += f"-c{copies}"
            row["end_s"] = int(row["end_s"]) + shift
            copy.append(row)
        count(copy)
        rows += copy
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    pathlib.Path(to).write_text(text.getvalue())


def of_day(program, seed, load, mixed):
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "day.csv")
        day(program, seed, load, mixed, file)
        return replay(program, "--file", file)


def line(name, without, with_them, each=True):
    """A row of the table; of several traces the sum of placements and the mean of the rest."""

    def placed(summaries):
        return f"{sum(summary['placed'] for summary in summaries):,}"

    def used(summaries):
        shares = [[resource["average"] for resource in summary["resources"]] for summary in summaries]
        if each:
            return ", ".join(f"{share:.1f}" for share in shares[0])
        return f"{sum(sum(share) / len(share) for share in shares) / len(shares):.1f}"

    def wait(summaries):
        return f"{sum(summary['wait_large_ms'] for summary in summaries) / len(summaries) / 1000:,.0f} s"

    cells = [cell for of in (placed, used, wait) for cell in (of(without), of(with_them))]
    print("| " + " | ".join([name, *cells]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="callboard, built for release")
    parser.add_argument("--dlrm", metavar="FILE", help="instance file of the DLRM trace")
    parser.add_argument("--openb", nargs=2, metavar=("NODES", "PODS"), help="files of the openb trace")
    parser.add_argument("--days", type=int, default=100, help="generated days of each kind (default: 100)")
    args = parser.parse_args()
    program = os.path.abspath(args.program)

    print("| trace | placed without | with | use without | with | wait without | with |")
    print("|---|---:|---:|---|---|---:|---:|")
    if args.dlrm:
        for name, more in (("DLRM", []), ("DLRM as gangs", ["--gangs"])):
            without, with_them = replay(program, "--trace", "dlrm", "--pods", args.dlrm, *more)
            line(f"{name}, {with_them['asks']:,} asks", [without], [with_them])
    if args.openb:
        nodes, pods = args.openb
        for times in (50, 100):
            with tempfile.TemporaryDirectory() as directory:
                file = os.path.join(directory, "pods.csv")
                denser(pods, times, file)
                without, with_them = replay(program, "--trace", "openb", "--nodes", nodes, "--pods", file)
            line(f"openb, {with_them['asks']:,} asks, {times} times as dense", [without], [with_them])
    counts = []
    for name, mixed in (("sizes mixed", True), ("as generated", False)):
        loads = [0.9 + 0.4 * at / max(args.days - 1, 1) for at in range(args.days)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            days = list(pool.map(lambda at: of_day(program, 1000 + at, loads[at], mixed), range(args.days)))
        if days:
            line(f"{args.days} days, 90 to 130 % load, {name}", *zip(*days), each=False)
            gains = [with_them["placed"] - without["placed"] for without, with_them in days]
            counts.append((name, sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)))
    for name, more, fewer in counts:
        print(f"\nDays, {name}: {more} place more with reservations, {fewer} fewer.")


if __name__ == "__main__":
    main()
