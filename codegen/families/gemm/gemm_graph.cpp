// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/gemm_graph.h"

#include <map>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/program/describe.h"
#include "codegen/program/region_space.h"

namespace sinter::codegen {
namespace {

/// Copies the nodes that a value depends on to another graph.
class Importer {
 public:
  Importer(GraphBuilder& builder, const Graph& body) : builder_(builder), body_(body) {}

  void bind(ValueId from, ValueId to) { known_[from] = to; }

  ValueId import(ValueId value) {
    if (const auto known = known_.find(value); known != known_.end()) return known->second;
    const ir::Value& info = body_.value(value);
    if (info.constant) return known_[value] = builder_.constant(info.constant);
    const Node* node = body_.producer(value);
    if (!node) throw Error(ErrorCode::kInternal, "an input of a region is not bound");
    std::vector<ValueId> inputs;
    for (const ValueId input : node->inputs) inputs.push_back(import(input));
    GraphBuilder::OriginScope scope(builder_, node->origins);
    const auto results = builder_.add_multi(node->op->name, inputs, node->attrs, node->body);
    for (std::size_t i = 0; i < results.size(); ++i) known_[node->outputs[i]] = results[i];
    return known_.at(value);
  }

 private:
  GraphBuilder& builder_;
  const Graph& body_;
  std::map<ValueId, ValueId> known_;
};

bool is_kind(const Node& node, std::string_view family) {
  return node.op->kind == OpKind::kFused && node.body && node.attrs.get_string("kind") == family;
}

/// Broadcasts one value for each channel over `type`.
ValueId along_channels(GraphBuilder& builder, ValueId bias, const Node& conv,
                       const TensorType& type) {
  if (conv.attrs.get_int("channels_last") == 1) return bias;
  ir::Shape shape(type.shape.size() - 1, ir::Dim(1));
  shape[0] = type.shape[1];
  return builder.add("Reshape", {bias}, {{"shape", std::move(shape)}});
}

}  // namespace

const Node& gemm_node(const Graph& part) {
  for (const Node& node : part.nodes())
    if (node.op->name == "MatMul" || node.op->name == "GroupedMatMul" || node.op->name == "Conv")
      return node;
  throw Error(ErrorCode::kInternal, "a matmul or conv region without a MatMul or Conv");
}

GemmBody gemm_body(const Graph& body) {
  GemmBody result;
  for (const Node& node : body.nodes()) {
    if (node.op->name == "Reshape") continue;
    const bool conv = is_kind(node, "conv");
    if (!result.matmul && (conv || is_kind(node, "matmul") || is_kind(node, "grouped_matmul"))) {
      result.matmul = &node;
      result.is_conv = conv;
    } else if (node.op->kind == OpKind::kFused && node.body && result.matmul && !result.epilogue) {
      result.epilogue = &node;
    } else if ((is_kind(node, "reduction") || is_kind(node, "pointwise")) && !result.matmul &&
               !result.prologue) {
      result.prologue = &node;
    } else {
      throw Error(
          ErrorCode::kInternal,
          "a product's region holds a matmul or a convolution, at most one region before it "
          "and at most one after it, not " +
              describe(node));
    }
  }
  if (!result.matmul) throw Error(ErrorCode::kInternal, "a product's region without a matmul");
  return result;
}

std::shared_ptr<const Graph> as_gemm_body(const Node& node) {
  if (is_kind(node, "gemm")) return node.body;
  GraphBuilder builder("product");
  for (const auto& [symbol, range] : node.body->ranges()) builder.range(symbol, range);
  std::vector<ValueId> inputs;
  for (const ValueId input : node.body->inputs())
    inputs.push_back(builder.input(node.body->value(input).name, node.body->type(input)));
  GraphBuilder::OriginScope scope(builder, node.origins);
  const auto results = builder.add_multi(node.op->name, inputs, node.attrs, node.body);
  for (std::size_t i = 0; i < results.size(); ++i)
    builder.output(fmt::format("out{}", i), results[i]);
  return std::make_shared<const Graph>(builder.finish());
}

Graph bare_product(const Graph& part) {
  GraphBuilder builder("product");
  for (const auto& [symbol, range] : part.ranges()) builder.range(symbol, range);
  Importer importer(builder, part);
  for (const ValueId input : part.inputs())
    importer.bind(input, builder.input(part.value(input).name, part.type(input)));
  builder.output("product", importer.import(gemm_node(part).outputs[0]));
  return builder.finish();
}

Graph inline_product(const Graph& body, const GemmBody& nodes, bool with_epilogue,
                     const MakeProduct& make) {
  const Graph& part = *nodes.matmul->body;
  const Node& node = gemm_node(part);
  GraphBuilder builder("product");
  for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  ValueId product;
  if (!make) product = builder.input("product", part.type(node.outputs[0]));
  Importer outer(builder, body), inner(builder, part);
  for (const ValueId input : body.inputs())
    outer.bind(input, builder.input(body.value(input).name, body.type(input)));
  for (std::size_t i = 0; i < nodes.matmul->inputs.size(); ++i) {
    const ValueId input = nodes.matmul->inputs[i];
    // The rows have no other reader than the GEMM, whose node stays whole.
    if (!nodes.prologue || root_of(body, input) != nodes.prologue->outputs[0])
      inner.bind(part.inputs()[i], outer.import(input));
  }
  {
    GraphBuilder::OriginScope scope(builder, node.origins);
    if (make) {
      std::vector<ValueId> operands;
      for (const ValueId input : node.inputs)
        if (node.op->name != "Conv" || operands.size() < 2) operands.push_back(inner.import(input));
      product = make(builder, operands);
    }
    if (node.op->name == "Conv" && node.inputs.size() > 2) {
      const ValueId bias =
          along_channels(builder, inner.import(node.inputs[2]), node, part.type(node.outputs[0]));
      product = builder.add("Add", {product, bias});
    }
  }
  inner.bind(node.outputs[0], product);
  const ValueId result = inner.import(part.outputs()[0]);
  outer.bind(nodes.matmul->outputs[0], result);
  if (!with_epilogue) {
    builder.output("out0", result);
    return builder.finish();
  }
  if (nodes.epilogue) {
    Importer epilogue(builder, *nodes.epilogue->body);
    for (std::size_t i = 0; i < nodes.epilogue->inputs.size(); ++i)
      epilogue.bind(nodes.epilogue->body->inputs()[i], outer.import(nodes.epilogue->inputs[i]));
    for (std::size_t i = 0; i < nodes.epilogue->outputs.size(); ++i)
      outer.bind(nodes.epilogue->outputs[i], epilogue.import(nodes.epilogue->body->outputs()[i]));
  }
  for (std::size_t i = 0; i < body.outputs().size(); ++i)
    builder.output(fmt::format("out{}", i), outer.import(body.outputs()[i]));
  return builder.finish();
}

std::optional<ir::CombinedRows> combined_rows(const Graph& body, const GemmBody& nodes) {
  if (nodes.epilogue == nullptr || gemm_node(*nodes.matmul->body).op->name != "GroupedMatMul")
    return std::nullopt;
  const auto& inputs = nodes.epilogue->inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (root_of(body, inputs[i]) == nodes.matmul->outputs[0])
      return ir::find_combined_rows(*nodes.epilogue->body, nodes.epilogue->body->inputs()[i]);
  return std::nullopt;
}

Graph inline_combination(const Graph& body, const GemmBody& nodes, const ir::CombinedRows& rows) {
  const Graph& after = *nodes.epilogue->body;
  const Shape &places = after.type(rows.rows_of).shape, &sum = after.type(rows.sum).shape;
  GraphBuilder builder("product");
  for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  const ValueId product = builder.input("product", {DType::kFloat32, {places[0], sum.back()}});
  Importer outer(builder, body), epilogue(builder, after);
  for (const ValueId input : body.inputs())
    outer.bind(input, builder.input(body.value(input).name, body.type(input)));
  epilogue.bind(rows.sum, sum.size() == 2
                              ? product
                              : builder.add("Reshape", {product}, {{"shape", Shape(sum)}}));
  for (std::size_t i = 0; i < nodes.epilogue->inputs.size(); ++i)
    if (root_of(body, nodes.epilogue->inputs[i]) != nodes.matmul->outputs[0])
      epilogue.bind(after.inputs()[i], outer.import(nodes.epilogue->inputs[i]));
  for (std::size_t i = 0; i < nodes.epilogue->outputs.size(); ++i)
    outer.bind(nodes.epilogue->outputs[i], epilogue.import(after.outputs()[i]));
  for (std::size_t i = 0; i < body.outputs().size(); ++i)
    builder.output(fmt::format("out{}", i), outer.import(body.outputs()[i]));
  return builder.finish();
}

}  // namespace sinter::codegen
