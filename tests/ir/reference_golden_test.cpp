// SPDX-License-Identifier: Apache-2.0
// Every operator against results that NumPy and ONNX Runtime computed: see goldens/make_goldens.py.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/graph.h"
#include "ir/ranks/ranks.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"
#include "tests/support/paths.h"

namespace sinter::ir {
namespace {

using nlohmann::json;

std::vector<std::byte> decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::byte> bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(kAlphabet.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> count & 0xff));
  }
  return bytes;
}

/// "f32[2,3] <base64 of the bytes>".
Tensor decode_tensor(const std::string& text) {
  const std::size_t open = text.find('['), close = text.find(']');
  std::vector<std::int64_t> shape;
  if (close > open + 1)
    for (const json& dim : json::parse(text.substr(open, close - open + 1))) shape.push_back(dim);
  return Tensor(dtype_from_string(text.substr(0, open)).value(), shape,
                Buffer::take(decode_base64(text.substr(close + 2))));
}

struct Case {
  std::string label;
  Attrs attrs;
  std::vector<Tensor> inputs;
  Tensor expected;
};

Attr decode_attr(const AttrSpec& spec, const json& value) {
  switch (spec.kind) {
    case AttrKind::kInt: return value.get<std::int64_t>();
    case AttrKind::kFloat: return value.get<double>();
    case AttrKind::kString: return value.get<std::string>();
    case AttrKind::kInts: return value.get<std::vector<std::int64_t>>();
    case AttrKind::kDType: return dtype_from_string(value.get<std::string>()).value();
    case AttrKind::kDims: break;
  }
  const auto ints = value.get<std::vector<std::int64_t>>();
  return std::vector<Dim>(ints.begin(), ints.end());
}

const std::map<std::string, std::vector<Case>>& all_cases() {
  static const auto cases = [] {
    std::map<std::string, std::vector<Case>> result;
    std::ifstream file(source_dir() + "/tests/ir/goldens/goldens.json");
    const json root = json::parse(file);
    for (const json& entry : root["cases"]) {
      const OpDef& op = get_op(entry["op"].get<std::string>());
      Case golden;
      golden.label = op.name + " " + entry.value("note", "");
      for (const AttrSpec& spec : op.attrs)
        if (entry.contains("attrs") && entry["attrs"].contains(spec.name))
          golden.attrs.set(spec.name, decode_attr(spec, entry["attrs"][spec.name]));
      for (const json& input : entry["inputs"]) {
        golden.inputs.push_back(decode_tensor(input));
        golden.label += " " + to_string(golden.inputs.back().type());
      }
      golden.expected = decode_tensor(entry["output"]);
      result[op.name].push_back(std::move(golden));
    }
    return result;
  }();
  return cases;
}

/// One unit in the last place: both sides round a float64 result, whose last bits may differ.
double ulp_of(DType type, double value) {
  switch (type) {
    case DType::kFloat16: return std::max(std::abs(value) * 0x1p-10, 0x1p-24);
    case DType::kBFloat16: return std::max(std::abs(value) * 0x1p-7, 0x1p-133);
    case DType::kFloat32: return std::max(std::abs(value) * 0x1p-23, 1e-14);
    default: return std::max(std::abs(value) * 0x1p-44, 1e-14);
  }
}

void expect_equal(const Tensor& found, const Tensor& expected, const std::string& label) {
  ASSERT_EQ(to_string(found.type()), to_string(expected.type())) << label;
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    if (!is_float(expected.dtype())) {
      ASSERT_EQ(found.at_int(i), expected.at_int(i)) << label << ", element " << i;
      continue;
    }
    const double a = found.at(i), b = expected.at(i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                      std::abs(a - b) <= ulp_of(expected.dtype(), b);
    if (is_float8(expected.dtype()) && !std::isnan(b)) {
      ASSERT_EQ(std::signbit(a), std::signbit(b)) << label << ", element " << i;
    }
    ASSERT_TRUE(same) << label << ", element " << i << ": " << a << ", expected " << b;
  }
}

/// As a whole: weights (roots) that were rounded to x's type lie elsewhere by its rounding.
void expect_near(const Tensor& found, const Tensor& expected, const std::string& label) {
  ASSERT_EQ(to_string(found.type()), to_string(expected.type())) << label;
  double difference = 0, size = 0;
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    difference += std::pow(found.at(i) - expected.at(i), 2);
    size += std::pow(expected.at(i), 2);
  }
  EXPECT_LE(std::sqrt(difference), std::sqrt(size) * ulp_of(expected.dtype(), 1.0)) << label;
}

class Goldens : public testing::TestWithParam<std::string> {
 protected:
  const std::vector<Case>& cases() const {
    static const std::vector<Case> none;
    const auto found = all_cases().find(GetParam());
    return found == all_cases().end() ? none : found->second;
  }
};

TEST_P(Goldens, MatchTheReference) {
  ASSERT_FALSE(cases().empty()) << "no golden for operator " << GetParam()
                                << ": add one to tests/ir/goldens/make_goldens.py";
  for (const Case& golden : cases()) {
    const auto found = evaluate_op(get_op(GetParam()), golden.attrs, golden.inputs);
    ASSERT_FALSE(found.empty()) << golden.label;
    expect_equal(found[0], golden.expected, golden.label);
  }
}

