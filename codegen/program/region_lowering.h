// The values of a region's body as instructions of a loop program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/program/loop_builder.h"
#include "ir/graph.h"

namespace sinter::codegen {

/// One attempt at a body over fixed loops.
class RegionLowering {
 public:
  RegionLowering(const ir::Graph& body, std::span<const std::uint32_t> inputs,
                 std::span<const std::uint32_t> outputs, const LoopSpace& space, ExprTable& exprs);

  /// Set if the loops as they are do not do; another split may.
  const std::optional<std::string>& refusal() const { return refusal_; }
  LoopBuilder& builder() { return build_; }
  /// Where along dimensions of the space another source of a view begins.
  const std::map<std::size_t, std::set<std::int64_t>>& cuts() const { return cuts_; }

 private:
  using Guards = std::vector<ir::ViewSource::Guard>;

  /// `value` at `index`. Loads below it read only where all of `guards` hold.
  std::uint32_t eval(ir::ValueId value, std::vector<ir::Dim> index, const Guards& guards);

  std::uint32_t eval_new(ir::ValueId value, const std::vector<ir::Dim>& index,
                         const Guards& guards);

  std::uint32_t constant(const ir::Tensor& tensor);

  std::uint32_t load(ir::ValueId value, const std::vector<ir::Dim>& index, const Guards& guards,
                     double fill);

  std::uint32_t pointwise(const ir::Node& node, ir::ValueId value,
                          const std::vector<ir::Dim>& index, const Guards& guards);

  /// `declared`: the graph's type for the result.
  std::uint32_t expand(const ir::ScalarExpr& expr, const ir::Attrs& attrs,
                       std::span<const std::uint32_t> operands, std::span<const DType> types,
                       DType declared);

  std::uint32_t reduce(const ir::Node& node, ir::ValueId value, const std::vector<ir::Dim>& index);

  std::uint32_t scan(const ir::Node& node, ir::ValueId value, const std::vector<ir::Dim>& index);

  /// Index of the space's dimensions `extents` (with loop indices `index`) as dimensions of
  /// `shape`, if they enumerate the same elements.
  std::optional<std::vector<ir::Dim>> matching_index(const ir::Shape& shape,
                                                     const ir::Shape& extents,
                                                     const std::vector<ir::Dim>& index);

  std::uint32_t view(const ir::Node& node, ir::ValueId value, const std::vector<ir::Dim>& index,
                     const Guards& guards);

  /// The guards of one of several sources hold between two indices of a dimension.
  void note_cuts(const Guards& guards);

  std::uint32_t take(const ir::Node& node, const std::vector<ir::Dim>& index, const Guards& guards);

  /// The updates are evaluated before their places, as a load comes before a store.
  void scatter(const ir::Node& node, std::uint32_t buffer);

  std::vector<ir::TensorType> input_types(const ir::Node& node) const;

  /// Positions that follow from the loops become part of the address, others are gathered.
  std::vector<ir::Dim> data_index(const ir::Node& node, const std::vector<ir::DataIndex>& map,
                                  const Guards& guards);

  /// `position` in a dimension of `extent` elements, if it is known to lie inside and is linear in
  /// the loops, perhaps after a split of one.
  std::optional<ir::Dim> usable_position(ir::Dim position, const ir::Dim& extent) const;

  /// The loops' index in the dimensions of output `value`.
  std::vector<ir::Dim> output_index(ir::ValueId value);

  const ir::Graph& body_;
  std::span<const std::uint32_t> inputs_;
  const LoopSpace& space_;
  LoopBuilder build_;
  ir::Shape outer_shape_, row_shape_;
  std::vector<ir::Dim> outer_index_, row_index_;
  std::map<std::string, std::uint32_t> known_;
  std::map<std::size_t, std::set<std::int64_t>> cuts_;
  std::optional<std::string> refusal_;
};

}  // namespace sinter::codegen
