// SPDX-License-Identifier: Apache-2.0
// Operator definitions. Every operator is defined once, in ir/ops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/attributes.h"
#include "ir/scalar_expr.h"
#include "ir/tensor.h"

namespace sinter::ir {

class Graph;
class GraphBuilder;
struct Node;
struct ValueId;

using Types = std::span<const TensorType>;
using Tensors = std::span<const Tensor>;

/// How the compiler treats an operator; see the design's table.
enum class OpKind {
  kPointwise,
  kReduce,
  kView,
  kIndexed,
  kLibrary,
  kComposite,
  kFused,
  kWhile,
  kExtent
};
std::string_view to_string(OpKind kind);

/// How a pointwise operator's result type follows from its inputs' types.
enum class TypeRule {
  kSame,     // all inputs and the result share one type
  kCompare,  // inputs share one type, the result is bool
  kLogical,  // all bool
  kSelect,   // (bool, T, T) -> T
  kCast,     // any -> attribute "to"
  kBitCast,  // any -> attribute "to" of the same size
};

struct PointwiseDef {
  ScalarExpr expr;
  TypeRule rule = TypeRule::kSame;
  /// For casts to 8-bit floats: expressions by type, used instead of `expr`. Only these casts round
  /// within a fused region, which otherwise computes in wider types.
  std::vector<ScalarExpr> to_float8 = {};

