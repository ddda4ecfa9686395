#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The operators' sweep without its times: sweep_test.py SINTER"""
import json
import sys
import tempfile
import unittest
from pathlib import Path

import budgets
import operator_cases as cases
from common import sinter_json

SINTER = sys.argv.pop(1) if len(sys.argv) > 1 else "sinter"


class Cases(unittest.TestCase):
    def test_every_operator_has_one(self):
        self.assertEqual(cases.missing(sinter_json(SINTER, "ops")["operators"]), [])

    def test_a_new_operator_is_named(self):
        self.assertEqual(cases.missing([{"domain": "ai.onnx", "operator": "Newest"}, {"domain": "ai.onnx", "operator": "Relu"},
                                        {"domain": "com.microsoft", "operator": "Relu"}]), ["ai.onnx::Newest", "com.microsoft::Relu"])

    def test_what_is_not_timed_is_an_operator(self):
        known = {each["operator"] for each in sinter_json(SINTER, "ops")["operators"]}
        self.assertEqual(set(cases.NOT_TIMED) - known, set())

    def test_each_has_three_sizes(self):
        sizes = {}
        for point in cases.all_points():
            if not point.case.nodes:
                sizes.setdefault((point.case.domain, point.case.operator), set()).add(point.case.size)
        self.assertEqual({name: have for name, have in sizes.items() if not have >= set(cases.SIZES)}, {})

    def test_inputs_are_not_zeros(self):
        for point in cases.all_points():
            if point.case.size != "small" or point.type not in ("f32", "u8", "i64", "bool"):
                continue
            self.assertEqual(len(point.model().graph.output), point.case.outputs, point.name)
            self.assertTrue(any(array.any() for array in point.feeds(point.arrays()).values()), point.name)


class Bounds(unittest.TestCase):
    def sweep(self, rows, **bounds):
        with tempfile.TemporaryDirectory() as folder:
            before, budgets.RESULTS = budgets.RESULTS, Path(folder)
            budgets._result.cache_clear()
            try:
                (Path(folder) / "rows.json").write_text(json.dumps({"rows": rows}))
                return budgets.Sweep(file="rows.json", of="2", **{"mean": 1.0, "slow": 0.5, "least": 0.5, **bounds}).short()
            finally:
                budgets.RESULTS = before
                budgets._result.cache_clear()

    def test_a_case_below_its_class_falls_out(self):
        rows = {"A/small/f32@2": {"class": "a", "ratio": 0.8}, "B/small/f32@2": {"class": "b", "ratio": 1.5},
                "C/small/f32@8": {"class": "a", "ratio": 0.1}}
        self.assertEqual(self.sweep(rows), [])
        self.assertEqual(self.sweep(rows, classes={"a": 0.9}), [("A/small/f32@2", 0.8, 0.9)])
        self.assertEqual([what for what, *_ in self.sweep(rows, mean=1.2, least=1.0)], ["the geometric mean", "A/small/f32@2"])

    def test_a_case_that_failed_falls_out_and_what_is_without_peer_does_not(self):
        rows = {"A@2": {"class": "a", "ratio": 1.0}, "B@2": {"class": "a", "failed": "no"}, "C@2": {"class": "a", "sinter_us": 1}}
        self.assertEqual(self.sweep(rows), [("B@2", None, 0.5)])

    def test_nothing_measured_is_said(self):
        self.assertIsNone(self.sweep({"A@8": {"class": "a", "ratio": 1.0}}))


if __name__ == "__main__":
    unittest.main()
