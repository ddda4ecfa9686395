// SPDX-License-Identifier: Apache-2.0
#include "codegen/plan/panel_buffers.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "codegen/transforms.h"
#include "ir/constants/recipe.h"
#include "ir/parallel.h"
#include "runtime/plan/panels/quant_panels.h"

namespace sinter::codegen {

using ir::Attrs, ir::Ints, ir::Tensor;
using plan::QuantPanelShape;

namespace {

constexpr std::int64_t kNotUniform = 128;

/// Of grouped matmuls; absent for others.
std::int64_t matrices_of(const Attrs& attrs) {
  return attrs.has("matrices") ? attrs.get_int("matrices") : 1;
}

/// Of values [n, ..] of each matrix: attributes say the rest.
QuantPanelShape shape_of(const Attrs& attrs, const Tensor& values) {
  return {static_cast<int>(attrs.get_int("bits")), values.shape()[0] / matrices_of(attrs),
          attrs.get_int("k"), attrs.get_int("group")};
}

bool has_shape(const Attrs& attrs, std::span<const Tensor> inputs) {
  const std::int64_t bits = attrs.get_int("bits"), k = attrs.get_int("k"),
                     group = attrs.get_int("group");
  return (bits == 4 || bits == 8 || bits == 16) && k >= 0 && group > 0 && matrices_of(attrs) > 0 &&
         !inputs.empty() && inputs[0].shape().size() == 2 &&
         inputs[0].shape()[0] % matrices_of(attrs) == 0;
}

/// e8m0: 2^(code - 127); 255 is no number.
double power_of(std::int64_t code) {
  constexpr std::int64_t kNone = 255;
  const auto bits = static_cast<std::uint32_t>(code);
  return std::bit_cast<float>(code == 0 ? 1U << 22 : code == kNone ? 0x7fc00000U : bits << 23);
}

template <typename T>
void write_groups(const QuantPanelShape& shape, const std::byte* bytes,
                  std::vector<std::byte>& made) {
  const auto* from = reinterpret_cast<const T*>(bytes);
  auto* to = reinterpret_cast<T*>(made.data());
  auto* const end = reinterpret_cast<T*>(made.data() + made.size());
  for (; to < end; from += shape.n * shape.groups(), to += shape.group_count())
    plan::write_group_panels(shape, from, to);
}

std::vector<std::byte> groups_of(const Attrs& attrs, std::span<const Tensor> inputs) {
  const QuantPanelShape shape = shape_of(attrs, inputs[0]);
  const DType from = inputs[0].dtype(), type = attrs.get_dtype("type");
  const ir::HeldBytes held = inputs[0].hold();
  const std::int64_t matrices = matrices_of(attrs);
  std::vector<std::byte> made(static_cast<std::size_t>(matrices * shape.group_count()) *
                              size_of(type));
  if (from == type && type == DType::kInt8) {
    write_groups<std::int8_t>(shape, held.bytes.data(), made);
  } else if (from == type && type == DType::kFloat16) {
    write_groups<std::uint16_t>(shape, held.bytes.data(), made);
  } else {
    const std::int64_t groups = shape.groups();
    std::vector<float> floats(static_cast<std::size_t>(matrices * shape.n * groups));
    const auto unit = static_cast<float>(attrs.get_float("unit"));
    for (std::int64_t i = 0; i < std::ssize(floats); ++i) {
      const std::byte* at = held.bytes.data() + i * static_cast<std::int64_t>(size_of(from));
      float& number = floats[static_cast<std::size_t>(i)];
      number = static_cast<float>(from == DType::kUInt8 ? power_of(std::to_integer<int>(*at))
                                                        : ir::load_as_double(from, at));
      number *= unit * (inputs.size() > 1 ? static_cast<float>(inputs[1].at(i / groups)) : 1.0F);
    }
    write_groups<float>(shape, reinterpret_cast<const std::byte*>(floats.data()), made);
  }
  return made;
}

/// Elements of a row that are rounded together, whole words of panels; 0: groups are not so long,
/// or weights are floats.
std::uint8_t block_of(int bits, std::int64_t group, std::int64_t k) {
  if (bits == 16) return 0;
  for (const std::uint8_t block : {32, 16})
    if (group >= k || group % block == 0) return block;
  return 0;
}

}  // namespace

const ir::Derivation kPanelValues = {
    "panel_values",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      if (!has_shape(attrs, inputs) || inputs.size() != 1) return false;
      const DType type = inputs[0].dtype();
      const bool are_floats = type == DType::kFloat16 || type == DType::kBFloat16;
      const auto size = static_cast<std::int64_t>(size_of(type));
      return (attrs.get_int("bits") == 16 ? are_floats : size == 1) &&
             inputs[0].shape()[1] * size == shape_of(attrs, inputs[0]).pitch();
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const QuantPanelShape shape = shape_of(attrs, inputs[0]);
      return std::pair(
          shape.bits == 16 ? inputs[0].dtype() : DType::kUInt8,
          Ints{matrices_of(attrs) * shape.panels(), shape.units(), 4 * plan::kQuantPanelRows});
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const QuantPanelShape shape = shape_of(attrs, inputs[0]);
      const ir::HeldBytes held = inputs[0].hold();
      const auto all = static_cast<std::size_t>(matrices_of(attrs) * shape.panels());
      std::vector<std::byte> made(all * static_cast<std::size_t>(shape.panel_bytes()));
      ir::for_each_job(all, 0, [&](std::size_t panel) {
        const auto at = static_cast<std::int64_t>(panel), matrix = at / shape.panels();
        plan::write_value_panel(shape, at % shape.panels(),
                                held.bytes.data() + matrix * shape.n * shape.pitch(),
                                made.data() + at * shape.panel_bytes());
      });
      return made;
    }};

