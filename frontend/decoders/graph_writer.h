// SPDX-License-Identifier: Apache-2.0
// What decoders are written with: layers as operators of ir.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/decoders/config/decoder_config.h"
#include "frontend/decoders/files/tensor_file.h"
#include "ir/graph.h"

namespace sinter::frontend {

class GraphWriter {
 public:
  /// `type`: of activations.
  GraphWriter(std::string name, DType type) : b(std::move(name)), type_(type) {}

  DType type() const { return type_; }
  const ir::Shape& shape(ir::ValueId value) const { return b.type(value).shape; }
  /// Nodes from here on come from `name`.
  void scope(const std::string& name);

  ir::ValueId add(std::string_view op, ir::ValueId x, ir::ValueId y) { return b.add(op, {x, y}); }
  ir::ValueId cast(ir::ValueId x, DType type);
  ir::ValueId reshape(ir::ValueId x, ir::Shape shape);
  ir::ValueId transpose(ir::ValueId x, ir::Ints perm);
  /// Elements first, first + 1, .. first + count - 1 along `axis`.
  ir::ValueId part(ir::ValueId x, std::size_t axis, std::int64_t first, std::int64_t count);
  /// 0, 1, .. along dimension `axis` of `rank`, int64.
  ir::ValueId iota(const ir::Dim& count, std::size_t axis, std::size_t rank);
  /// A number of the type of activations.
  ir::ValueId number(double value) { return b.scalar(type_, value); }
  ir::ValueId ones(std::int64_t size);
  /// x * factor; x itself for 1.
  ir::ValueId scaled(ir::ValueId x, double factor);
  /// cap * tanh(x / cap); x itself for 0.
  ir::ValueId capped(ir::ValueId x, double cap);

  ir::ValueId activated(ir::ValueId x, Activation activation);

  /// x [.., columns] times the transpose of `weights` [rows, columns], which keep their format.
  ir::ValueId product(ir::ValueId x, const StoredTensor& weights, const std::string& name);
  /// Rows x [rows, columns], sorted by matrix, times the transpose of `weights` [matrices, n,
  /// columns] each; if `transposed` is false, times plain matrices [columns, n].
  ir::ValueId grouped_product(ir::ValueId x, const StoredTensor& weights, const std::string& name,
                              ir::ValueId offsets, bool transposed);
  /// Rows `ids` of a table, in the type of activations.
  ir::ValueId rows(const StoredTensor& table, const std::string& name, ir::ValueId ids);
  /// Rotates pairs of the first elements of the last dimension of x [1, heads, length, size], half
  /// of them apart, by angles with cosines and sines [1, 1, length, pairs].
  ir::ValueId rotated(ir::ValueId x, ir::ValueId cos, ir::ValueId sin);
  /// `cache` [1, heads, capacity, size] with `rows` [1, heads, length, size] from `first` [1] on.
  ir::ValueId put_rows(ir::ValueId cache, ir::ValueId rows, ir::ValueId first);
  /// softmax(mask(cap(scale * q k'))) v; consecutive heads of q share a head of k and v. `sinks`,
  /// if valid: for each head of q the score of one more key, whose value is zero. `hidden`: the
  /// score of what `mask` hides.
  ir::ValueId attended(ir::ValueId q, ir::ValueId k, ir::ValueId v, ir::ValueId mask, double scale,
                       double cap, ir::ValueId sinks = {},
                       double hidden = -std::numeric_limits<double>::infinity());
  /// In place of a hidden score where a token may see none: float16's lowest, so that numbers come
  /// of it.
  static constexpr double kLowest = -65504;
  /// softmax(scale * q k' + bias) v, without keys that `mask` hides, of as many heads of each. Both
  /// may be missing.
  ir::ValueId attended_by_heads(ir::ValueId q, ir::ValueId k, ir::ValueId v, double scale,
                                ir::ValueId mask = {}, ir::ValueId bias = {});

  ir::GraphBuilder b;

 private:
  DType type_;
  std::unique_ptr<ir::GraphBuilder::OriginScope> scope_;
};

}  // namespace sinter::frontend
