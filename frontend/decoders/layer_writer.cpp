// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/layer_writer.h"

namespace sinter::frontend {

using ir::Dim;
using ir::Ints;
using ir::ValueId;

ValueId LayerWriter::vector(const std::string& name, std::int64_t size, bool is_wide,
                            const Ints& order) {
  const ValueId value = w_.b.constant(weights_.take_plain(name, {size}, order), name);
  return w_.cast(value, is_wide ? DType::kFloat32 : w_.type());
}

ValueId LayerWriter::linear(ValueId x, std::string_view what, std::size_t layer, std::int64_t rows,
                            std::int64_t columns, std::optional<bool> has_bias, const Ints& order) {
  const std::string name = weights_.name(std::string(what) + ".weight", layer);
  ValueId y = w_.product(x, weights_.take_rows(name, {rows, columns}, order), name);
  const std::string bias = weights_.name(std::string(what) + ".bias", layer);
  if (has_bias.value_or(weights_.has(bias))) y = w_.add("Add", y, vector(bias, rows, false, order));
  return y;
}

ValueId LayerWriter::norm(ValueId x, std::string_view what, std::optional<std::size_t> layer,
                          std::int64_t size) {
  if (size == 0) size = c_.hidden;
  const auto name = [&](const char* part) {
    return weights_.name(std::string(what) + part, layer);
  };
  const ir::Attrs attrs{{"axis", static_cast<std::int64_t>(w_.shape(x).size() - 1)},
                        {"epsilon", c_.epsilon}};
  switch (c_.norm) {
    case NormKind::kRms: return w_.b.add("RmsNorm", {x, vector(name(".weight"), size)}, attrs);
    case NormKind::kRmsPlusOne: {
      // 1 + w has more bits than 16-bit types have.
      const ValueId weight =
          w_.add("Add", vector(name(".weight"), size, true), w_.b.scalar(DType::kFloat32, 1));
      return w_.cast(w_.b.add("RmsNorm", {w_.cast(x, DType::kFloat32), weight}, attrs), w_.type());
    }
    case NormKind::kLayer: {
      std::vector<ValueId> inputs{x, vector(name(".weight"), size)};
      if (weights_.has(name(".bias"))) inputs.push_back(vector(name(".bias"), size));
      return w_.b.add("LayerNorm", std::move(inputs), attrs);
    }
    case NormKind::kPlainLayer: return w_.b.add("LayerNorm", {x, w_.ones(size)}, attrs);
  }
  return x;
}

ValueId LayerWriter::split(ValueId x, std::int64_t heads, std::int64_t size) {
  const ir::Shape& shape = w_.shape(x);
  const Dim batch = shape.size() == 3 ? shape[0] : Dim(1), sequence = shape[shape.size() - 2];
  return w_.transpose(w_.reshape(x, {batch, sequence, Dim(heads), Dim(size)}), {0, 2, 1, 3});
}

}  // namespace sinter::frontend