  /// The expression that a node with `attrs` computes.
  const ScalarExpr& expression(const Attrs& attrs) const;
};

/// Combines over the axes in attribute "axes" (sorted, non-negative); attribute "keepdims" is 0 or
/// 1. `pre` maps an element before combination, `finish` the result; both are expressions of x,
/// `finish` also of y = the number of combined elements.
struct ReduceDef {
  Combine combine = Combine::kSum;
  ScalarExpr pre, finish;
};

/// One source of an output element of a view: input `input` at `index` (one Dim per input
/// dimension, over symbols of the output indices), valid where every guard holds (0 <= guard.value
/// < guard.extent). Sources are in order, with mutually exclusive guards. Where none holds, the
/// element is `fill`.
struct ViewSource {
  int input = 0;
  std::vector<Dim> index;
  struct Guard {
    Dim value, extent;
  };
  std::vector<Guard> guards;
};
/// Maps output indices (one Dim each) to sources. `ranges` bounds the index symbols.
using IndexMap = std::function<std::vector<ViewSource>(
    const Attrs& attrs, Types inputs, const TensorType& output, std::span<const Dim> output_index,
    const Ranges& ranges)>;

struct ViewDef {
  IndexMap map;
  double fill = 0;
};

/// Where an operator of kind kIndexed accesses its data (input 0) along one dimension: at the
/// number in input `input` at index `at` or, without input, at `at[0]` itself. Negative numbers of
/// inputs count from the end.
struct DataIndex {
  int input = -1;
  std::vector<Dim> at;
};
/// Maps an index (one Dim for each dimension) to one DataIndex for each dimension of the data.
using DataIndexMap = std::function<std::vector<DataIndex>(const Attrs& attrs, Types inputs,
                                                          std::span<const Dim> index)>;

/// Each element of the output is the data element that `map` gives.
struct TakeDef {
  DataIndexMap map;
};
/// The output is the data (input 0), updated at the indices to which `map` sends the elements of
/// the updates (input 1), in row-major order of the updates. `combine`: how an element is updated;
/// nothing: it is replaced.
struct ScatterDef {
  DataIndexMap map;
  std::function<std::optional<Combine>(const Attrs& attrs)> combine;
};
/// Prefix combinations of the data (input 0) along attribute "axis": from the first element on, or
/// with "reverse" from the last. With "exclusive" an element does not include itself; the first one
/// is the combination's identity.
struct ScanDef {
  std::function<Combine(const Attrs& attrs)> combine;
};
/// No inputs: each element is a number that depends on its index.
struct GenerateDef {
  std::function<Dim(const Attrs& attrs, std::span<const Dim> index)> value;
};

/// Decomposes a node of a composite operator into simpler operators; returns its outputs.
using Decompose = std::function<std::vector<ValueId>(GraphBuilder& builder, const Node& node,
                                                     std::span<const ValueId> inputs)>;
struct CompositeDef {
  Decompose decompose;
};

/// How an operand's error affects the result, beyond an equal relative error. Used by lowering to
/// 16 bits (`--precision`).
enum class Rounding : std::uint8_t {
  kRelative,  // no further effect
  kExponent,  // multiplies the result by e^error: logits
  kAbsolute,  // an error of 1 at 10,000 is as bad as at 1: angles, thresholds
  kIndex,     // may choose another element, or another box
};
/// How far results may exceed the range of the operands, by the operator's definition.
enum class Growth : std::uint8_t { kNone, kPower, kExponential };

/// Numeric properties for passes that change float types.
struct Numerics {
  std::vector<Rounding> operands = {};  // the last one applies to all further operands
  Growth growth = Growth::kNone;
  bool own_types = false;  // specialized for the model's types: none may change
};

struct AttrSpec {
  std::string name;
  AttrKind kind = AttrKind::kInt;
  std::optional<Attr> default_value;  // none: required
};

/// Result types for input types; throws Error(kInvalidModel) with the shapes in the message.
using Infer = std::function<std::vector<TensorType>(const Attrs& attrs, Types inputs)>;
/// Reference evaluation: float64 accumulation, one rounding to the output type. `outputs` are the
/// concrete output types. Absent for pointwise, reduce and view operators, which are evaluated from
/// their definition.
using Evaluate =
    std::function<std::vector<Tensor>(const Attrs& attrs, Tensors inputs, Types outputs)>;

struct OpDef {
  std::string name;
  OpKind kind = OpKind::kPointwise;
  std::string_view kernel = {};  // of kind kLibrary: the kind of kernel that computes it, "sort"
  int min_inputs = 1;
  int max_inputs = 1;  // -1: any number
  std::vector<AttrSpec> attrs;
  Infer infer;
  Evaluate evaluate;
  std::variant<std::monostate, PointwiseDef, ReduceDef, ViewDef, TakeDef, ScatterDef, ScanDef,
               GenerateDef, CompositeDef>
      detail;
  bool commutative = false;  // the first two inputs commute
  bool has_body = false;     // nodes have a graph that defines what they compute
  /// For operators whose nodes may have a body that computes a part of the result: returns the
  /// types of the body's inputs. The body's output has the type of its first input; an optional
  /// second output has at most one number per row. Null: no such body.
  std::function<std::vector<TensorType>(const Attrs& attrs, Types inputs)> body_inputs = {};
  Numerics numerics = {};

  Rounding rounding_of(std::size_t operand) const {
    const auto& known = numerics.operands;
    return known.empty() ? Rounding::kRelative : known[std::min(operand, known.size() - 1)];
  }

  const PointwiseDef& pointwise() const { return std::get<PointwiseDef>(detail); }
  const ReduceDef& reduce() const { return std::get<ReduceDef>(detail); }
  const ViewDef& view() const { return std::get<ViewDef>(detail); }
  // For kind kIndexed: non-null for the operator's own definition only.
  const TakeDef* take() const { return std::get_if<TakeDef>(&detail); }
  const ScatterDef* scatter() const { return std::get_if<ScatterDef>(&detail); }
  const ScanDef* scan() const { return std::get_if<ScanDef>(&detail); }
  const GenerateDef* generate() const { return std::get_if<GenerateDef>(&detail); }
  const CompositeDef& composite() const { return std::get<CompositeDef>(detail); }
};

// Defined in ir/ops/registry.cpp: code that only needs definitions does not link the table.
/// The definition named `name`, or null.
const OpDef* find_op(std::string_view name);
/// As find_op, but throws Error(kInternal) if there is none.
const OpDef& get_op(std::string_view name);
/// Every definition, in name order.
const std::vector<const OpDef*>& all_ops();

}  // namespace sinter::ir
