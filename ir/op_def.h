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

/// What the compiler does with an operator; see the design's table.
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

/// How the result type of a pointwise operator follows from its inputs' types.
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
  /// Of casts, in place of `expr` where attribute "to" is a float of 8 bits, in the types' order:
  /// they round, as nothing in a fused region does, which computes in wider types.
  std::vector<ScalarExpr> to_float8 = {};

  /// What a node with `attrs` computes.
  const ScalarExpr& expression(const Attrs& attrs) const;
};

/// combine over the axes in attribute "axes" (sorted, non-negative); attribute "keepdims" is 0
/// or 1. `pre` maps an element before it is combined, `finish` the combined value; both are
/// expressions of x, finish also of y = the number of combined elements.
struct ReduceDef {
  Combine combine = Combine::kSum;
  ScalarExpr pre, finish;
};

/// One source of an output element of a view: input `input` at `index` (one Dim per input
/// dimension, over the symbols that stand for the output indices), valid where every guard holds
/// (0 <= guard.value < guard.extent). A view lists its sources in order; guards of different
/// sources exclude each other. Where none holds the element is `fill`.
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

/// Where an operator of kind kIndexed reaches into its data (input 0) along one dimension: at the
/// number that input `input` holds at index `at`, or, without an input, at `at[0]` itself. Numbers
/// that inputs hold count from the end if they are negative.
struct DataIndex {
  int input = -1;
  std::vector<Dim> at;
};
/// Maps an index (one Dim for each dimension) to one DataIndex for each dimension of the data.
using DataIndexMap = std::function<std::vector<DataIndex>(const Attrs& attrs, Types inputs,
                                                          std::span<const Dim> index)>;

/// Each element of the output is the element of the data that `map` says.
struct TakeDef {
  DataIndexMap map;
};
/// The output is the data (input 0), changed at the places to which `map` sends the elements of the
/// updates (input 1), in row-major order of the updates. `combine` says how an element is changed;
/// nothing: it is replaced.
struct ScatterDef {
  DataIndexMap map;
  std::function<std::optional<Combine>(const Attrs& attrs)> combine;
};
/// Each element of the output combines the elements of the data (input 0) along attribute "axis" up
/// to its own place: from the first one on, or with attribute "reverse" from the last; with
/// "exclusive" without its own, so that the first one's is the combination's identity.
struct ScanDef {
  std::function<Combine(const Attrs& attrs)> combine;
};
/// No inputs: the element at an index is a number that follows from the index.
struct GenerateDef {
  std::function<Dim(const Attrs& attrs, std::span<const Dim> index)> value;
};

/// Rewrites a node of a composite operator into simpler operators; returns its outputs.
using Decompose = std::function<std::vector<ValueId>(GraphBuilder& builder, const Node& node,
                                                     std::span<const ValueId> inputs)>;
struct CompositeDef {
  Decompose decompose;
};

/// What an error of an operand does to a result beyond an error of the same relative size. Whoever
/// rounds values to 16 bits (`--precision`) asks.
enum class Rounding : std::uint8_t {
  kRelative,  // nothing more
  kExponent,  // multiplies the result by e^error: logits
  kAbsolute,  // an error of 1 at 10,000 is as bad as at 1: angles, thresholds
  kIndex,     // may choose another element, or another box
};
/// How far results may leave the range of the operands by the operator's definition.
enum class Growth : std::uint8_t { kNone, kPower, kExponential };

/// What whoever changes the types of floats must know of an operator.
struct Numerics {
  std::vector<Rounding> operands = {};  // the last one holds for all behind it
  Growth growth = Growth::kNone;
  bool own_types = false;  // code or tables for the types that the model has: none is changed
};

struct AttrSpec {
  std::string name;
  AttrKind kind = AttrKind::kInt;
  std::optional<Attr> default_value;  // none: required
};

/// Result types for input types; throws Error(kInvalidModel) with the shapes in the message.
using Infer = std::function<std::vector<TensorType>(const Attrs& attrs, Types inputs)>;
/// Reference evaluation: float64 accumulation, results rounded once to the output type. `outputs`
/// are the concrete output types. Absent for pointwise, reduce and view operators: they are
/// evaluated from their definition.
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
  bool commutative = false;  // the first two inputs may be exchanged
  bool has_body = false;     // nodes own a graph, which says what they compute
  Numerics numerics = {};

  Rounding rounding_of(std::size_t operand) const {
    const auto& known = numerics.operands;
    return known.empty() ? Rounding::kRelative : known[std::min(operand, known.size() - 1)];
  }

  const PointwiseDef& pointwise() const { return std::get<PointwiseDef>(detail); }
  const ReduceDef& reduce() const { return std::get<ReduceDef>(detail); }
  const ViewDef& view() const { return std::get<ViewDef>(detail); }
  // Of kind kIndexed, one of these; null if it is another.
  const TakeDef* take() const { return std::get_if<TakeDef>(&detail); }
  const ScatterDef* scatter() const { return std::get_if<ScatterDef>(&detail); }
  const ScanDef* scan() const { return std::get_if<ScanDef>(&detail); }
  const GenerateDef* generate() const { return std::get_if<GenerateDef>(&detail); }
  const CompositeDef& composite() const { return std::get<CompositeDef>(detail); }
};

// ir/ops/registry.cpp has these, so that what only knows definitions needs no table.
/// The definition named `name`, or null.
const OpDef* find_op(std::string_view name);
/// As find_op, but throws Error(kInternal) if there is none.
const OpDef& get_op(std::string_view name);
/// Every definition, in name order.
const std::vector<const OpDef*>& all_ops();

}  // namespace sinter::ir
