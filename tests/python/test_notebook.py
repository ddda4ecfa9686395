# SPDX-License-Identifier: Apache-2.0
"""What notebooks show: HTML that is whole, and in which a model's names are text."""
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import make_mlp, model_of, value
from onnx import helper

import pysinter

EVIL = """</pre></script><script>alert('x')</script><img src=x onerror="alert(1)">&amp;"""
VOID = ("meta", "link", "br", "img", "input")


class Page(HTMLParser):
    """Its tags with their attributes, and its text; an error where tags do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self._open = [], "", []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open and self._open.pop() == tag, tag

    def handle_data(self, text):
        self.text += text

    def names(self):
        return {tag for tag, _ in self.tags}

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def evil():
    """Two kernels."""
    nodes = [("MatMul", ["x", "w"], ["h"], "first"), ("Tanh", ["h"], ["t"], "tanh"), ("CumSum", ["t", "axis"], ["y"], "second")]
    return model_of([helper.make_node(op, inputs, outputs, name=EVIL + name) for op, inputs, outputs, name in nodes],
                    [value("x", ["n", 8])], [value("y", ["n", 8])], {"w": np.ones((8, 8), np.float32), "axis": np.int64(1)}, name=EVIL)


SHOWN = {"table", "caption", "tr", "th", "td", "pre", "h4"}


@pytest.mark.parametrize("a, b, relation", [("first", "tanh", "separate kernels"), ("first", "second", "separate kernels")])
def test_why_is_a_table_of_text(evil, a, b, relation):
    answer = pysinter.why(evil, EVIL + a, EVIL + b, target="cpu")
    assert answer["relation"] == relation
    page = Page(answer._repr_html_())
    assert page.names() <= SHOWN and "table" in page.names()
    for fact in (EVIL + a, EVIL + b, answer["relation"], "MatMul", *answer["a"]["kernels"],
                 *(each["reason"] for each in answer.get("boundaries", ()))):
        assert fact in page.text


def test_why_of_one_kernel_and_of_nodes_that_are_gone():
    page = Page(pysinter.why(make_mlp(), "bias", "tanh", target="cpu")._repr_html_())
    assert "one kernel" in page.text and "bias and tanh" in page.text
    model = model_of([helper.make_node("Identity", ["x"], ["h"], name="same"), helper.make_node("Relu", ["h"], ["y"], name="relu")],
                     [value("x", [4])], [value("y", [4])])
    page = Page(pysinter.why(model, "same", "relu", target="cpu")._repr_html_())
    assert "same and relu" in page.text


def test_why_of_entries():
    answer = pysinter.why(make_mlp(), "bias", "tanh", target="cpu", entries={"one": {"batch": 1}, "many": {"batch": (2, 64)}})
    page = Page(answer._repr_html_())
    assert "one" in page.text and "many" in page.text and len(page.all("h4")) == 2


def test_the_report_is_a_frame_of_its_own(evil, tmp_path):
    shown = pysinter.report(evil, target="cpu", shapes={"x": (3, 8)}, measure=False)
    outer = Page(shown._repr_html_())
    assert outer.names() == {"iframe"} and outer.text == ""
    (frame,) = outer.all("iframe")
    # Its scripts run, and see nothing of the notebook; nothing is loaded from anywhere.
    assert frame["sandbox"] == "allow-scripts" and "src" not in frame and int(frame["height"]) > 0 and frame["width"] == "100%"
    assert frame["srcdoc"] == shown.html
    page = Page(shown.html)
    assert "default-src 'none'" in page.all("meta")[2]["content"]
    assert all("src" not in script for script in page.all("script")) and len(page.all("script")) == 3
    assert [each["href"] for each in page.all("link")] == ["data:,"] and not page.all("img")
    shown.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == shown.html and "save(path)" in repr(shown)


def test_reports_of_models_and_plans(mlp, plan, tmp_path):
    measured = pysinter.report(mlp, target="cpu", shapes={"x": (3, 8)}, rounds=1, verify=True)
    assert '"profile":{' in measured.html.replace(" ", "") and "</html>" in measured.html
    both = pysinter.report(plan, measure=False, against=measured)
    assert len(both.html) > len(pysinter.report(plan, measure=False).html) + 1000
    with pytest.raises(pysinter.UsageError, match="precision: for models"):
        pysinter.report(plan, precision="fp16")
    with pytest.raises(pysinter.UsageError, match="verify: for models"):
        pysinter.report(plan, verify=True)
    with pytest.raises(pysinter.UsageError, match="tpu"):
        pysinter.report(mlp, target="tpu")


def test_plans_tables_and_reports(evil):
    plan = pysinter.compile(evil, target="cpu", verify=True)
    table = plan.run_table({"x": np.ones((3, 8), np.float32)})
    assert set(table) == {"y"}
    for shown in (plan, plan.graph(), plan.report, plan.report.accuracy, pysinter.inspect(plan, "steps"), pysinter.profile(plan, rounds=1)):
        page = Page(shown._repr_html_())
        assert page.names() <= SHOWN and page.text