const ir::Derivation kPanelGroups = {
    "panel_groups",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      if (!has_shape(attrs, inputs) || inputs.size() > 2) return false;
      const QuantPanelShape shape = shape_of(attrs, inputs[0]);
      const DType from = inputs[0].dtype(), to = attrs.get_dtype("type");
      attrs.get_float("unit");
      return inputs[0].shape()[1] == shape.groups() &&
             (inputs.size() == 1 || inputs[1].element_count() == matrices_of(attrs) * shape.n) &&
             (to == DType::kFloat32 ? is_float(from) || from == DType::kUInt8
                                    : from == to && inputs.size() == 1 &&
                                          (to == DType::kFloat16 || to == DType::kInt8));
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const QuantPanelShape shape = shape_of(attrs, inputs[0]);
      return std::pair(attrs.get_dtype("type"), Ints{matrices_of(attrs) * shape.panels(),
                                                     shape.groups(), plan::kQuantPanelRows});
    },
    groups_of};

const ir::Transform kUniformZero = {
    "uniform_zero",
    [](const Attrs&, std::span<const Tensor> inputs) {
      return ir::has_inputs(inputs, 1) && inputs[0].dtype() == DType::kInt8;
    },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const ir::HeldBytes held = inputs[0].hold();
      std::int64_t zero = kNotUniform;
      if (!held.bytes.empty() &&
          std::ranges::count(held.bytes, held.bytes[0]) == std::ssize(held.bytes))
        zero = inputs[0].at_int(0);
      return std::vector{Tensor::from_ints(DType::kInt64, {}, std::span(&zero, 1))};
    },
    1};

std::uint32_t PanelBuffers::find_or_make(const std::array<std::int64_t, 4>& key,
                                         const Tensor& made) {
  const auto [at, is_new] = known_.try_emplace(key);
  if (is_new) at->second = buffers_.made_constant(std::make_shared<const Tensor>(made));
  return at->second;
}

