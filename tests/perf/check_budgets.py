#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints which figures of budgets.toml are short of their must, and, with --goals, of their goal. Exit code 1 if a must is short.
Of the operators' sweep it prints each case that is short of its class's bound.

  tests/perf/check_budgets.py [--goals] [--all] [--json]
  tests/perf/check_budgets.py --pages [--write]     the tables of the pages: exit code 1 if one is not what budgets.toml says

A page has a table between <!-- budgets: ID --> and <!-- /budgets -->.
"""

from __future__ import annotations

import argparse
import json
import re
import sys

import budgets

PAGES = ["README.md", "tests/perf/RESULTS.md"]
BLOCK = re.compile(r"<!-- budgets: (\S+) -->.*?<!-- /budgets -->", re.S)


def check_pages(tables: dict[str, budgets.Table], write: bool) -> int:
    stale, shown = 0, set()
    for name in PAGES:
        page = budgets.HERE.parents[1] / name
        text = page.read_text()

        def table(match: re.Match) -> str:
            if match[1] not in tables:
                sys.exit(f"{name}: budgets.toml has no table '{match[1]}'; it has {', '.join(tables)}")
            shown.add(match[1])
            return f"<!-- budgets: {match[1]} -->\n\n{tables[match[1]].markdown()}\n\n<!-- /budgets -->"

        made = BLOCK.sub(table, text)
        if made == text:
            continue
        if write:
            page.write_text(made)
        else:
            stale += 1
            print(f"{name}: its tables are not those of budgets.toml and results/: tools/update_docs writes them")
    for missing in sorted(set(tables) - shown):
        stale += 1
        print(f"no page shows the table '{missing}'")
    return 1 if stale else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goals", action="store_true", help="what is short of its goal, too")
    parser.add_argument("--all", action="store_true", help="every row that has a bound")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pages", action="store_true", help="check the tables of the pages")
    parser.add_argument("--write", action="store_true", help="with --pages: write them")
    a = parser.parse_args()
    tables = budgets.read()
    if a.pages:
        return check_pages(tables, a.write)
    rows = []
    for table in tables.values():
        for row in table.rows:
            if row.must is None and row.goal is None:
                continue
            must, goal = (bound is None or row.meets(bound) for bound in (row.must, row.goal))
            rows.append({"table": table.id, "what": row.what, "figure": row.judged(), "column": table.judged, "must": row.must,
                         "goal": row.goal, "meets_must": must, "meets_goal": goal, "file": row.file})
    cases = []
    for sweep in budgets.sweeps():
        found = sweep.short()
        if found is None:
            print(f"operators, {sweep.of}: results/{sweep.file} has none yet", file=sys.stderr)
        cases += [{"table": f"operators, {sweep.of}", "what": what, "figure": figure, "must": bound, "file": sweep.file}
                  for what, figure, bound in found or ()]
    short = [row for row in rows if not row["meets_must"]]
    shown = [row for row in rows if a.all or not row["meets_must"] or (a.goals and not row["meets_goal"])]
    if a.json:
        json.dump({"rows": shown, "with_bounds": len(rows), "short": len(short), "operators": cases}, sys.stdout, indent=1)
        print()
    else:
        for row in shown:
            figure = "no figure" if row["figure"] is None else f"{row['figure']:,.4g}"
            state = "short" if not row["meets_must"] else "below goal" if not row["meets_goal"] else "ok"
            bounds = ", ".join(f"{name} {row[name]:,g}" for name in ("must", "goal") if row[name] is not None)
            print(f"{state:10}  {row['table']}: {row['what']}: {figure} ({bounds}; {row['file']})")
        for case in cases:
            figure = "no figure" if case["figure"] is None else f"{case['figure']:.3g}"
            print(f"{'short':10}  {case['table']}: {case['what']}: {figure} (must {case['must']:g}; {case['file']})")
        print(f"{len(short)} of {len(rows)} figures with a bound are short of their must", file=sys.stderr)
    return 1 if short or cases else 0


if __name__ == "__main__":
    sys.exit(main())
