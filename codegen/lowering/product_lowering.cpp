#include "codegen/lowering/product_lowering.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/lowering/describe.h"
#include "codegen/lowering/library_lowering.h"
#include "codegen/lowering/loop_lowering.h"

namespace sinter::codegen {
namespace {

using ir::Dim;
using ir::Graph;
using ir::GraphBuilder;
using ir::Node;
using ir::ValueId;
using plan::fb::InstrKind;

const Node& matmul_of(const Graph& matmul_body) {
  for (const Node& node : matmul_body.nodes())
    if (node.op->name == "MatMul") return node;
  throw Error(ErrorCode::kInternal, "a matmul region without a MatMul");
}

/// Copies what a body's values are made of into another graph, as far as it is needed.
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

GraphBuilder builder_with_ranges(const char* name, const Graph& body) {
  GraphBuilder builder(name);
  for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  return builder;
}

/// The operands' views and the MatMul alone.
Graph bare_product(const Graph& matmul_body) {
  GraphBuilder builder = builder_with_ranges("product", matmul_body);
  Importer importer(builder, matmul_body);
  for (const ValueId input : matmul_body.inputs())
    importer.bind(input, builder.input(matmul_body.value(input).name, matmul_body.type(input)));
  builder.output("product", importer.import(matmul_of(matmul_body).outputs[0]));
  return builder.finish();
}

/// What follows the MatMul; input 0 is the product, the others are the region's.
Graph epilogue(const Graph& body, const ProductBody& nodes, bool with_rest) {
  const Graph& matmul_body = *nodes.matmul->body;
  const ValueId product = matmul_of(matmul_body).outputs[0];
  GraphBuilder builder = builder_with_ranges("epilogue", body);
  Importer outer(builder, body), matmul(builder, matmul_body);
  matmul.bind(product, builder.input("product", matmul_body.type(product)));
  for (const ValueId input : body.inputs())
    outer.bind(input, builder.input(body.value(input).name, body.type(input)));
  for (std::size_t i = 0; i < nodes.matmul->inputs.size(); ++i)
    matmul.bind(matmul_body.inputs()[i], outer.import(nodes.matmul->inputs[i]));
  const ValueId result = matmul.import(matmul_body.outputs()[0]);
  outer.bind(nodes.matmul->outputs[0], result);
  if (!with_rest) {
    builder.output("out0", result);
    return builder.finish();
  }
  if (nodes.rest) {
    Importer rest(builder, *nodes.rest->body);
    for (std::size_t i = 0; i < nodes.rest->inputs.size(); ++i)
      rest.bind(nodes.rest->body->inputs()[i], outer.import(nodes.rest->inputs[i]));
    for (std::size_t i = 0; i < nodes.rest->outputs.size(); ++i)
      outer.bind(nodes.rest->outputs[i], rest.import(nodes.rest->body->outputs()[i]));
  }
  for (std::size_t i = 0; i < body.outputs().size(); ++i)
    builder.output(fmt::format("out{}", i), outer.import(body.outputs()[i]));
  return builder.finish();
}

/// True if the program reads the product nowhere but at the element that its loops are at.
bool reads_own_element(const plan::fb::LoopProgramT& program, std::uint32_t product,
                       const ExprTable& exprs) {
  std::vector<Dim> dense(program.extents.size());
  Dim stride = 1;
  for (std::size_t d = dense.size(); d-- > 0;) {
    dense[d] = stride;
    stride = stride * exprs.dim(program.extents[d]);
  }
  bool found = false;
  for (const auto& access : program.accesses) {
    if (access->buffer != product) continue;
    if (found || !access->gathers.empty() || !access->nonaffine.empty() ||
        !access->guards.empty() || exprs.dim(access->offset) != Dim(0))
      return false;
    found = true;
    for (std::size_t d = 0; d < dense.size(); ++d)
      if (exprs.dim(program.extents[d]) != Dim(1) && exprs.dim(access->strides[d]) != dense[d])
        return false;
  }
  return found;
}

std::string print_operand(const ProductOperand& operand) {
  std::string text =
      fmt::format("[{} + {}", operand.offset.to_string(), operand.stride.to_string());
  for (const Dim& stride : operand.batch_strides) text += ", " + stride.to_string();
  return text + "]";
}

/// Reads strides and sizes off the library's form of the bare product, whose result is dense.
/// Returns a reason if they are not what a kernel takes.
std::string read_operands(const plan::fb::MatmulStepT& bare, const ExprTable& exprs,
                          ProductProgram& result) {
  const Dim one = 1;
  const auto dim = [&](std::uint32_t expression) { return exprs.dim(expression); };
  result.m = dim(bare.m);
  result.n = dim(bare.n);
  result.k = dim(bare.k);
  const auto operand = [&](const plan::fb::MatrixT& matrix, std::uint32_t stride) {
    ProductOperand operand{dim(matrix.offset), dim(stride), {}};
    for (const std::uint32_t batch : matrix.batch_strides)
      operand.batch_strides.push_back(dim(batch));
    return operand;
  };
  if (dim(bare.a->col_stride) != one) return "k is not contiguous in the left operand";
  result.a = operand(*bare.a, bare.a->row_stride);
  result.rows_are_k = dim(bare.b->col_stride) == one;
  result.b = operand(*bare.b, result.rows_are_k ? bare.b->row_stride : bare.b->col_stride);
  if (dim(bare.d->col_stride) != one || dim(bare.d->offset) != Dim(0))
    return "the columns of the product are not one dimension";
  const auto rows_of = [&](std::uint32_t stride) {
    return ir::divide_exactly(dim(stride), result.n);
  };
  const auto step = result.m == one ? std::optional(one) : rows_of(bare.d->row_stride);
  if (!step) return "the product's rows are not dense";
  result.row_step = *step;
  for (std::size_t i = 0; i < bare.batch.size(); ++i) {
    const auto rows = rows_of(bare.d->batch_strides[i]);
    if (!rows) return "the product's columns are a part of its last dimension";
    result.batch.push_back(dim(bare.batch[i]));
    result.batch_rows.push_back(*rows);
  }
  return "";
}

}  // namespace

std::string print_product(const ProductProgram& product) {
  std::string text =
      fmt::format("product {} {}x{}x{} a {} b {} {} rows {} buffer {}", to_string(product.type),
                  product.m.to_string(), product.n.to_string(), product.k.to_string(),
                  print_operand(product.a), print_operand(product.b),
                  product.rows_are_k ? "kn" : "nk", product.row_step.to_string(), product.product);
  for (std::size_t i = 0; i < product.batch.size(); ++i)
    text += fmt::format(" batch {} * {}", product.batch[i].to_string(),
                        product.batch_rows[i].to_string());
  return text + "\n";
}

ProductBody product_body(const Graph& body) {
  ProductBody result;
  for (const Node& node : body.nodes()) {
    if (node.op->name == "Reshape") continue;
    const bool fused = node.op->kind == ir::OpKind::kFused && node.body;
    if (fused && !result.matmul && node.attrs.get_string("family") == "matmul") {
      result.matmul = &node;
    } else if (fused && result.matmul && !result.rest) {
      result.rest = &node;
    } else {
      throw Error(ErrorCode::kInternal,
                  "a product's region holds a matmul and at most one region after it, not " +
                      describe(node));
    }
  }
  if (!result.matmul) throw Error(ErrorCode::kInternal, "a product's region without a matmul");
  return result;
}

std::optional<ProductProgram> lower_product(const Graph& body, bool with_rest,
                                            std::span<const std::uint32_t> inputs,
                                            std::span<const std::uint32_t> outputs,
                                            ExprTable& exprs, std::string& refusal) {
  const ProductBody nodes = product_body(body);
  const Graph& matmul_body = *nodes.matmul->body;
  const Node& matmul = matmul_of(matmul_body);
  const ir::TensorType& type = matmul_body.type(matmul.outputs[0]);
  ProductProgram result;
  result.type = type.dtype;
  if (type.dtype != DType::kFloat16 && type.dtype != DType::kBFloat16) {
    refusal = fmt::format("products of {} are left to the library", to_string(type.dtype));
    return std::nullopt;
  }
  try {
    const Graph bare = bare_product(matmul_body);
    std::vector<std::uint32_t> bare_inputs;
    for (const ValueId input : nodes.matmul->inputs) {
      const auto at = std::find(body.inputs().begin(), body.inputs().end(), input);
      if (at == body.inputs().end())
        throw Error(ErrorCode::kInternal, "a product's operand is no input of its region");
      bare_inputs.push_back(inputs[static_cast<std::size_t>(at - body.inputs().begin())]);
    }
    const std::uint32_t nowhere[] = {kProductBuffer};
    const auto library = lower_matmul(bare, bare_inputs, nowhere, exprs, false);
    refusal = read_operands(library, exprs, result);
    if (!refusal.empty()) return std::nullopt;

    const Graph after = epilogue(body, nodes, with_rest);
    std::vector<std::uint32_t> after_inputs = {kProductBuffer};
    after_inputs.insert(after_inputs.end(), inputs.begin(), inputs.end());
    std::vector<bool> inner(type.shape.size(), false);
    inner.back() = true;
    result.program = lower_region_over(after, after_inputs, outputs, exprs, type.shape, inner);
    auto& buffers = result.program.buffers;
    result.product = static_cast<std::uint32_t>(
        std::find(buffers.begin(), buffers.end(), kProductBuffer) - buffers.begin());
    if (!reads_own_element(result.program, result.product, exprs)) {
      refusal = "what follows the product reads other elements than the one at hand";
      return std::nullopt;
    }
    buffers.push_back(library.a->buffer);
    buffers.push_back(library.b->buffer);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    refusal = error.what();
    return std::nullopt;
  }
  if (result.n == Dim(1)) {
    refusal = "the product has one column";
    return std::nullopt;
  }
  return result;
}

}  // namespace sinter::codegen