/// A graph of one node whose inputs are graph inputs.
/// The operator on inputs of the graph, but for those from `constants` on.
Graph single_node(const OpDef& op, const Case& golden, std::size_t constants = ~std::size_t{0}) {
  GraphBuilder builder;
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < golden.inputs.size(); ++i)
    inputs.push_back(i < constants ? builder.input("x" + std::to_string(i), golden.inputs[i].type())
                                   : builder.constant(golden.inputs[i]));
  // Goldens have the first result.
  builder.output("y", builder.add_multi(op.name, inputs, golden.attrs).at(0));
  return builder.finish();
}

TEST_P(Goldens, MatchAsGraphs) {
  const OpDef& op = get_op(GetParam());
  for (const Case& golden : cases()) {
    const Graph graph = single_node(op, golden);
    for (const bool wide : {false, true}) {
      EvaluateOptions options;
      options.keep_wide = wide;
      expect_equal(evaluate(graph, golden.inputs, options)[0], golden.expected, golden.label);
    }
  }
}

TEST_P(Goldens, MatchTheIndexMapsOfViews) {
  const OpDef& op = get_op(GetParam());
  if (op.kind != OpKind::kView) return;
  for (const Case& golden : cases()) {
    Attrs attrs = golden.attrs;
    for (const AttrSpec& spec : op.attrs)
      if (spec.default_value && !attrs.has(spec.name)) attrs.set(spec.name, *spec.default_value);
    expect_equal(reference::evaluate_index_map(op, attrs, golden.inputs, golden.expected.type()),
                 golden.expected, golden.label);
  }
}

/// Row-major index of element `i`.
std::vector<Dim> index_of(std::int64_t i, const std::vector<std::int64_t>& shape) {
  std::vector<Dim> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; i /= shape[d]) index[d] = i % shape[d];
  return index;
}

std::int64_t offset_of(std::span<const Dim> index, const std::vector<std::int64_t>& shape) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + index[d].value();
  return offset;
}

TEST_P(Goldens, MatchTheMapsOfIndexedOperators) {
  const OpDef& op = get_op(GetParam());
  if (op.kind != OpKind::kIndexed || op.scatter() || op.scan()) return;
  for (const Case& golden : cases()) {
    std::vector<TensorType> types;
    for (const Tensor& input : golden.inputs) types.push_back(input.type());
    for (std::int64_t i = 0; i < golden.expected.element_count(); ++i) {
      const std::vector<Dim> index = index_of(i, golden.expected.shape());
      if (op.generate()) {
        const std::int64_t value = op.generate()->value(golden.attrs, index).value();
        ASSERT_EQ(static_cast<double>(value), golden.expected.at(i)) << golden.label;
        continue;
      }
      std::vector<Dim> place;
      for (const DataIndex& at : op.take()->map(golden.attrs, types, index)) {
        if (at.input < 0) {
          place.push_back(at.at[0]);
          continue;
        }
        const Tensor& holder = golden.inputs[static_cast<std::size_t>(at.input)];
        const std::int64_t held = holder.at_int(offset_of(at.at, holder.shape()));
        place.push_back(held < 0 ? held + golden.inputs[0].shape()[place.size()] : held);
      }
      ASSERT_EQ(golden.inputs[0].at(offset_of(place, golden.inputs[0].shape())),
                golden.expected.at(i))
          << golden.label << ", element " << i;
    }
  }
}

TEST_P(Goldens, MatchTheDecompositionsOfComposites) {
  const OpDef& op = get_op(GetParam());
  if (!std::holds_alternative<CompositeDef>(op.detail)) return;
  // Scaled weights are constants: they are dequantized where the product is decomposed.
  const bool is_product = op.name == "MatMul";
  const std::size_t inputs = is_product ? 1 : ~std::size_t{0};
  for (const Case& golden : cases()) {
    if (is_product && (!golden.attrs.has("w") || golden.attrs.has("x"))) continue;
    const Graph graph = rewrite(
        single_node(op, golden, inputs), [&](GraphBuilder& builder, const Graph&, const Node& node,
                                             std::span<const ValueId> inputs) {
          return std::optional(node.op->composite().decompose(builder, node, inputs));
        });
    ASSERT_GT(graph.nodes().size(), 1u) << golden.label;
    EvaluateOptions options;
    options.keep_wide = true;
    const std::span fed = std::span(golden.inputs).first(std::min(inputs, golden.inputs.size()));
    const auto found = evaluate(graph, fed, options)[0];
    if (fed.size() < golden.inputs.size() || op.name == "Dft")
      expect_near(found, golden.expected, golden.label);
    else
      expect_equal(found, golden.expected, golden.label);
  }
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpDef* op : all_ops())
    // Collectives take the values of several ranks: collective_test.cpp.
    if (!op->has_body && op->kind != OpKind::kWhile && op->name != "NoReference" &&
        !is_collective(*op))
      names.push_back(op->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, Goldens, testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sinter::ir
