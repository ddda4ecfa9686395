// SPDX-License-Identifier: Apache-2.0
// Pointwise operators, reductions, norms, and what works along one axis.
#include <algorithm>

#include "fusion/sharding/strategies.h"

namespace sinter::fusion {
namespace {

/// Adds the way in which the inputs `partial` are summands, and so is the result: the operator is
/// linear in them.
void add_linear(const SplitSite& site, std::vector<std::size_t> partial,
                std::vector<Strategy>& ways) {
  Strategy way = site.strategy("sum later", kPartial);
  for (const std::size_t i : partial) way.inputs[i] = kPartial;
  way.shares_work = false;
  ways.push_back(std::move(way));
}

bool is_widening(const SplitSite& site) {
  const DType from = site.graph.type(site.node.inputs[0]).dtype,
              to = site.graph.type(site.node.outputs[0]).dtype;
  return is_arithmetic_float(from) && is_arithmetic_float(to) && size_of(to) >= size_of(from) &&
         !(from == DType::kFloat16 && to == DType::kBFloat16) &&
         !(from == DType::kBFloat16 && to == DType::kFloat16);
}

}  // namespace

void add_aligned(const SplitSite& site, std::vector<Strategy>& ways, std::size_t first) {
  const Shape& out = site.out();
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (!site.divides(out, d)) continue;
    Strategy way = site.strategy("split", Split::along(d));
    for (std::size_t i = first; i < way.inputs.size(); ++i)
      way.inputs[i] = site.aligned(i, d, out.size());
    ways.push_back(std::move(way));
  }
}

void add_pointwise(const SplitSite& site, std::vector<Strategy>& ways) {
  const Shape& out = site.out();
  add_aligned(site, ways, 0);
  // Rows of experts: other ranks' rows are computed, too, and never read.
  if (out.size() == 2) {
    Strategy way = site.strategy("experts' rows", kOwned);
    for (std::size_t i = 0; i < way.inputs.size(); ++i)
      if (site.in(i).size() == 2 && site.in(i)[0] == out[0]) way.inputs[i] = kOwned;
    ways.push_back(std::move(way));
  }
  const std::string& op = site.node.op->name;
  if (!is_arithmetic_float(site.graph.type(site.node.outputs[0]).dtype)) return;
  if (op == "Neg" || (op == "Cast" && is_widening(site))) add_linear(site, {0}, ways);
  if (op == "Add" || op == "Sub") add_linear(site, {0, 1}, ways);
  if (op == "Mul" || op == "Div") add_linear(site, {0}, ways);
  if (op == "Mul" && site.node.inputs[0] != site.node.inputs[1]) add_linear(site, {1}, ways);
  // A square of a sum is no sum of squares.
  if (op == "Mul" && site.node.inputs[0] == site.node.inputs[1]) ways.pop_back();
}

void add_reduction(const SplitSite& site, std::vector<Strategy>& ways) {
  const Ints& axes = site.node.attrs.get_ints("axes");
  const bool keeps = site.node.attrs.get_int("keepdims") != 0;
  const std::string& op = site.node.op->name;
  const Shape& in = site.in(0);
  const bool is_float_sum = is_arithmetic_float(site.graph.type(site.node.outputs[0]).dtype);
  std::size_t reduced = 0;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const bool is_reduced = std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end();
    reduced += is_reduced;
    if (!site.divides(in, d)) continue;
    if (is_reduced && !(is_float_sum && (op == "ReduceSum" || op == "ReduceSumSquare"))) continue;
    Strategy way = site.strategy(is_reduced ? "row" : "split",
                                 is_reduced ? kPartial : Split::along(keeps ? d : d - reduced));
    way.inputs[0] = Split::along(d);
    ways.push_back(std::move(way));
  }
  if (is_float_sum && (op == "ReduceSum" || op == "ReduceMean")) add_linear(site, {0}, ways);
}

void add_norm(const SplitSite& site, std::vector<Strategy>& ways) {
  const auto axis = static_cast<std::size_t>(site.node.attrs.get_int("axis"));
  const bool is_one_axis = site.node.op->name == "Softmax";
  for (std::size_t d = 0; d < site.out().size(); ++d) {
    if (!(is_one_axis ? d != axis : d < axis) || !site.divides(site.out(), d)) continue;
    Strategy way = site.strategy("split", Split::along(d));
    way.inputs[0] = Split::along(d);
    ways.push_back(std::move(way));
  }
}

void add_along_axis(const SplitSite& site, std::vector<Strategy>& ways) {
  const auto axis = static_cast<std::size_t>(site.node.attrs.get_int("axis"));
  for (std::size_t d = 0; d < site.out().size(); ++d) {
    if (d == axis || !site.divides(site.out(), d)) continue;
    Strategy way = site.strategy("split", Split::along(d));
    way.inputs[0] = Split::along(d);
    ways.push_back(std::move(way));
  }
}

}  // namespace sinter::fusion