void PanelBuffers::pack(plan::fb::MatmulStepT& product, std::vector<std::uint32_t>& reads,
                        const ExprTable& exprs, bool rounds) {
  plan::fb::QuantizationT& own = *product.quantization;
  const auto constant = [&](std::int64_t buffer) {
    return buffers_.constant_of(static_cast<std::uint32_t>(buffer));
  };
  // [n, ..]; of a grouped matmul the rows of all groups.
  const auto rows_of = [&](std::int64_t buffer) {
    const Tensor& all = *constant(buffer);
    if (all.shape().size() != 3) return all;
    return all.reshaped({all.shape()[0] * all.shape()[1], all.shape()[2]});
  };
  const auto given = {std::int64_t{product.b->buffer}, std::int64_t{own.scales},
                      std::int64_t{own.zero_points}, std::int64_t{own.factors},
                      std::int64_t{own.offsets}};
  if (!std::ranges::all_of(given, [&](std::int64_t b) { return b < 0 || constant(b) != nullptr; }))
    return;
  const auto group = static_cast<std::int64_t>(own.group);
  Attrs attrs{
      {"bits", std::int64_t{own.bits}}, {"k", exprs.dim(product.k).value()}, {"group", group}};
  if (const Ints& shape = constant(product.b->buffer)->shape(); shape.size() == 3)
    attrs.set("matrices", shape[0]);
  const Tensor values = rows_of(product.b->buffer);
  if (!kPanelValues.fits(attrs, std::span(&values, 1))) return;
  std::erase_if(reads, [&](std::uint32_t b) {
    return std::ranges::find(given, std::int64_t{b}) != given.end();
  });
  const auto take = [&](std::uint32_t buffer) {
    reads.push_back(buffer);
    return buffer;
  };
  product.b->buffer = take(find_or_make({product.b->buffer, -1, group, 0},
                                        ir::derive(kPanelValues, attrs, std::span(&values, 1))));
  product.b->dtype = static_cast<std::uint8_t>(own.bits == 16 ? values.dtype() : DType::kUInt8);
  // Numbers with the factors of rows, -1: none, times `unit`.
  const auto groups = [&](std::int64_t buffer, DType type, std::int64_t factors, float unit) {
    std::vector<Tensor> inputs{rows_of(buffer)};
    if (factors >= 0) inputs.push_back(rows_of(factors));
    Attrs all = attrs;
    all.set("type", type);
    all.set("unit", static_cast<double>(unit));
    return take(find_or_make({buffer, factors, group, std::bit_cast<std::int32_t>(unit)},
                             ir::derive(kPanelGroups, all, inputs)));
  };
  const auto narrow = [&](std::int64_t buffer) {
    return constant(buffer)->dtype() == DType::kFloat16 ? DType::kFloat16 : DType::kFloat32;
  };
  const float unit = own.numbers.empty() ? 1 : own.unit;
  own.scales =
      groups(own.scales, own.factors < 0 && unit == 1 ? narrow(own.scales) : DType::kFloat32,
             own.factors, unit);
  own.factors = -1;
  own.unit = 1;
  if (own.offsets >= 0)
    own.offsets = static_cast<std::int32_t>(groups(own.offsets, narrow(own.offsets), -1, 1));
  if (own.zero_points >= 0) {
    const Tensor& zeros = *constant(own.zero_points);
    std::int64_t zero = kNotUniform;
    if (own.bits == 4 && zeros.dtype() == DType::kInt8)
      zero = ir::apply(kUniformZero, {}, std::span(&zeros, 1)).front().at_int(0);
    own.zero = static_cast<std::int8_t>(zero == kNotUniform ? 0 : zero);
    own.zero_points = zero == kNotUniform
                          ? static_cast<std::int32_t>(groups(own.zero_points, zeros.dtype(), -1, 1))
                          : -1;
  }
  own.panels = true;
  const std::uint8_t block = block_of(own.bits, group, exprs.dim(product.k).value());
  if (rounds && block > 0) {
    constexpr std::uint8_t kBits = 8;
    own.activations = kBits;
    own.block = block;
  }
  // Equal constants share a buffer.
  for (const std::int64_t other :
       {std::int64_t{product.bias}, product.residual ? std::int64_t{product.residual->buffer} : -1})
    if (other >= 0 && std::ranges::find(reads, static_cast<std::uint32_t>(other)) == reads.end())
      take(static_cast<std::uint32_t>(other));
}

}  // namespace sinter::codegen
